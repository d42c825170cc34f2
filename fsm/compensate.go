package fsm

import (
	"encoding/json"

	"github.com/axd-project/axd/job"
)

// compensation is the payload of a task that a job's compensation asks for: what it
// has to make good.
type compensation struct {
	Task           string          `json:"task"`
	Job            string          `json:"job,omitempty"`
	State          string          `json:"state"`
	Error          string          `json:"error,omitempty"`
	ExitCode       *int            `json:"exit_code,omitempty"`
	Attempts       uint32          `json:"attempts"`
	Payload        json.RawMessage `json:"payload,omitempty"`
	PayloadOmitted bool            `json:"payload_omitted,omitempty"` // it would not fit: read the task
}

// compensate prepares the task that follows a failed one by its policy, nil where
// none does: one that compensates is not compensated itself, so that two jobs can't
// go on by turns for ever. It is written with the failed task.
func (a *apply) compensate(t *Task, name string) *Task {
	if !t.Compensates.IsZero() {
		return nil
	}
	payload := a.compensationPayload(t)
	next := new(Task)
	spec := job.TaskSpec{Job: name, Payload: payload}
	if err := a.plan(t.Namespace, &spec, next); err != nil {
		t.Error = cut(t.Error + "; its compensation could not begin: " + err.Error())
		return nil
	}
	next.ID = job.NewID(a.now, a.at.Index, a.next())
	next.Compensates, t.CompensatedBy = t.ID, next.ID
	a.putBody(next, &Body{Payload: payload})
	return next
}

func (a *apply) compensationPayload(t *Task) []byte {
	c := compensation{
		Task: t.ID.String(), Job: t.Job, State: t.State.String(), Error: t.Error, ExitCode: t.ExitCode, Attempts: t.Attempt,
	}
	if body, ok := BodyOf(a.tx, t); ok && json.Valid(body.Payload) {
		c.Payload = body.Payload
	}
	b, err := json.Marshal(c)
	if err != nil || len(b) > job.MaxPayload {
		c.Payload, c.PayloadOmitted = nil, true
		b, _ = json.Marshal(c) // of texts and numbers alone
	}
	return b
}
