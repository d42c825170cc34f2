package api

import (
	"net/http"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

func doneRoutes() []route {
	return []route{
		{
			method: get, path: "/v1/tasks/:id/done/:name", handle: (*api).getDone, query: []string{"fencing_token"},
			summary: "Show what an attempt of the task has recorded as done under the name; 404 where none has. With fencing_token an attempt that is " +
				"no longer valid gets 409",
			answer: client.Done{}, statuses: ok,
		},
		{
			method: put, path: "/v1/tasks/:id/done/:name", handle: (*api).putDone,
			summary: "Record for the attempt with this fencing token that a side effect is done (201), or show what was recorded before; 409 for an " +
				"attempt that is no longer valid",
			body: client.DoneRequest{}, answer: client.Done{}, statuses: created,
		},
	}
}

func showDone(d fsm.Done) client.Done {
	return client.Done{Name: d.Name, Value: string(d.Value), At: at(d.At), Attempt: int(d.Attempt)}
}

func (a *api) getDone(r *request) error {
	ref, wrong := r.taskRef()
	if wrong != nil {
		return wrong
	}
	name := r.name("name")
	token, wrong := readToken(r.values.Get("fencing_token"), !r.values.Has("fencing_token"))
	if wrong != nil {
		return wrong
	}
	var out client.Done
	err := a.read(r, func(v fsm.Reader) error {
		d, err := findDone(v, fsm.AttemptRef{Ref: ref, Token: token}, name)
		if err != nil {
			return err
		}
		out = showDone(*d)
		return nil
	})
	if err != nil {
		return err
	}
	return write(r, http.StatusOK, out)
}

// findDone answers an attempt, or without a token anybody.
func findDone(v fsm.Reader, ref fsm.AttemptRef, name string) (*fsm.Done, *job.Error) {
	if !ref.Token.IsZero() {
		d, err := fsm.CheckDone(v, ref, name)
		if err == nil && d == nil {
			err = job.NotFound("name", name)
		}
		return d, err
	}
	t, ok := fsm.GetTask(v, ref.Ref)
	if !ok {
		return nil, job.NotFound("id", ref.Ref.ID.String())
	}
	for _, d := range fsm.ListDone(v, &t) {
		if d.Name == name {
			return &d, nil
		}
	}
	return nil, job.NotFound("name", name)
}

func (a *api) putDone(r *request) error {
	ref, wrong := r.taskRef()
	if wrong != nil {
		return wrong
	}
	var in client.DoneRequest
	if err := decode(r.body, &in); err != nil {
		return err
	}
	token, wrong := readToken(in.Token, false)
	if wrong != nil {
		return wrong
	}
	cmd := fsm.RecordDone{AttemptRef: fsm.AttemptRef{Ref: ref, Token: token}, Name: r.name("name"), Value: []byte(in.Value)}
	if err := job.ValidateDone(cmd.Name, cmd.Value); err != nil {
		return err
	}
	res, err := a.propose(r.ctx, cmd)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if res.Changed {
		status = http.StatusCreated
	}
	return write(r, status, showDone(*res.Done))
}

// readToken reads a fencing token, which may be missing where it is optional.
func readToken(text string, optional bool) (token job.Token, _ *job.Error) {
	if text == "" && optional {
		return token, nil
	}
	token, err := job.ParseToken(text)
	if err != nil || token.IsZero() {
		return token, job.Invalid("fencing_token", "must be 32 hexadecimal digits, as AXD_FENCING_TOKEN has them", text)
	}
	return token, nil
}
