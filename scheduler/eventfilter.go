package scheduler

import (
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/internal/expression"
	"github.com/axd-project/axd/job"
)

// judgeEvent evaluates the filters of the next schedules that an event is to ask.
func judgeEvent(r fsm.Reader, act fsm.ScheduleAct) []fsm.Judged {
	if act.Kind != fsm.ActEvent {
		return nil
	}
	e, ok := fsm.OpenEvent(r, act.Ref)
	if !ok {
		return nil
	}
	var judged []fsm.Judged
	for _, s := range fsm.ListSubscribers(r, e.Namespace, e.Name, e.After, fsm.MaxEventFires) {
		if s.Spec.Event == nil || s.Spec.Event.Filter == "" {
			continue
		}
		j := fsm.Judged{Schedule: s.Name, Version: s.Version}
		filter, wrong := expression.CompileFilter(s.Spec.Event.Filter)
		if wrong != nil {
			j.Error = wrong.Error()
		} else if pass, err := expression.Passes(filter, e.Name, e.Dedup, job.Timestamp(e.At).Std(), e.Payload); err != nil {
			j.Error = err.Error()
		} else {
			j.Pass = pass
		}
		judged = append(judged, j)
	}
	return judged
}
