package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// progress shows how far it is: a bar that is redrawn on a terminal, nothing
// between the notes elsewhere.
type progress struct {
	w        *os.File
	terminal bool
	drawn    bool
}

func newProgress(w *os.File) *progress {
	info, err := w.Stat()
	return &progress{w: w, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

const barWidth = 40

func (p *progress) show(done, total int, elapsed time.Duration, leader string) {
	if !p.terminal {
		return
	}
	if leader == "" {
		leader = "nobody"
	}
	full := barWidth * done / max(total, 1)
	_, _ = fmt.Fprintf(p.w, "\r\x1b[K  %s%s %d/%d  %4.1f s  leader: %s", strings.Repeat("█", full),
		strings.Repeat("░", barWidth-full), done, total, elapsed.Seconds(), leader)
	p.drawn = true
}

// note prints a line above the bar.
func (p *progress) note(format string, args ...any) {
	p.done()
	say(format, args...)
}

// done takes the bar away.
func (p *progress) done() {
	if p.drawn {
		_, _ = fmt.Fprint(p.w, "\r\x1b[K")
		p.drawn = false
	}
}
