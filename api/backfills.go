package api

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

func backfillRoutes() []route {
	return []route{
		{
			method: post, path: "/v1/schedules/:name/backfill", handle: (*api).backfill,
			summary: "Fire past times of a schedule, up to 10,000, so many at a time; with dry_run tell which (200)",
			body:    client.BackfillRequest{}, answer: client.Backfill{}, statuses: created,
		},
		{
			method: get, path: "/v1/schedules/:name/backfills", handle: (*api).listBackfills,
			summary: "List a schedule's backfills, the oldest first", query: pageParams, answer: client.BackfillList{}, statuses: ok,
		},
		{
			method: post, path: "/v1/schedules/:name/backfills/:id/cancel", handle: (*api).cancelBackfill,
			summary: "Cancel a backfill; what it has fired goes on", body: struct{}{}, bodyOptional: true, answer: client.Backfill{}, statuses: ok,
		},
	}
}

// The choices of a backfill's request.
const (
	fillOldest = "oldest"
	fillNewest = "newest"
	fillAllow  = "allow"
	fillWait   = "wait"
)

func oneOf(field, got, usual, other string) *job.Error {
	if got != "" && got != usual && got != other {
		return job.Invalid(field, "must be "+usual+" or "+other, got)
	}
	return nil
}

// readBackfill checks a request; its times are still missing.
func readBackfill(in *client.BackfillRequest, now time.Time) (fsm.PutBackfill, *job.Error) {
	c := fsm.PutBackfill{
		From: in.From.UnixMilli(), To: in.To.UnixMilli(), Newest: in.Order == fillNewest, Wait: in.Overlap == fillWait,
		Parallel: cmp.Or(in.Parallel, 1), Priority: cmp.Or(in.Priority, job.Low), Which: fsm.FillMissing,
	}
	if in.Which != "" {
		var known bool
		if c.Which, known = fsm.ParseBackfillWhich(in.Which); !known {
			return c, job.Invalid("which", "must be missing, failed or all", in.Which)
		}
	}
	switch {
	case in.From.IsZero() || c.From < 0:
		return c, job.Invalid("from", "must be given, a time since 1970", "")
	case in.To.IsZero() || !in.To.After(in.From):
		return c, job.Invalid("to", "must be given, after from", "")
	case in.To.After(now):
		return c, job.Invalid("to", "must not lie in the future", in.To.Format(time.RFC3339))
	case c.Parallel < 1 || c.Parallel > fsm.MaxBackfillParallel:
		return c, job.Invalid("parallel", "must be 1 to "+strconv.Itoa(fsm.MaxBackfillParallel), strconv.Itoa(c.Parallel))
	}
	if err := oneOf("order", in.Order, fillOldest, fillNewest); err != nil {
		return c, err
	}
	return c, oneOf("overlap", in.Overlap, fillAllow, fillWait)
}

// backfill reads the schedule's times within the range and proposes them.
func (a *api) backfill(r *request) error {
	var in client.BackfillRequest
	if err := decode(r.body, &in); err != nil {
		return err
	}
	c, wrong := readBackfill(&in, stdTime(a.backend.Now()))
	if wrong != nil {
		return wrong
	}
	ref := r.scheduleRef()
	c.Namespace, c.Schedule, c.Actor = ref.Namespace, ref.Name, actorOf(r.ctx)
	var dry client.Backfill
	err := a.fresh(r, func(v fsm.Reader) error {
		s, st, found := fsm.GetSchedule(v, ref)
		if !found {
			return job.NotFound("schedule", ref.Name)
		}
		if s.Spec.ByPeriod() {
			s.Created = 0 // its plan begins when it was created, which a backfill need not
		}
		plan, wrong := planOf(v, &s)
		if wrong != nil {
			return wrong
		}
		c.Version = s.Version
		for _, t := range plan.Between(stdTime(c.From).Add(-1), stdTime(min(c.To-1, st.Cursor)), fsm.MaxBackfillTimes+1) {
			c.Times = append(c.Times, t.UnixMilli())
		}
		if n := len(c.Times); n == 0 || n > fsm.MaxBackfillTimes {
			return job.Invalid("to", "with from must hold 1 to "+strconv.Itoa(fsm.MaxBackfillTimes)+" planned times that are past", in.To.Format(time.RFC3339))
		}
		if err := c.Known(&st); err != nil {
			return err
		}
		if in.DryRun {
			dry = dryBackfill(v, plan, &c)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if in.DryRun {
		return write(r, http.StatusOK, dry)
	}
	result, wrong := a.propose(r.ctx, c)
	if wrong != nil {
		return wrong
	}
	return write(r, http.StatusCreated, showBackfill(result.Backfill))
}

// dryBackfill tells what a backfill would do now.
func dryBackfill(v fsm.Reader, plan *job.Plan, c *fsm.PutBackfill) client.Backfill {
	b := fsm.Backfill{
		Namespace: c.Namespace, Schedule: c.Schedule, From: c.From, To: c.To, Newest: c.Newest, Parallel: c.Parallel, Wait: c.Wait,
		Which: c.Which, Priority: c.Priority, Total: len(c.Times),
	}
	var times []client.PlannedTime
	ref := fsm.ScheduleRef{Namespace: c.Namespace, Name: c.Schedule}
	for i := range c.Times {
		t := c.Times[i]
		if c.Newest {
			t = c.Times[len(c.Times)-1-i]
		}
		if !fsm.NeedsFill(v, ref, t, c.Which) {
			b.Present++
			continue
		}
		b.Fired++
		if len(times) < fsm.MaxPage {
			times = append(times, plannedTimes(plan, stdTime(t).Add(-1), 1)...)
		}
	}
	out := showBackfill(&b)
	out.ID, out.State, out.Times, out.CreatedAt = "", "dry_run", times, nil
	return out
}

func showBackfill(b *fsm.Backfill) client.Backfill {
	out := client.Backfill{
		ID: b.ID.String(), Schedule: b.Schedule, State: b.State.String(), From: at(b.From), To: at(b.To), Which: b.Which.String(),
		Order: fillOldest, Parallel: b.Parallel, Overlap: fillAllow, Priority: b.Priority, CreatedAt: instant(b.Created), EndedAt: instant(b.Ended),
		Actor: b.Actor, Total: b.Total, Left: b.Left, Active: b.Active, Fired: b.Fired, Present: b.Present, Refused: b.Refused,
		Succeeded: b.Succeeded, Failed: b.Failed,
	}
	if b.Newest {
		out.Order = fillNewest
	}
	if b.Wait {
		out.Overlap = fillWait
	}
	return out
}

func (a *api) listBackfills(r *request) error {
	ref := r.scheduleRef()
	out := client.BackfillList{Backfills: []client.Backfill{}}
	return a.page(r, &out, func(v fsm.Reader, limit int) error {
		list, next, err := fsm.ListBackfills(v, ref, r.values.Get("cursor"), limit)
		if err != nil {
			return err
		}
		if _, exists := fsm.GetScheduleState(v, ref); !exists && len(list) == 0 {
			return job.NotFound("schedule", ref.Name)
		}
		out.NextCursor = next
		for i := range list {
			out.Backfills = append(out.Backfills, showBackfill(&list[i]))
		}
		return nil
	})
}

func (a *api) cancelBackfill(r *request) error {
	if err := decode(r.body, &struct{}{}); err != nil {
		return err
	}
	id, err := job.ParseID(r.name("id"))
	if err != nil {
		return job.NotFound("backfill", r.name("id"))
	}
	result, wrong := a.propose(r.ctx, fsm.CancelBackfill{Namespace: r.namespace, Schedule: r.name("name"), ID: id, Actor: actorOf(r.ctx)})
	if wrong != nil {
		return wrong
	}
	return write(r, http.StatusOK, showBackfill(result.Backfill))
}
