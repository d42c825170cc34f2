package chaos

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// Event is something worth to be known when a run is looked into.
type Event struct {
	At   time.Duration // that the cluster had lived
	What string
}

// String shows an event in a line.
func (e Event) String() string { return fmt.Sprintf("%10.3fs %s", e.At.Seconds(), e.What) }

const (
	maxEvents = 5000
	maxLines  = 4000 // of logs that are kept
)

// note records an event.
func (c *Cluster) note(format string, args ...any) {
	e := Event{c.Age(), fmt.Sprintf(format, args...)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.events) < maxEvents {
		c.events = append(c.events, e)
	}
}

// exited notes that a server has ended itself.
func (c *Cluster) exited(server string, code int) {
	c.note("server %s ended itself with code %d", server, code)
	c.Ledger.troubled("", time.Now())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended++
}

// Events returns what was noted, in order.
func (c *Cluster) Events() []Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.events)
}

// line is one that a process logged; it is put into words only if somebody asks.
type line struct {
	at     time.Duration
	attrs  []slog.Attr
	record slog.Record
}

// Log returns the last lines that processes logged.
func (c *Cluster) Log() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for i := range c.lines {
		out = append(out, c.lines[(c.logged+i)%len(c.lines)].String())
	}
	return out
}

func (l line) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%10.3fs %-5s %s", l.at.Seconds(), l.record.Level, l.record.Message)
	b.WriteString(words(l.attrs))
	l.record.Attrs(func(a slog.Attr) bool {
		b.WriteString(" " + a.String())
		return true
	})
	return b.String()
}

// words puts attributes in a row.
func words(attrs []slog.Attr) string {
	var b strings.Builder
	for _, a := range attrs {
		b.WriteString(" " + a.String())
	}
	return b.String()
}

func (c *Cluster) logLine(l line) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.lines) < maxLines {
		c.lines = append(c.lines, l)
		return
	}
	c.lines[c.logged%maxLines] = l
	c.logged++
}

// recorder passes log lines on and keeps the last of them. Those that say that the
// cluster is broken are problems.
type recorder struct {
	next  slog.Handler
	c     *Cluster
	attrs []slog.Attr
}

// Enabled implements slog.Handler.
func (h *recorder) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelInfo || h.next.Enabled(ctx, l)
}

// leads is what a server logs once it has taken leadership over.
const leads = "leading"

// Handle implements slog.Handler.
func (h *recorder) Handle(ctx context.Context, r slog.Record) error {
	l := line{h.c.Age(), h.attrs, r}
	if r.Level >= slog.LevelInfo {
		h.c.logLine(l)
	}
	switch {
	case r.Level >= slog.LevelError && !expectedError(r.Message):
		h.c.Problem("a process logged an error: %s", strings.TrimSpace(l.String()))
	case r.Message == leads:
		h.c.note("leads:%s", words(h.attrs))
	}
	if !h.next.Enabled(ctx, r.Level) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *recorder) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &recorder{next: h.next.WithAttrs(attrs), c: h.c, attrs: append(slices.Clip(h.attrs), attrs...)}
}

// WithGroup implements slog.Handler.
func (h *recorder) WithGroup(name string) slog.Handler {
	return &recorder{next: h.next.WithGroup(name), c: h.c, attrs: h.attrs}
}
