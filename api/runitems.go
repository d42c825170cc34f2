package api

import (
	"strconv"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// listItems lists the items of a step that fans out. The cursor is the last number.
func (a *api) listItems(r *request) error {
	ref, wrong := r.runRef()
	if wrong != nil {
		return wrong
	}
	after, wrong := r.number("cursor")
	if wrong != nil {
		return wrong
	}
	out := client.RunItemList{Items: []client.RunItem{}}
	return a.page(r, &out, func(v fsm.Reader, limit int) error {
		run, ok := fsm.GetRun(v, ref)
		if !ok {
			return job.NotFound("id", ref.ID.String())
		}
		graph, ok := fsm.GetRunGraph(v, &run)
		if !ok {
			return job.Errorf(job.CodeInternal, "the run's version of its workflow is gone")
		}
		n, ok := graph.Number(r.name("step"))
		if !ok {
			return job.NotFound("step", r.name("step"))
		}
		step, _ := fsm.GetStep(v, ref, n)
		items := fsm.Items(v, ref, n, &step, after, limit+1)
		if len(items) > limit {
			items = items[:limit]
			out.NextCursor = strconv.FormatUint(uint64(items[limit-1].Number), 10)
		}
		for i := range items {
			out.Items = append(out.Items, showItem(&items[i], a.backend.Now()))
		}
		return nil
	})
}

func showItem(it *fsm.StepItem, now int64) client.RunItem {
	t := showTask(it.Record, now)
	out := client.RunItem{
		Item: it.Number, Task: t.ID, Run: idOrEmpty(it.Run), State: t.State,
		StartedAt: t.StartedAt, FinishedAt: t.FinishedAt, LastError: t.LastError,
	}
	if !it.Run.IsZero() && it.Record.State == job.Blocked {
		out.State = job.Running.String()
	}
	return out
}

// number reads a parameter that is a whole number; absent is 0.
func (q query) number(name string) (uint32, *job.Error) {
	if !q.values.Has(name) {
		return 0, nil
	}
	n, err := strconv.ParseUint(q.values.Get(name), 10, 31)
	if err != nil {
		return 0, job.Invalid(name, "must be the next_cursor of the page before", q.values.Get(name))
	}
	return uint32(n), nil
}
