package api

import (
	"net/http"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

func callbackRoutes() []route {
	return []route{
		{
			method: get, path: "/v1/callbacks", handle: (*api).listCallbacks, statuses: ok, answer: client.CallbackList{},
			summary: "List callbacks by task: what is owed, was delivered, or is dead", query: []string{"state", "limit", "cursor"},
		},
		{
			method: get, path: "/v1/callbacks/:callback", handle: (*api).getCallback, statuses: ok, answer: client.Callback{},
			summary: "Show a callback",
		},
		{
			method: post, path: "/v1/callbacks/:callback/redeliver", handle: (*api).redeliver, statuses: ok, answer: client.Callback{},
			summary: "Send a callback once more under the same id, or run its job again; one that is owed is due at once",
			body:    struct{}{}, bodyOptional: true,
		},
	}
}

func showCallback(c *fsm.Callback) client.Callback {
	out := client.Callback{
		ID: c.Ref().String(), Namespace: c.Namespace, Task: c.Task.String(), State: c.State.String(), URL: c.URL, Secret: c.Secret, Job: c.Job,
		TaskState: c.End.State.String(), Tries: c.Tries, CreatedAt: at(c.Created), NextTry: instant(c.Due),
		LastTry: instant(c.Tried), SettledAt: instant(c.Settled), LastStatus: c.Status, LastError: c.Error,
	}
	if !c.Started.IsZero() {
		out.RunAs = c.Started.String()
	}
	return out
}

// callbackRef reads the callback that a path names. What is no id names nothing.
func (r *request) callbackRef() (fsm.CallbackRef, *job.Error) {
	ref, err := fsm.ParseCallbackID(r.namespace, r.name("callback"))
	if err != nil {
		e := job.NotFound("id", r.name("callback"))
		e.Rule += ": an id is a task's id, - and a number"
		return ref, e
	}
	return ref, nil
}

func (a *api) listCallbacks(r *request) error {
	var state fsm.CallbackState
	if s := r.values.Get("state"); r.values.Has("state") {
		var known bool
		if state, known = fsm.ParseCallbackState(s); !known {
			return job.Invalid("state", "must be owed, delivered or dead", s)
		}
	}
	out := client.CallbackList{Callbacks: []client.Callback{}}
	return a.page(r, &out, func(v fsm.Reader, limit int) error {
		list, next, err := fsm.ListCallbacks(v, r.namespace, state, r.values.Get("cursor"), limit)
		out.NextCursor = next
		for i := range list {
			out.Callbacks = append(out.Callbacks, showCallback(&list[i]))
		}
		return err
	})
}

func (a *api) getCallback(r *request) error {
	ref, wrong := r.callbackRef()
	if wrong != nil {
		return wrong
	}
	var out client.Callback
	return a.answer(r, &out, func(v fsm.Reader) (err error) {
		out, err = readCallback(v, ref)
		return err
	})
}

func readCallback(v fsm.Reader, ref fsm.CallbackRef) (client.Callback, error) {
	c, ok := fsm.GetCallback(v, ref)
	if !ok {
		return client.Callback{}, job.NotFound("id", ref.String())
	}
	return showCallback(&c), nil
}

func (a *api) redeliver(r *request) error {
	if err := decode(r.body, &struct{}{}); err != nil {
		return err
	}
	ref, wrong := r.callbackRef()
	if wrong != nil {
		return wrong
	}
	if _, err := a.propose(r.ctx, fsm.Redeliver{Ref: ref}); err != nil {
		return err
	}
	var out client.Callback
	err := a.backend.Read(r.ctx, false, func(v fsm.Reader) (err error) {
		out, err = readCallback(v, ref)
		return err
	})
	if err != nil {
		return err
	}
	return write(r, http.StatusOK, out)
}
