package api

import (
	"net/http"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/internal/expression"
	"github.com/axd-project/axd/job"
)

func scheduleRoutes() []route {
	return []route{
		{
			method: get, path: "/v1/schedules", handle: (*api).listSchedules, summary: "List schedules by name",
			query: pageParams, answer: client.ScheduleList{}, statuses: ok,
		},
		{
			method: put, path: "/v1/schedules/:name", handle: (*api).putSchedule,
			summary: "Create a schedule (201), or give it a new version where it differs; what is read-only in the body is left aside. " +
				"A change fires nothing that lies in the past",
			body: client.Schedule{}, answer: client.Schedule{}, statuses: created,
		},
		{
			method: get, path: "/v1/schedules/:name", handle: (*api).getSchedule, summary: "Show a schedule and how far it has come",
			answer: client.Schedule{}, statuses: ok,
		},
		{
			method: del, path: "/v1/schedules/:name", handle: (*api).deleteSchedule,
			summary:  "Delete a schedule; what it fired goes on, its ledger stays until its retention ends",
			statuses: noContent,
		},
		{
			method: post, path: "/v1/schedules/:name/pause", handle: (*api).pauseSchedule,
			summary: "Let a schedule's times pass without a fire; by hand it fires all the same",
			body:    client.PauseRequest{}, bodyOptional: true, answer: client.Schedule{}, statuses: ok,
		},
		{
			method: post, path: "/v1/schedules/:name/resume", handle: (*api).resumeSchedule, summary: "End a pause",
			body: struct{}{}, bodyOptional: true, answer: client.Schedule{}, statuses: ok,
		},
		{
			method: post, path: "/v1/schedules/:name/trigger", handle: (*api).triggerSchedule,
			summary: "Fire a schedule by hand, at once; where its rule for overlaps would skip the time it is refused",
			body:    client.TriggerRequest{}, bodyOptional: true, answer: client.Fire{}, statuses: ok,
		},
		{
			method: get, path: "/v1/schedules/:name/next", handle: (*api).nextTimes, summary: "Tell a schedule's next times",
			query: []string{"from", "count"}, answer: client.PlannedTimes{}, statuses: ok,
		},
		{
			method: get, path: "/v1/schedules/:name/fires", handle: (*api).listFires,
			summary: "List what became of a schedule's times, the newest first; a page may be short while next_cursor is set",
			query:   []string{"verdict", "from", "to", "limit", "cursor"}, answer: client.FireList{}, statuses: ok,
		},
	}
}

func (r *request) scheduleRef() fsm.ScheduleRef {
	return fsm.ScheduleRef{Namespace: r.namespace, Name: r.name("name")}
}

func showSchedule(s *fsm.Schedule, st *fsm.ScheduleState) client.Schedule {
	created, updated := at(s.Created), at(s.Updated)
	out := client.Schedule{
		Namespace: s.Namespace, Name: s.Name, ScheduleSpec: s.Spec, FileSet: s.FileSet, Version: s.Version, CreatedAt: &created, UpdatedAt: &updated,
	}
	status := &client.ScheduleStatus{
		State: "idle", Broken: st.Broken, Active: st.Active, Queued: st.Queued, Waiting: st.Waiting, Failures: st.Failures,
		LastTime: instant(st.Last.Nominal), LastFire: instant(st.Last.At), LastTask: idOrEmpty(st.Last.Task), LastRun: idOrEmpty(st.Last.Run),
		Counts: client.ScheduleCounts{
			Fired: st.Counts.Fired, Merged: st.Counts.Merged, Skipped: st.Counts.Skipped, Missed: st.Counts.Missed,
			Succeeded: st.Counts.Succeeded, Failed: st.Counts.Failed, Refused: st.Counts.Refused, Dropped: st.Counts.Dropped,
		},
		Unfired: st.Unfired, LedgerSince: instant(st.Ledger.Dropped),
	}
	if p := st.Paused; p != nil {
		status.Paused = &client.SchedulePause{At: at(p.At), Reason: p.Reason, Actor: p.Actor, Auto: p.Auto}
	}
	if _, waits := st.DueAt(); st.Planned && waits {
		status.NextTime, status.NextFire = instant(st.Next), instant(st.NextAt)
	}
	switch {
	case st.Paused != nil:
		status.State = "paused"
	case st.Broken != "":
		status.State = "broken"
	case !st.Planned || st.Next != 0:
		status.State = "waiting"
	}
	out.Status = status
	return out
}

// scheduleAsOf is showSchedule with the next time told also where the leader has not
// planned it yet, as just after a change.
func (a *api) scheduleAsOf(v fsm.Reader, s *fsm.Schedule, st *fsm.ScheduleState) client.Schedule {
	out := showSchedule(s, st)
	most := int64(s.Spec.MaxRuns)
	if st.Planned || out.Status.State != "waiting" || most > 0 && st.Counts.Planned >= most {
		return out
	}
	plan, err := planOf(v, s)
	if err != nil {
		return out // the leader will say that it is broken
	}
	if next, comes := plan.Next(stdTime(max(a.backend.Now(), st.Cursor))); comes {
		out.Status.NextTime, out.Status.NextFire = new(next.UTC()), new(next.Add(plan.Delay()).UTC())
	} else {
		out.Status.State = "idle"
	}
	return out
}

func idOrEmpty(id job.ID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

func (a *api) putSchedule(r *request) error {
	var in client.Schedule
	name, err := r.readDefinition(&in, head{&in.Name, &in.Namespace, &in.FileSet})
	if err != nil {
		return err
	}
	if err := a.checkSchedule(r, &in.ScheduleSpec); err != nil {
		return err
	}
	out := client.Schedule{Namespace: r.namespace, Name: name, ScheduleSpec: in.ScheduleSpec}
	put := fsm.PutSchedule{Namespace: r.namespace, Name: name, Spec: in.ScheduleSpec, FileSet: in.FileSet}
	status, err := a.storeDefinition(r, put, &out.Version, func(v fsm.Reader) {
		if s, st, ok := fsm.GetSchedule(v, r.scheduleRef()); ok && s.Version == out.Version {
			out = a.scheduleAsOf(v, &s, &st)
		}
	})
	if err != nil {
		return err
	}
	return write(r, status, out)
}

// checkSchedule checks what the state machine can't: the expression and the zone,
// and that what has times has some to come.
func (a *api) checkSchedule(r *request, s *job.ScheduleSpec) error {
	if err := s.Validate(); err != nil {
		return err
	}
	if err := expression.CheckSchedule(s); err != nil {
		return err
	}
	ref, now := r.scheduleRef(), stdTime(a.backend.Now())
	return a.fresh(r, func(v fsm.Reader) error {
		of := job.PlanFor{Namespace: ref.Namespace, Name: ref.Name, Created: now, Calendar: fsm.CalendarsOf(v, ref.Namespace)}
		if old, _, ok := fsm.GetSchedule(v, ref); ok {
			of.Created = stdTime(old.Created)
		}
		plan, err := job.NewPlan(s, of)
		if err != nil {
			return err
		}
		if err := checkUpstreams(v, ref.Namespace, s, plan, now); err != nil {
			return err
		}
		if _, comes := plan.Next(now); plan.Timed() && !comes && s.At == 0 {
			return job.Invalid("end", "must leave a time to come", s.End.String())
		}
		return nil
	})
}

func stdTime(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// answerSchedule answers with a schedule as it is after a command.
func (a *api) answerSchedule(r *request, read func(*request, func(fsm.Reader) error) error) error {
	ref := r.scheduleRef()
	var out client.Schedule
	err := read(r, func(v fsm.Reader) error {
		s, st, ok := fsm.GetSchedule(v, ref)
		if !ok {
			return job.NotFound("schedule", ref.Name)
		}
		out = a.scheduleAsOf(v, &s, &st)
		out.Status.Waits = showWaits(v, ref)
		return nil
	})
	if err != nil {
		return err
	}
	return write(r, http.StatusOK, out)
}

// fresh reads what holds after a command that this request gave.
func (a *api) fresh(r *request, fn func(fsm.Reader) error) error {
	return a.backend.Read(r.ctx, false, fn)
}

func (a *api) getSchedule(r *request) error { return a.answerSchedule(r, a.read) }

func (a *api) listSchedules(r *request) error {
	out := client.ScheduleList{Schedules: []client.Schedule{}}
	return a.page(r, &out, func(v fsm.Reader, limit int) error {
		list, next, err := fsm.ListSchedules(v, r.namespace, r.values.Get("cursor"), limit)
		out.NextCursor = next
		for i := range list {
			st, _ := fsm.GetScheduleState(v, list[i].Ref())
			out.Schedules = append(out.Schedules, a.scheduleAsOf(v, &list[i], &st))
		}
		return err
	})
}

func (a *api) deleteSchedule(r *request) error {
	if _, err := a.propose(r.ctx, fsm.DeleteSchedule{Namespace: r.namespace, Name: r.name("name")}); err != nil {
		return err
	}
	return r.NoContent(http.StatusNoContent)
}

// pauseReason reads the body of a pause.
func (r *request) pauseReason() (string, *job.Error) {
	var in client.PauseRequest
	if err := decode(r.body, &in); err != nil {
		return "", err
	}
	if len(in.Reason) > fsm.MaxErrorBytes {
		return "", tooLarge("reason", "must be at most 1024 bytes", in.Reason)
	}
	return in.Reason, nil
}

func (a *api) pauseSchedule(r *request) error {
	reason, err := r.pauseReason()
	if err != nil {
		return err
	}
	ref := r.scheduleRef()
	if _, err := a.propose(r.ctx, fsm.PauseSchedule{Namespace: ref.Namespace, Name: ref.Name, Reason: reason, Actor: actorOf(r.ctx)}); err != nil {
		return err
	}
	return a.answerSchedule(r, a.fresh)
}

func (a *api) resumeSchedule(r *request) error {
	if err := decode(r.body, &struct{}{}); err != nil {
		return err
	}
	ref := r.scheduleRef()
	if _, err := a.propose(r.ctx, fsm.PauseSchedule{Namespace: ref.Namespace, Name: ref.Name, Resume: true}); err != nil {
		return err
	}
	return a.answerSchedule(r, a.fresh)
}

func (a *api) triggerSchedule(r *request) error {
	var in client.TriggerRequest
	if err := decode(r.body, &in); err != nil {
		return err
	}
	ref := r.scheduleRef()
	result, wrong := a.propose(r.ctx, fsm.TriggerSchedule{
		Namespace: ref.Namespace, Name: ref.Name, Payload: in.Payload, Params: in.Params, Actor: actorOf(r.ctx),
	})
	if wrong != nil {
		return wrong
	}
	var clocks wallClocks
	_ = a.backend.Read(r.ctx, true, func(v fsm.Reader) error {
		clocks = clocksOf(v, ref)
		return nil
	})
	return write(r, http.StatusOK, clocks.show(result.Fire, a.backend.Now()))
}

// wallClocks tells the wall times of a schedule's fires.
type wallClocks struct {
	zone *time.Location
	plan *job.Plan // nil: it can't be told
}

func clocksOf(v fsm.Reader, ref fsm.ScheduleRef) wallClocks {
	w := wallClocks{zone: time.UTC}
	s, _, ok := fsm.GetSchedule(v, ref)
	if !ok {
		return w
	}
	if zone, err := time.LoadLocation(s.Spec.TimezoneOrDefault()); err == nil {
		w.zone = zone
	}
	if plan, err := planOf(v, &s); err == nil {
		w.plan = plan
	}
	return w
}

func planOf(v fsm.Reader, s *fsm.Schedule) (*job.Plan, *job.Error) {
	return job.NewPlan(&s.Spec, job.PlanFor{
		Namespace: s.Namespace, Name: s.Name, Created: stdTime(s.Created), Calendar: fsm.CalendarsOf(v, s.Namespace),
	})
}

// wallForm is how a wall time is written: the zone is told beside it.
const wallForm = "2006-01-02T15:04:05"

func (w wallClocks) wall(f *fsm.Fire) string {
	t := at(f.Nominal)
	if w.plan != nil && f.Origin == fsm.ByPlan && w.plan.Timed() {
		wall, _ := w.plan.Planned(t)
		return wall
	}
	if w.zone == nil {
		return t.Format(wallForm)
	}
	return t.In(w.zone).Format(wallForm)
}

// plannedVerdict is shown of a time that was fired ahead, until it has come.
const plannedVerdict = "planned"

func (w wallClocks) show(f *fsm.Fire, now int64) client.Fire {
	out := client.Fire{
		Nominal: at(f.Nominal), Wall: w.wall(f), Until: instant(f.Until), Count: f.Count,
		Origin: f.Origin.String(), Verdict: f.Verdict.String(), Why: f.Why, Error: f.Error, Decided: at(f.At), Due: instant(f.Due),
		Into: instant(f.Into), Task: idOrEmpty(f.Task), Run: idOrEmpty(f.Run), Actor: f.Actor, CatchUp: f.CatchUp,
	}
	if f.List != nil {
		out.List = showList(f.List)
	}
	if f.Verdict == fsm.VerdictFired {
		late := job.Duration(time.Duration(f.Late) * time.Millisecond)
		out.LateBy = &late
		if f.Due > now {
			out.Verdict, out.LateBy = plannedVerdict, nil
		}
	}
	return out
}

func showList(l *fsm.ListOutcome) *client.ComparedList {
	out := &client.ComparedList{
		State: l.State.String(), Tries: l.Tries, NextTry: instant(l.NextTry), EndedAt: instant(l.Ended), LastStatus: l.Status, LastError: l.Error,
		Same: l.Counts.Same, Differs: l.Counts.Differs, Missing: l.Counts.Missing, Submitted: l.Counts.Submitted, Replayed: l.Counts.Replayed,
		Wrong: l.Counts.Wrong,
	}
	for _, d := range l.Different {
		out.Differences = append(out.Differences, client.ListDifference{
			IdempotencyKey: d.Key, Believed: d.Believed, Verdict: d.Verdict, ID: d.Task, State: d.State, Submitted: d.Submitted,
			Replayed: d.Replayed, Error: d.Error,
		})
	}
	return out
}

// nextTimes tells the times after now, or after from.
func (a *api) nextTimes(r *request) error {
	count, wrong := r.count("count", 10)
	if wrong != nil {
		return wrong
	}
	from, wrong := r.time("from")
	if wrong != nil {
		return wrong
	}
	ref := r.scheduleRef()
	out := client.PlannedTimes{Times: []client.PlannedTime{}}
	return a.answer(r, &out, func(v fsm.Reader) error {
		s, st, ok := fsm.GetSchedule(v, ref)
		if !ok {
			return job.NotFound("schedule", ref.Name)
		}
		plan, wrong := planOf(v, &s)
		if wrong != nil {
			return wrong
		}
		if from == 0 {
			from = max(a.backend.Now(), st.Cursor)
		}
		if most := s.Spec.MaxRuns; most > 0 {
			count = min(count, max(most-int(st.Counts.Planned), 0))
		}
		out.Words = plan.Words()
		out.Timezone, out.State = s.Spec.TimezoneOrDefault(), showSchedule(&s, &st).Status.State
		out.Times = plannedTimes(plan, stdTime(from), count)
		return nil
	})
}

// offsetForm is RFC 3339 with the offset of the schedule's zone, also of UTC.
const offsetForm = "2006-01-02T15:04:05.999999999-07:00"

func plannedTimes(plan *job.Plan, after time.Time, count int) []client.PlannedTime {
	times := []client.PlannedTime{}
	delay := plan.Delay()
	for t, ok := plan.Next(after); ok && len(times) < count; t, ok = plan.Next(t) {
		wall, note := plan.Planned(t)
		p := client.PlannedTime{At: t.Format(offsetForm), Wall: wall, Note: note}
		if delay > 0 {
			p.Due = t.Add(delay).Format(offsetForm)
		}
		times = append(times, p)
	}
	return times
}

func (a *api) listFires(r *request) error {
	f, limit, wrong := r.fireFilter()
	if wrong != nil {
		return wrong
	}
	ref, now := r.scheduleRef(), a.backend.Now()
	f.Now = now
	out := client.FireList{Fires: []client.Fire{}}
	return a.answer(r, &out, func(v fsm.Reader) error {
		list, next, err := fsm.ListFires(v, ref, f, r.values.Get("cursor"), limit)
		if err != nil {
			return err
		}
		if _, exists := fsm.GetScheduleState(v, ref); !exists && len(list) == 0 { // of one that was deleted the ledger stays
			return job.NotFound("schedule", ref.Name)
		}
		clocks := clocksOf(v, ref)
		out.NextCursor = next
		for i := range list {
			tellWait(v, &list[i])
			out.Fires = append(out.Fires, clocks.show(&list[i], now))
		}
		return nil
	})
}

func (r *request) fireFilter() (f fsm.FireFilter, limit int, wrong *job.Error) {
	if r.values.Get("verdict") == plannedVerdict {
		f.Verdict, f.Planned = fsm.VerdictFired, true
	} else if r.values.Has("verdict") {
		v, err := fsm.ParseVerdict(r.values.Get("verdict"))
		if err != nil {
			return f, 0, job.AsError(err)
		}
		f.Verdict = v
	}
	if f.From, wrong = r.time("from"); wrong != nil {
		return f, 0, wrong
	}
	if f.To, wrong = r.time("to"); wrong != nil {
		return f, 0, wrong
	}
	if f.To != 0 && f.To <= f.From {
		return f, 0, job.Invalid("to", "must be after from", r.values.Get("to"))
	}
	limit, wrong = r.limit()
	return f, limit, wrong
}
