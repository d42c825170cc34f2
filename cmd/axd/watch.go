package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

// watcher shows a task's output until the task has ended for good.
type watcher struct {
	client         *client.Client
	stdout, stderr io.Writer
	streams        [2]shown // stdout, stderr of the attempt that is followed
}

// shown is what is known of a stream that was shown: to go on where a broken
// connection ended.
type shown struct {
	last  string // its end, at most keepShown bytes
	fresh bool   // the next chunk is the first of a connection: the output kept so far
}

// keepShown is as long as the output that a worker keeps.
const keepShown = 64 << 10

// The limits of following a task while servers fail.
const (
	minAgain   = 100 * time.Millisecond
	maxAgain   = 2 * time.Second
	followTime = 2 * time.Minute // without an answer; then the watcher gives up, the task does not
)

// watch returns the task as it ended. A connection that breaks is made again.
func (w *watcher) watch(ctx context.Context, id string) (client.Task, error) {
	heard, pause, told := time.Now(), minAgain, false
	for {
		for i := range w.streams {
			w.streams[i].fresh = true
		}
		task, err := w.client.Follow(ctx, id, func(c client.LogChunk) {
			heard, pause = time.Now(), minAgain
			w.chunk(c)
		})
		if err == nil {
			if client.Ended(task.State) {
				return task, nil
			}
			heard, pause, told = time.Now(), minAgain, false
			w.streams = [2]shown{} // what follows is another attempt
			continue
		}
		if !transient(err) || time.Since(heard) > followTime {
			return task, err
		}
		if !told {
			told = true
			_, _ = fmt.Fprintf(w.stderr, "axd: %v; the task goes on, connecting again\n", err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return task, ctx.Err()
		}
		pause = min(2*pause, maxAgain)
	}
}

// transient reports whether following again may help.
func transient(err error) bool {
	for _, e := range []error{job.ErrNoLeader, job.ErrUnknownOutcome, job.ErrOverloaded} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (w *watcher) chunk(c client.LogChunk) {
	s, out := &w.streams[0], w.stdout
	if c.Stream == "stderr" {
		s, out = &w.streams[1], w.stderr
	}
	data, skipped := c.Data, c.Skipped
	if s.fresh && s.last != "" {
		var found bool
		if data, found = beyond(s.last, data); found {
			skipped = 0
		}
	}
	s.fresh = false
	if skipped > 0 {
		_, _ = fmt.Fprintf(w.stderr, "axd: up to %d bytes of %s are not shown\n", skipped, c.Stream)
	}
	_, _ = io.WriteString(out, data)
	if s.last += data; len(s.last) > keepShown {
		s.last = strings.Clone(s.last[len(s.last)-keepShown:])
	}
}

// beyond returns the part of kept that comes after what was shown, and whether
// the two were found to meet. Both are parts of one stream, kept the later one.
func beyond(shown, kept string) (string, bool) {
	const probe = 256 // bytes that tell one place from another
	if len(shown) > probe {
		if i := strings.LastIndex(kept, shown[len(shown)-probe:]); i >= 0 {
			return kept[i+probe:], true
		}
	}
	for n := min(len(shown), len(kept)); n > 0; n-- {
		if strings.HasSuffix(shown, kept[:n]) {
			return kept[n:], true
		}
	}
	return kept, false
}
