package api

import (
	"net/http"
	"strconv"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

var deadParams = []string{"job", "error", "from", "to", "limit", "cursor"}

func deadLetterRoutes() []route {
	return []route{
		{
			method: get, path: "/v1/dead-letters", handle: (*api).listDead, query: deadParams,
			summary: "List the tasks that failed for good, the one that ended first first; a page may be short, even empty, while next_cursor is set",
			answer:  client.DeadLetterList{}, statuses: ok,
		},
		{
			method: get, path: "/v1/dead-letters/acts", handle: (*api).listDeadActs, statuses: ok, answer: client.DeadLetterActList{},
			summary: "List the replays and discards of many that go on, and those that ended lately, the newest first",
		},
		{
			method: get, path: "/v1/dead-letters/acts/:act", handle: (*api).getDeadAct, statuses: ok, answer: client.DeadLetterAct{},
			summary: "Show how far a replay or discard of many has come",
		},
		{
			method: post, path: "/v1/dead-letters/acts/:act/cancel", handle: (*api).cancelDeadAct, statuses: ok, answer: client.DeadLetterAct{},
			summary: "End a replay or discard of many; what it has done stays done", body: struct{}{}, bodyOptional: true,
		},
		{
			method: get, path: "/v1/dead-letters/:id", handle: (*api).getDead,
			summary: "Show a dead letter with its payload; its attempts are those of the task", answer: client.Task{}, statuses: ok,
		},
		{
			method: post, path: "/v1/dead-letters/replay", handle: (*api).replayDead,
			summary: "Make dead letters pending again, with all their retries and their history: those named (up to 100), or those that match; " +
				"with dry_run only count them",
			body: client.DeadLetterRequest{}, answer: client.DeadLetterResult{}, statuses: ok,
		},
		{
			method: post, path: "/v1/dead-letters/discard", handle: (*api).discardDead,
			summary: "Leave dead letters to the retention of ended tasks: those named (up to 100), or those that match; with dry_run only count them",
			body:    client.DeadLetterRequest{}, answer: client.DeadLetterResult{}, statuses: ok,
		},
	}
}

// deadFilter checks a filter; names are given without place.
func deadFilter(name, text string, from, to int64) (fsm.DeadFilter, *job.Error) {
	f := fsm.DeadFilter{Job: name, Error: text, From: from, To: to}
	if name != "" {
		if err := job.ValidateName("job", name); err != nil {
			return f, err
		}
	}
	if len(text) > fsm.MaxErrorBytes {
		return f, job.Invalid("error", "must be at most "+strconv.Itoa(fsm.MaxErrorBytes)+" bytes", text)
	}
	if to != 0 && to <= from {
		return f, job.Invalid("to", "must be after from", job.FormatTime(to))
	}
	return f, nil
}

func (a *api) listDead(r *request) error {
	from, wrong := r.time("from")
	if wrong != nil {
		return wrong
	}
	to, wrong := r.time("to")
	if wrong != nil {
		return wrong
	}
	f, wrong := deadFilter(r.values.Get("job"), r.values.Get("error"), from, to)
	if wrong != nil {
		return wrong
	}
	var out client.DeadLetterList
	return a.page(r, &out, func(v fsm.Reader, limit int) error {
		page, err := fsm.ListDead(v, r.namespace, f, r.values.Get("cursor"), limit)
		if err != nil {
			return err
		}
		view := a.taskView(v)
		out = client.DeadLetterList{DeadLetters: make([]client.Task, 0, len(page.Tasks)), NextCursor: page.Next}
		for _, t := range page.Tasks {
			out.DeadLetters = append(out.DeadLetters, view.show(t))
		}
		return nil
	})
}

func (a *api) getDead(r *request) error {
	ref, wrong := r.taskRef()
	if wrong != nil {
		return wrong
	}
	err := a.read(r, func(v fsm.Reader) error {
		if t, ok := fsm.GetTask(v, ref); !ok || !t.Dead {
			return job.NotFound("id", ref.ID.String())
		}
		return nil
	})
	if err != nil {
		return err
	}
	return a.getTask(r)
}

func (a *api) replayDead(r *request) error  { return a.actOnDead(r, true) }
func (a *api) discardDead(r *request) error { return a.actOnDead(r, false) }

func (a *api) actOnDead(r *request, replay bool) error {
	var in client.DeadLetterRequest
	if err := decode(r.body, &in); err != nil {
		return err
	}
	switch {
	case in.Filter == nil && len(in.IDs) == 0:
		return job.Invalid("filter", "must be given, or ids; an empty filter means all", "")
	case in.Filter != nil && len(in.IDs) > 0:
		return job.Invalid("ids", "must not be given beside filter", in.IDs[0])
	case in.Filter == nil:
		return a.actOnIDs(r, &in, replay)
	}
	return a.actOnMatching(r, &in, replay)
}

// actOnIDs acts on those named; each stands alone.
func (a *api) actOnIDs(r *request, in *client.DeadLetterRequest, replay bool) error {
	if len(in.IDs) > fsm.MaxDeadIDs {
		return job.Invalid("ids", "must be at most "+strconv.Itoa(fsm.MaxDeadIDs), strconv.Itoa(len(in.IDs)))
	}
	c := fsm.DeadLetters{Namespace: r.namespace, Replay: replay}
	for i, text := range in.IDs {
		id, err := job.ParseID(text)
		if err != nil {
			return job.Invalid("ids["+strconv.Itoa(i)+"]", "must be a ULID of 26 characters", text)
		}
		c.IDs = append(c.IDs, id)
	}
	var out client.DeadLetterResult
	err := a.backend.Read(r.ctx, false, func(v fsm.Reader) error {
		for _, id := range c.IDs {
			if t, ok := fsm.GetTask(v, fsm.TaskRef{Namespace: r.namespace, ID: id}); ok && t.Dead {
				out.Matched++
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if in.DryRun {
		return write(r, http.StatusOK, out)
	}
	result, wrong := a.propose(r.ctx, c)
	if wrong != nil {
		return wrong
	}
	for i, refused := range result.Attempts {
		if refused == nil {
			out.Done++
			continue
		}
		out.Refused++
		out.Errors = append(out.Errors, client.DeadLetterError{ID: in.IDs[i], Error: problemOf(refused)})
	}
	if len(in.IDs) == 1 && out.Refused == 1 {
		return result.Attempts[0] // who names one wants to know
	}
	return write(r, http.StatusOK, out)
}

// actOnMatching counts first.
func (a *api) actOnMatching(r *request, in *client.DeadLetterRequest, replay bool) error {
	from, wrong := filterTime("filter.from", in.Filter.From)
	if wrong != nil {
		return wrong
	}
	to, wrong := filterTime("filter.to", in.Filter.To)
	if wrong != nil {
		return wrong
	}
	f, wrong := deadFilter(in.Filter.Job, in.Filter.Error, from, to)
	if wrong != nil {
		return wrong.At("filter")
	}
	var out client.DeadLetterResult
	err := a.backend.Read(r.ctx, false, func(v fsm.Reader) error {
		n, all := fsm.MatchDead(v, r.namespace, f)
		out.Matched, out.AtLeast = n, !all
		return nil
	})
	if err != nil {
		return err
	}
	if in.DryRun || out.Matched == 0 && !out.AtLeast {
		return write(r, http.StatusOK, out)
	}
	result, wrong := a.propose(r.ctx, fsm.DeadLetters{Namespace: r.namespace, Replay: replay, Filter: f, Matched: out.Matched, AtLeast: out.AtLeast})
	if wrong != nil {
		return wrong
	}
	out.Done, out.Refused, out.GoesOn = int64(result.Deleted), int64(result.Refused), result.More
	if act := result.DeadAct; act != nil && result.More {
		out.Act = act.ID.String()
	}
	return write(r, http.StatusOK, out)
}

func filterTime(field, text string) (int64, *job.Error) {
	if text == "" {
		return 0, nil
	}
	ms, err := job.ParseTime(text)
	if err != nil {
		e := *job.AsError(err)
		e.Field, e.Value = field, job.Shorten(text)
		return 0, &e
	}
	return max(ms, 1), nil
}
