package server

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// TestTransitionsOfALargeEntryShareALine wants a line for each transition of a
// small entry, and of a large one only at debug level.
func TestTransitionsOfALargeEntryShareALine(t *testing.T) {
	events := make([]fsm.Event, maxTransitionLines+1)
	for i := range events {
		events[i] = fsm.Event{Kind: fsm.EventPending, Task: &fsm.Task{ID: job.NewID(1, 1, uint32(i)), State: job.Pending, Version: 1}}
	}
	for _, c := range []struct {
		level  slog.Level
		events int
		lines  int
	}{
		{slog.LevelInfo, maxTransitionLines, maxTransitionLines},
		{slog.LevelInfo, len(events), 1},
		{slog.LevelDebug, len(events), len(events)},
		{slog.LevelWarn, len(events), 0},
	} {
		var out bytes.Buffer
		s := &Server{log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: c.level}))}
		s.logTransitions(events[:c.events])
		if n := strings.Count(out.String(), "\n"); n != c.lines {
			t.Errorf("%d events at level %v: %d lines, want %d", c.events, c.level, n, c.lines)
		}
		if c.lines == 1 && !strings.Contains(out.String(), "created=65 first_task_id="+events[0].Task.ID.String()) {
			t.Errorf("got %s", out.String())
		}
	}
}
