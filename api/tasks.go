package api

import (
	"net/http"
	"strconv"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// taskRef reads the task that a path names. What is no id names nothing.
func (r *request) taskRef() (fsm.TaskRef, *job.Error) {
	id, err := job.ParseID(r.name("id"))
	if err != nil {
		e := job.NotFound("id", r.name("id"))
		e.Rule += ": an id is a ULID of 26 characters"
		return fsm.TaskRef{}, e
	}
	return fsm.TaskRef{Namespace: r.namespace, ID: id}, nil
}

// read calls fn with a view of the state, as fresh as the request asks for.
func (a *api) read(r *request, fn func(fsm.Reader) error) error {
	return a.backend.Read(r.ctx, r.stale, fn)
}

// answer reads what out is to hold, and answers with it.
func (a *api) answer(r *request, out any, read func(fsm.Reader) error) error {
	if err := a.read(r, read); err != nil {
		return err
	}
	return write(r, http.StatusOK, out)
}

// page is answer for a page of a list.
func (a *api) page(r *request, out any, read func(v fsm.Reader, limit int) error) error {
	limit, wrong := r.limit()
	if wrong != nil {
		return wrong
	}
	return a.answer(r, out, func(v fsm.Reader) error { return read(v, limit) })
}

func (a *api) getTask(r *request) error {
	ref, wrong := r.taskRef()
	if wrong != nil {
		return wrong
	}
	var task client.Task
	var payload []byte
	err := a.read(r, func(v fsm.Reader) error {
		t, ok := fsm.GetTask(v, ref)
		if !ok {
			return job.NotFound("id", ref.ID.String())
		}
		task = a.taskView(v).show(t)
		if c, ok := fsm.GetCallback(v, fsm.CallbackRef{Task: ref, N: t.Callback}); ok && t.Callback != 0 {
			shown := showCallback(&c)
			task.Callback = &shown
		}
		for _, part := range fsm.ListParts(v, &t, shownParts) {
			task.Parts = append(task.Parts, showPart(&part, a.backend.Now()))
		}
		for _, d := range fsm.ListDone(v, &t) {
			task.Done = append(task.Done, showDone(d))
		}
		if body, ok := fsm.BodyOf(v, &t); ok {
			payload = body.Payload
			if t.Job == "" {
				task.Executor = &body.Executor
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	body, err := encodeWithPayload(task, payload)
	if err != nil {
		return err
	}
	return r.Blob(http.StatusOK, "application/json", body)
}

// encodeWithPayload encodes a task with its payload byte for byte: the encoder
// would write a json.RawMessage anew, without the blanks that it was sent with.
func encodeWithPayload(t client.Task, payload []byte) ([]byte, error) {
	b, err := encode(t)
	if err != nil || payload == nil {
		return b, err
	}
	end := len(b) - len("}\n")
	b = append(b[:end:end], `,"payload":`...)
	b = append(b, payload...)
	return append(b, "}\n"...), nil
}

// listParams are the parameters of GET /v1/tasks.
var listParams = []string{"state", "job", "worker", "run", "parent", "app", "owner", "from", "to", "after", "limit", "cursor"}

// taskFilter reads the filters of a list. after is not in fsm.TaskFilter.
func taskFilter(q query) (f fsm.TaskFilter, after int64, err *job.Error) {
	f = fsm.TaskFilter{
		Namespace: q.namespace, Job: q.values.Get("job"), Worker: q.values.Get("worker"),
		App: q.values.Get("app"), Owner: q.values.Get("owner"),
	}
	for _, name := range []string{"job", "worker", "run", "parent", "app", "owner", "state", "cursor"} {
		if q.values.Has(name) && q.values.Get(name) == "" {
			return f, 0, job.Invalid(name, "must not be empty where it is given", "")
		}
	}
	if text := q.values.Get("run"); text != "" {
		id, wrong := job.ParseID(text)
		if wrong != nil {
			return f, 0, job.Invalid("run", "must be a run's id, a ULID of 26 characters", text)
		}
		f.Run = id
	}
	if text := q.values.Get("parent"); text != "" {
		id, wrong := job.ParseID(text)
		if wrong != nil {
			return f, 0, job.Invalid("parent", "must be the id of a broadcast, a ULID of 26 characters", text)
		}
		f.Parent = id
	}
	if q.values.Has("state") {
		state, _, wrong := job.ParseShown(q.values.Get("state"))
		if wrong != nil {
			return f, 0, job.AsError(wrong)
		}
		f.State = state
	}
	if f.DueFrom, err = q.time("from"); err != nil {
		return f, 0, err
	}
	if f.DueTo, err = q.time("to"); err != nil {
		return f, 0, err
	}
	if f.DueTo != 0 && f.DueTo <= f.DueFrom {
		return f, 0, job.Invalid("to", "must be after from", q.values.Get("to"))
	}
	after, err = q.time("after")
	return f, after, err
}

func (a *api) listTasks(r *request) error {
	f, after, wrong := taskFilter(r.query)
	if wrong != nil {
		return wrong
	}
	var out client.TaskList
	return a.page(r, &out, func(v fsm.Reader, limit int) error {
		view := a.taskView(v)
		page, err := listCreatedAfter(v, f, after, r.values.Get("cursor"), limit, view.now)
		if err != nil {
			return err
		}
		out = client.TaskList{Tasks: make([]client.Task, 0, len(page.Tasks)), NextCursor: page.Next}
		for _, t := range page.Tasks {
			out.Tasks = append(out.Tasks, view.show(t))
		}
		return nil
	})
}

// listCreatedAfter reads a page of tasks that were created after a point in
// time. No index has that order, so it drops the others, and stops after
// fsm.ScanLimit tasks: such a page may be short while Next is set.
func listCreatedAfter(v fsm.Reader, f fsm.TaskFilter, after int64, cursor string, limit int, now int64) (fsm.TaskPage, error) {
	if after == 0 {
		return fsm.ListTasks(v, f, cursor, limit, now)
	}
	out := fsm.TaskPage{Next: cursor}
	for seen := 0; seen < fsm.ScanLimit; {
		page, err := fsm.ListTasks(v, f, out.Next, limit-len(out.Tasks), now)
		if err != nil {
			return out, err
		}
		for _, t := range page.Tasks {
			if t.Created > after {
				out.Tasks = append(out.Tasks, t)
			}
		}
		out.Next = page.Next
		if page.Next == "" || len(out.Tasks) == limit || len(page.Tasks) == 0 {
			break
		}
		seen += len(page.Tasks)
	}
	return out, nil
}

func (a *api) listAttempts(r *request) error {
	ref, wrong := r.taskRef()
	if wrong != nil {
		return wrong
	}
	out := client.AttemptList{Attempts: []client.Attempt{}}
	return a.answer(r, &out, func(v fsm.Reader) error {
		if _, ok := fsm.GetTask(v, ref); !ok {
			return job.NotFound("id", ref.ID.String())
		}
		for _, attempt := range fsm.ListAttempts(v, ref) {
			out.Attempts = append(out.Attempts, showAttempt(attempt))
		}
		return nil
	})
}

func (a *api) cancelTask(r *request) error {
	ref, wrong := r.taskRef()
	if wrong != nil {
		return wrong
	}
	var in client.CancelRequest
	if err := decode(r.body, &in); err != nil {
		return err
	}
	if err := validReason(in.Reason); err != nil {
		return err
	}
	return a.change(r, fsm.Cancel{Ref: ref, Reason: in.Reason})
}

func validReason(s string) *job.Error {
	if len(s) > fsm.MaxErrorBytes {
		return job.Invalid("reason", "must be at most "+strconv.Itoa(fsm.MaxErrorBytes)+" bytes", s)
	}
	return nil
}

func (a *api) rescheduleTask(r *request) error {
	ref, wrong := r.taskRef()
	if wrong != nil {
		return wrong
	}
	var in client.RescheduleRequest
	if err := decode(r.body, &in); err != nil {
		return err
	}
	due, delay, wrong := readTime(in.ExecuteTime, in.Delay)
	if wrong != nil {
		return wrong
	}
	timed := in.ExecuteTime != "" || in.Delay != nil
	if !timed && in.Priority == 0 {
		return job.Invalid("execute_time", "must be given, or delay, or priority", "")
	}
	return a.change(r, fsm.Reschedule{
		Ref: ref, Due: due, Delay: delay, Now: timed && due == 0 && delay == 0, Priority: in.Priority,
	})
}

// change proposes a command about a task and answers with the task after it.
func (a *api) change(r *request, c fsm.Command) error {
	result, err := a.propose(r.ctx, c)
	if err != nil {
		return err
	}
	return write(r, http.StatusOK, a.showChanged(r.ctx, *result.Task))
}
