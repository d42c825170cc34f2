package api

import (
	"net/http"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

func showDeadAct(act *fsm.DeadAct) client.DeadLetterAct {
	out := client.DeadLetterAct{
		ID: act.ID.String(), Namespace: act.Namespace, Verb: "discard", State: client.DeadLetterActRunning, Matched: act.Matched, AtLeast: act.AtLeast,
		Done: int64(act.Done), Refused: int64(act.Refused), Left: act.Left(), Actor: act.Actor, BeganAt: instant(act.Began), EndedAt: instant(act.Ended),
		Filter: &client.DeadLetterFilter{Job: act.Filter.Job, Error: act.Filter.Error, From: job.FormatTime(act.Filter.From), To: job.FormatTime(act.Filter.To)},
	}
	if act.Replay {
		out.Verb = "replay"
	}
	switch {
	case act.Cancelled:
		out.State = "cancelled"
	case act.Ended != 0:
		out.State = "done"
	}
	return out
}

func (a *api) listDeadActs(r *request) error {
	out := client.DeadLetterActList{Acts: []client.DeadLetterAct{}}
	err := a.read(r, func(v fsm.Reader) error {
		for _, act := range fsm.DeadActs(v, r.namespace) {
			out.Acts = append(out.Acts, showDeadAct(&act))
		}
		return nil
	})
	if err != nil {
		return err
	}
	return write(r, http.StatusOK, out)
}

// deadActID reads the act that a path names. What is no id names nothing.
func (r *request) deadActID() (job.ID, *job.Error) {
	id, err := job.ParseID(r.name("act"))
	if err != nil {
		return id, job.NotFound("act", r.name("act"))
	}
	return id, nil
}

func (a *api) getDeadAct(r *request) error {
	id, wrong := r.deadActID()
	if wrong != nil {
		return wrong
	}
	var out client.DeadLetterAct
	err := a.read(r, func(v fsm.Reader) error {
		act, ok := fsm.GetDeadAct(v, r.namespace, id)
		if !ok {
			return job.NotFound("act", id.String())
		}
		out = showDeadAct(&act)
		return nil
	})
	if err != nil {
		return err
	}
	return write(r, http.StatusOK, out)
}

func (a *api) cancelDeadAct(r *request) error {
	if err := decode(r.body, &struct{}{}); err != nil {
		return err
	}
	id, wrong := r.deadActID()
	if wrong != nil {
		return wrong
	}
	result, wrong := a.propose(r.ctx, fsm.CancelDeadAct{Namespace: r.namespace, ID: id})
	if wrong != nil {
		return wrong
	}
	return write(r, http.StatusOK, showDeadAct(result.DeadAct))
}
