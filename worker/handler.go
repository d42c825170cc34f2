package worker

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
)

// runHandler calls a function of this program. It returns when the function
// does: a function can't be killed.
func (w *Worker) runHandler(a *attempt) (e ended) {
	defer func() {
		if p := recover(); p != nil {
			w.log.Error("handler panicked", append(refAttrs(a.item.Ref, a.item.Job), "panic", p, "stack", string(debug.Stack()))...)
			e = failed(fmt.Sprintf("handler %s panicked: %v", a.executor.Handler, p))
			e.class = job.ClassPanic
		}
	}()
	t := Task{
		ID: job.ID(a.item.Ref.ID), Namespace: a.item.Ref.Namespace, Job: a.item.Job,
		Attempt: int(a.item.Ref.Attempt), Token: tokenOf(a.item.Ref), Payload: a.item.Payload,
		Due: time.UnixMilli(a.item.DueMS), Late: max(w.clock.at(a.began)-a.due(), 0),
		beat: func() { a.beat.Store(int64(w.cfg.Clock())) },
		done: func(ctx context.Context, m rpc.Done) (rpc.DoneReply, error) {
			m.Ref = a.item.Ref
			return w.askDone(ctx, m)
		},
	}
	if o := a.item.Origin; o != nil {
		t.Run, t.Step, t.Schedule = job.ID(o.Run), o.Step, o.Schedule
		if o.NominalMS != 0 {
			t.Nominal = time.UnixMilli(o.NominalMS)
		}
	}
	output, err := w.handlers[a.executor.Handler](a.ctx, t)
	return w.judge(a, output, err)
}

// judge turns what a call in this process came to into an outcome. A call that
// succeeded although it was asked to stop has succeeded.
func (w *Worker) judge(a *attempt, output []byte, err error) ended {
	kept, note := keepOutput(output)
	if err == nil {
		return ended{outcome: job.OutcomeSuccess, output: kept, err: note}
	}
	e := ended{outcome: job.OutcomeFailed, output: kept, err: joinTexts([]string{err.Error(), note})}
	e.advise(err)
	if reason := w.table.reasonOf(a); reason != stopNone {
		e.outcome = outcomeOf(reason)
		e.err = joinTexts([]string{stopCause(reason).Error(), err.Error(), note})
	}
	return e
}
