package server

import (
	"context"
	"log/slog"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// logTransitions writes one line per task transition. Only the leader calls it,
// so a transition is logged once in the cluster.
func (s *Server) logTransitions(events []fsm.Event) {
	if !s.log.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	for i := range events {
		e := &events[i]
		if e.Task == nil || e.Kind == fsm.EventEnded && e.Task.Attempt > 0 {
			continue // the end of the attempt tells it already
		}
		s.log.LogAttrs(context.Background(), slog.LevelInfo, "task "+transition(e), s.transitionAttrs(e)...)
	}
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
