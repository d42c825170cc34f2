package server

import (
	"context"
	"log/slog"
	"strings"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// maxTransitionLines is how many transitions of one log entry get a line each: of
// more, as a batch of submits brings, the lines would cost more than the tasks.
const maxTransitionLines = 64

// logTransitions writes one line per task transition, or one for all where an
// entry holds many; at debug level they have a line each in any case. Only the
// leader calls it, so a transition is logged once in the cluster.
func (s *Server) logTransitions(events []fsm.Event) {
	ctx := context.Background()
	if !s.log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	if len(events) > maxTransitionLines && !s.log.Enabled(ctx, slog.LevelDebug) {
		s.log.LogAttrs(ctx, slog.LevelInfo, "tasks changed", countTransitions(events)...)
		return
	}
	for i := range events {
		e := &events[i]
		if untold(e) {
			continue
		}
		s.log.LogAttrs(ctx, slog.LevelInfo, "task "+transition(e), s.transitionAttrs(e)...)
	}
}

// untold reports whether an event is no transition of its own: the end of the
// attempt tells the task's.
func untold(e *fsm.Event) bool {
	return e.Task == nil || e.Kind == fsm.EventEnded && e.Task.Attempt > 0
}

// countTransitions tells how many of each kind there are, in the order of the
// first of each, and the first and last task.
func countTransitions(events []fsm.Event) []slog.Attr {
	var names []string
	counts := map[string]int{}
	var first, last *fsm.Task
	for i := range events {
		e := &events[i]
		if untold(e) {
			continue
		}
		name := transition(e)
		if counts[name]++; counts[name] == 1 {
			names = append(names, name)
		}
		if first == nil {
			first = e.Task
		}
		last = e.Task
	}
	var attrs []slog.Attr
	for _, name := range names {
		attrs = append(attrs, slog.Int(strings.ReplaceAll(name, " ", "_"), counts[name]))
	}
	if first != nil {
		attrs = append(attrs, slog.String("first_task_id", first.ID.String()), slog.String("last_task_id", last.ID.String()))
	}
	return attrs
}

// transition names what happened to the task.
func transition(e *fsm.Event) string {
	switch e.Kind {
	case fsm.EventPending:
		switch {
		case e.Task.Retry:
			return "retrying"
		case e.Task.Attempt == 0 && e.Task.Version <= 1:
			return "created"
		}
		return "pending"
	case fsm.EventAssigned:
		return "dispatched"
	case fsm.EventRunning:
		return "running"
	case fsm.EventAttemptEnded:
		return "attempt ended"
	case fsm.EventCancelWanted:
		return "cancel requested"
	}
	return e.Task.State.String()
}

func (s *Server) transitionAttrs(e *fsm.Event) []slog.Attr {
	t := e.Task
	attrs := make([]slog.Attr, 0, 16)
	attrs = append(attrs, slog.String("task_id", t.ID.String()), slog.String("namespace", t.Namespace))
	text := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, value))
		}
	}
	text("job", t.Job)
	text("state", t.State.String())
	text("execute_time", job.FormatTime(t.Due))
	if t.Attempt > 0 {
		attrs = append(attrs, slog.Uint64("attempt", uint64(t.Attempt)))
	}
	text("worker", t.Worker)
	if t.Worker != "" {
		if sess := s.sessions.byName(t.Worker); sess != nil {
			text("worker_address", sess.address)
		}
	}
	text("dispatched_at", job.FormatTime(t.Dispatched))
	text("started_at", job.FormatTime(t.Started))
	text("finished_at", job.FormatTime(t.Ended))
	if t.ExitCode != nil {
		attrs = append(attrs, slog.Int("exit_code", *t.ExitCode))
	}
	text("outcome", e.Outcome.String())
	text("error", t.Error)
	return attrs
}
