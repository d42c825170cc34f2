package fsm

import (
	"slices"
	"strconv"

	"github.com/axd-project/axd/job"
)

// checkJoin refuses what was told by another state of the schedules than the present.
func (a *apply) checkJoin(h *heldSchedule, start, end int64, needs []JoinNeed) *job.Error {
	after := a.specOf(h).After
	if after == nil || len(needs) != len(after.All) {
		return stale("join", "is not of what the schedule waits for", h.ref.Name)
	}
	seen := 0
	for i, n := range needs {
		if n.N > MaxJoinNeed || slices.ContainsFunc(n.Seen, func(t int64) bool { return t < start || t >= end }) {
			return job.Invalid("join", "must be of a period", h.ref.Name)
		}
		seen += len(n.Seen)
		if kind, name := upstreamOf(after.All[i]); kind == relSchedule {
			up := a.schedule(ScheduleRef{h.ref.Namespace, name})
			if up.st == nil || up.st.Generation != n.Generation {
				return stale("join", "is told by another state of an upstream", name)
			}
		}
	}
	if seen > MaxJoinSeen {
		return job.Invalid("join", "must bring at most "+strconv.Itoa(MaxJoinSeen)+" successes", strconv.Itoa(seen))
	}
	return nil
}

// checkFireJoin checks what the leader tells of a planned time.
func (a *apply) checkFireJoin(h *heldSchedule, t *FireTime) *job.Error {
	w := t.Join
	switch {
	case w == nil && (t.Until != 0 || a.specOf(h).After == nil):
		return nil
	case w == nil || t.Until != 0:
		return stale("join", "must be told of each time of a schedule with upstreams, and of no span", job.FormatTime(t.Nominal))
	case w.Start > t.Nominal || w.End <= t.Nominal:
		return job.Invalid("join", "must be of the time's period", job.FormatTime(t.Nominal))
	case w.Start%doneStep != 0 || w.End%doneStep != 0:
		return job.Invalid("join", "must begin and end at a quarter of an hour", job.FormatTime(w.Start))
	}
	return a.checkJoin(h, w.Start, w.End, w.Needs)
}

// await has a planned time wait for its upstreams, and tells whether it does, or need
// not be fired at all.
func (a *apply) await(h *heldSchedule, f *Fire, w *FireJoin) bool {
	j := a.openJoin(h, w)
	byPeriod := a.specOf(h).ByPeriod()
	switch {
	case byPeriod && j.empty():
		f.Verdict, f.Why, f.Error = VerdictSkipped, WhyUpstream, "nothing that it waits for has a time in this period"
	case j.Complete():
		if byPeriod {
			f.Due = max(f.Due, a.now) // nobody knows since when it was complete
		}
		return false
	case w.Until <= a.now:
		f.Verdict, f.Why, f.Error = VerdictMissed, WhyUpstream, cut("lacks "+j.Lacks())
	case h.st.Waiting >= MaxJoinWaits:
		f.Verdict, f.Why, f.Error = VerdictMissed, WhyQueueFull, "as many times wait for upstreams as may, "+strconv.Itoa(MaxJoinWaits)
	default:
		f.Verdict, f.Why = VerdictWaiting, WhyUpstream
		j.Waiting++
		a.putJoin(j)
		a.key = a.key.joinWaits(h.ref).time(j.End).time(f.Nominal)
		a.set(a.key, key{}.time(w.Until))
		a.key = a.key.joinDue(JoinWait{Until: w.Until, Ref: h.ref, End: j.End, Nominal: f.Nominal})
		a.set(a.key, nil)
	}
	a.putFire(h, f)
	return true
}

// openJoin reads how far the upstreams have come in a period, or counts it.
func (a *apply) openJoin(h *heldSchedule, w *FireJoin) *Join {
	a.key = a.key.joins(h.ref).time(w.End)
	if j, ok := stored[Join](a, a.key); ok {
		if h.st.Rejudge {
			a.countParts(h, j, w.Needs)
		}
		return j
	}
	j := &Join{Namespace: h.ref.Namespace, Schedule: h.ref.Name, Start: w.Start, End: w.End}
	a.countParts(h, j, w.Needs)
	return j
}

// countParts counts anew how far the upstreams of a join have come.
func (a *apply) countParts(h *heldSchedule, j *Join, needs []JoinNeed) {
	j.Parts = nil
	for i, u := range a.specOf(h).After.All {
		kind, name := upstreamOf(u)
		up := upstream{kind, h.ref.Namespace, name}
		for _, t := range needs[i].Seen {
			a.keepDone(up, t, needs[i].Planned)
		}
		p := JoinPart{Kind: kind, Name: name, Need: needs[i].N, Planned: needs[i].Planned}
		p.Got = countDone(a.tx, up, &p, j.Start, j.End)
		j.Parts = append(j.Parts, p)
	}
}

func (a *apply) putJoin(j *Join) {
	a.key = a.key.joins(j.ref()).time(j.End)
	if j.Waiting == 0 {
		a.delete(a.key)
		return
	}
	a.set(a.key, mustEncode(a.codec, j))
}

// endWait takes a time out of those that wait for upstreams; the caller gives it its
// verdict and keeps the join.
func (a *apply) endWait(h *heldSchedule, j *Join, w JoinWait) *Fire {
	a.key = a.key.joinWaits(w.Ref).time(w.End).time(w.Nominal)
	a.delete(a.key)
	a.key = a.key.joinDue(w)
	a.delete(a.key)
	j.Waiting--
	h.st.Waiting--
	h.changed = true
	a.addCounter(key{}.counter(countFires), -1) // writeFire counts it again
	return a.fireAt(w.Ref, FireKey{Nominal: w.Nominal})
}

// release fires the times of a period that wait no more, as far as the budget goes;
// what is left goes on as a ScheduleAct. by is what was waited for last. It returns
// what is left of the budget.
func (a *apply) release(h *heldSchedule, j *Join, by string, budget int) int {
	waits := ListJoinWaits(a.tx, h.ref, j, budget+1)
	for i, w := range waits {
		if i == budget {
			a.key = a.key.scheduleAct(ActRelease, h.ref)
			a.set(a.key, mustEncode(a.codec, &ScheduleAct{Kind: ActRelease, Ref: h.ref}))
			a.event(Event{Kind: EventScheduleAct})
			break
		}
		f := a.endWait(h, j, w)
		f.Due, f.Why, f.Actor = max(f.Due, a.now), "", by
		if h.st.Paused != nil {
			f.Verdict, f.Why, f.Actor = VerdictSkipped, WhyPaused, ""
			a.putFire(h, f)
		} else if err := a.fire(h, f); err != nil {
			a.refuseFire(h, f, err)
		}
	}
	a.putJoin(j)
	return max(budget-len(waits), 0)
}

// releaseMore goes on with the times of a schedule that wait no more.
func (a *apply) releaseMore(ref ScheduleRef) (more bool) {
	a.key = a.key.scheduleAct(ActRelease, ref)
	a.delete(a.key)
	h := a.schedule(ref)
	if h.st == nil || h.st.Rejudge {
		return false // who judges its joins releases
	}
	budget := maxJoinFires
	for _, j := range ListJoins(a.tx, ref) {
		if j.Complete() && !more {
			budget = a.release(h, &j, "", budget)
			more = j.Waiting > 0
		}
	}
	return more
}

// rejudge has the leader tell anew what the times of a schedule wait for.
func (a *apply) rejudge(h *heldSchedule) {
	if h.st.Waiting == 0 || h.st.Rejudge {
		return
	}
	h.st.Rejudge, h.changed = true, true
	a.key = a.key.joinDue(JoinWait{Ref: h.ref})
	a.set(a.key, nil)
}

func (a *apply) rejudged(h *heldSchedule) {
	if !h.st.Rejudge {
		return
	}
	h.st.Rejudge, h.changed = false, true
	a.key = a.key.joinDue(JoinWait{Ref: h.ref})
	a.delete(a.key)
}

// rejudgeDependents does so for all that wait for a schedule, since that has changed.
func (a *apply) rejudgeDependents(ref ScheduleRef) {
	u := upstream{relSchedule, ref.Namespace, ref.Name}
	if a.awaited[u] == 0 {
		return
	}
	for _, name := range dependents(a.tx, u, MaxDependents) {
		if h := a.schedule(ScheduleRef{ref.Namespace, name}); h.st != nil {
			a.rejudge(h)
		}
	}
}

// judgeJoins tells anew what the times of a schedule wait for.
func (a *apply) judgeJoins(c *JudgeJoins) Result {
	if err := a.checkTerm(c.Term); err != nil {
		return rejected(err)
	}
	h := a.schedule(c.Ref)
	if h.st == nil || !h.st.Rejudge || h.st.Generation != c.Generation {
		return rejected(stale("schedule", "is not to be judged, or was changed since", c.Ref.Name))
	}
	joins, seen := ListJoins(a.tx, c.Ref), 0
	if len(joins) != len(c.Joins) {
		return rejected(stale("joins", "must be all that there are", strconv.Itoa(len(c.Joins))))
	}
	for i := range joins {
		if joins[i].End != c.Joins[i].End {
			return rejected(stale("joins", "must be all that there are", strconv.Itoa(i)))
		}
		if err := a.checkJoin(h, joins[i].Start, joins[i].End, c.Joins[i].Needs); err != nil {
			return rejected(err)
		}
		for _, n := range c.Joins[i].Needs {
			seen += len(n.Seen)
		}
	}
	if seen > MaxJoinSeen {
		return rejected(job.Invalid("joins", "must bring at most "+strconv.Itoa(MaxJoinSeen)+" successes", strconv.Itoa(seen)))
	}
	a.rejudged(h)
	budget := maxJoinFires
	for i := range joins {
		j := &joins[i]
		a.countParts(h, j, c.Joins[i].Needs)
		if j.Complete() {
			budget = a.release(h, j, "", budget)
		} else {
			a.putJoin(j)
		}
	}
	return Result{}
}

// endJoins gives times up; each stands alone.
func (a *apply) endJoins(c *EndJoins) Result {
	if err := a.checkTerm(c.Term); err != nil {
		return rejected(err)
	}
	if len(c.Items) > MaxJoinEnds {
		return rejected(job.Invalid("items", "must be at most "+strconv.Itoa(MaxJoinEnds), strconv.Itoa(len(c.Items))))
	}
	results := make([]*job.Error, len(c.Items))
	for i, w := range c.Items {
		results[i] = a.endJoin(w)
	}
	return Result{Attempts: results}
}

func (a *apply) endJoin(w JoinWait) *job.Error {
	h := a.schedule(w.Ref)
	a.key = a.key.joinDue(w)
	if _, ok := a.tx.Get(a.key); !ok || h.st == nil || w.Until == 0 || w.Until > a.now {
		return stale("time", "does not wait so long", w.Ref.Name)
	}
	a.key = a.key.joins(w.Ref).time(w.End)
	j, ok := stored[Join](a, a.key)
	if !ok {
		damaged(a.key)
	}
	if j.Complete() && !h.st.Rejudge {
		return stale("time", "waits for nothing any more", w.Ref.Name) // its ActRelease fires it
	}
	f := a.endWait(h, j, w)
	a.putJoin(j)
	f.Verdict, f.Why, f.Error = VerdictMissed, WhyUpstream, cut("lacks "+j.Lacks())
	a.putFire(h, f)
	return nil
}

// dropWaits gives all times of a schedule that wait for upstreams a verdict, since it
// is deleted or its periods are others now.
func (a *apply) dropWaits(h *heldSchedule, verdict Verdict, why string) {
	for _, j := range ListJoins(a.tx, h.ref) {
		for _, w := range ListJoinWaits(a.tx, h.ref, &j, MaxJoinWaits) {
			f := a.endWait(h, &j, w)
			f.Verdict, f.Why = verdict, why
			a.putFire(h, f)
		}
		a.putJoin(&j)
	}
	a.rejudged(h)
}

// changeWaits follows a change of a schedule with its times that wait.
func (a *apply) changeWaits(h *heldSchedule, was, is *job.ScheduleSpec) {
	switch {
	case h.st.Waiting == 0:
	case is.After == nil || was.ByPeriod() != is.ByPeriod() || was.After.PeriodOrDefault() != is.After.PeriodOrDefault() ||
		was.TimezoneOrDefault() != is.TimezoneOrDefault():
		a.dropWaits(h, VerdictMissed, WhyEdited)
	case !slices.Equal(was.After.All, is.After.All):
		a.rejudge(h)
	}
}
