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
	attempt        int      // the number of the attempt that is followed, once known
	streams        [2]shown // its stdout and stderr
	heard          time.Time
	pause          time.Duration
	told           bool // the user knows that the connection is broken
}

// shown is what is known of a stream that was shown: to go on where a broken
// connection ended.
type shown struct {
	last  string // its end, at most keepShown bytes
	fresh bool   // the next chunk is the first of a connection: the output kept so far
}

// keepShown is as long as the output that a worker keeps.
const keepShown = 64 << 10

// The limits of following a task.
const (
	minAgain   = 20 * time.Millisecond
	maxAgain   = 2 * time.Second
	settleTime = 400 * time.Millisecond // an attempt that can start now has started by then
	followTime = 2 * time.Minute        // without an answer; then the watcher gives up, the task does not
)

// watch returns the task as it ended. A connection that breaks is made again.
func (w *watcher) watch(ctx context.Context, id string) (client.Task, error) {
	w.hear()
	if task, err := w.settle(ctx, id); err != nil {
		return task, err
	}
	for {
		for i := range w.streams {
			w.streams[i].fresh = true
		}
		task, err := w.client.Follow(ctx, id, func(c client.LogChunk) {
			w.hear()
			w.chunk(c)
		})
		switch {
		case err == nil && client.Ended(task.State):
			return task, nil
		case err == nil:
			w.next(task)
		case ctx.Err() != nil || time.Since(w.heard) > followTime:
			return task, err
		case transient(err):
			if !w.told {
				w.told = true
				_, _ = fmt.Fprintln(w.stderr, "axd: the connection broke; the task goes on, connecting again")
			}
		default:
			// Most likely the attempt began or ended at this moment, and the worker
			// does not know it yet or any more. The task tells.
			if task, err = w.client.Task(ctx, id); err != nil {
				return task, err
			}
		}
		if !sleep(ctx, w.pause) {
			return task, ctx.Err()
		}
		w.pause = min(2*w.pause, maxAgain)
	}
}

func (w *watcher) hear() { w.heard, w.pause, w.told = time.Now(), minAgain, false }

// next goes over to what follows the end of a stream. While the task is active
// that is the same attempt, whose end is not committed yet, or the next one.
func (w *watcher) next(task client.Task) {
	w.heard, w.told = time.Now(), false
	active := task.State == job.Dispatched.String() || task.State == job.Running.String()
	if !active || (w.attempt != 0 && w.attempt != task.Attempt) {
		w.streams = [2]shown{}
		w.pause = minAgain
	}
	w.attempt = 0
	if active {
		w.attempt = task.Attempt
	}
}

// settle gives the attempt a moment to start: a server that follows a waiting
// task looks for its attempt at a slower pace.
func (w *watcher) settle(ctx context.Context, id string) (client.Task, error) {
	for pause := 2 * time.Millisecond; ; pause *= 2 {
		task, err := w.client.Task(ctx, id)
		if err != nil || task.State != string(job.ShownWaiting) || time.Since(w.heard) > settleTime {
			return task, err
		}
		if !sleep(ctx, pause) {
			return task, ctx.Err()
		}
	}
}

// sleep waits for d and reports false when ctx ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// transient reports whether the servers, not the task, are the reason.
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
