package bench

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

const barWidth = 30

// console tells people how far a scenario is: notes, and a bar on a terminal.
type console struct {
	w        io.Writer
	terminal bool

	mu    sync.Mutex
	drawn bool
}

func newConsole(w io.Writer) *console {
	c := &console{w: w}
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		c.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return c
}

// say prints a line above the bar.
func (c *console) say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wipe()
	_, _ = fmt.Fprintf(c.w, format+"\n", args...)
}

// bar draws how far it is, on a terminal alone.
func (c *console) bar(what string, done, total int) {
	if !c.terminal {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	full := barWidth * min(done, total) / max(total, 1)
	_, _ = fmt.Fprintf(c.w, "\r\x1b[K  %s %s%s %d/%d", what, strings.Repeat("█", full),
		strings.Repeat("░", barWidth-full), done, total)
	c.drawn = true
}

func (c *console) wipe() {
	if c.drawn {
		_, _ = fmt.Fprint(c.w, "\r\x1b[K")
		c.drawn = false
	}
}

// done takes the bar away.
func (c *console) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wipe()
}
