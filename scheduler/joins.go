package scheduler

import (
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// joining tells what the times of one schedule wait for.
type joining struct {
	l    *loop
	r    fsm.Reader
	s    *fsm.Schedule
	plan *job.Plan
	seen int // successes that it has told of
	told map[int64][]fsm.JoinNeed
}

func (l *loop) newJoining(r fsm.Reader, s *fsm.Schedule, plan *job.Plan) *joining {
	return &joining{l: l, r: r, s: s, plan: plan, told: map[int64][]fsm.JoinNeed{}}
}

// at is what a planned time waits for.
func (j *joining) at(nominal int64) *fsm.FireJoin {
	start, end := j.plan.Bounds(j.s.Spec.After.PeriodOrDefault(), stamp(nominal))
	return &fsm.FireJoin{
		Start: start.UnixMilli(), End: end.UnixMilli(), Until: j.s.Spec.WaitsUntil(stamp(nominal), start, end).UnixMilli(),
		Needs: j.needs(start.UnixMilli(), end.UnixMilli()),
	}
}

// needs is what the times of a period wait for. What succeeded before is told once.
func (j *joining) needs(start, end int64) []fsm.JoinNeed {
	if told, ok := j.told[end]; ok {
		return told
	}
	var needs, again []fsm.JoinNeed
	for _, u := range j.s.Spec.After.All {
		n := fsm.JoinNeed{N: 1}
		if u.Schedule != "" {
			n = j.ofSchedule(u.Schedule, start, end)
		}
		again = append(again, n)
		if j.s.Updated > start && n.N != 0 {
			n.Seen = fsm.Successes(j.r, j.s.Namespace, u, n.Planned, start, end, fsm.MaxJoinSeen-j.seen)
			j.seen += len(n.Seen)
		}
		needs = append(needs, n)
	}
	j.told[end] = again
	return needs
}

// ofSchedule is how many times of a period another schedule must have succeeded at.
// Its plan tells of those since its last change, its ledger of those before.
func (j *joining) ofSchedule(name string, start, end int64) fsm.JoinNeed {
	s, st, ok := fsm.GetSchedule(j.r, fsm.ScheduleRef{Namespace: j.s.Namespace, Name: name})
	if !ok {
		return fsm.JoinNeed{N: -1}
	}
	n := fsm.JoinNeed{N: -1, Planned: true, Generation: st.Generation}
	known := j.l.plan(j.r, &s, &st)
	if known.err != nil {
		return n
	}
	if !known.plan.Timed() {
		n.N, n.Planned = 1, false
		return n
	}
	from, before := start, 0
	if changed := min(s.Updated+1, end); changed > start && !s.Spec.ByPeriod() {
		from, before = changed, fsm.CountPlanned(j.r, s.Ref(), start, changed)
	}
	count := before + len(known.plan.Between(stamp(from-1), stamp(end-1), fsm.MaxJoinNeed+1))
	if count <= fsm.MaxJoinNeed {
		n.N = count
	}
	return n
}

// tendJoins has what waits for upstreams told anew where they have changed, and gives
// up what has waited long enough.
func (l *loop) tendJoins(now int64) {
	if l.fires.joining {
		return
	}
	r, release := l.cfg.State.Read()
	defer release()
	due := fsm.ScanJoinDue(r, now, fsm.MaxJoinEnds)
	if len(due) == 0 {
		return
	}
	var cmd fsm.Command = fsm.EndJoins{Term: l.term, Items: due}
	if due[0].Until == 0 {
		cmd = l.judgeJoins(r, due[0].Ref)
	}
	l.fires.joining = true
	l.cfg.Log.ProposeAsync(cmd, func(res fsm.Result, err error) {
		l.later(func(l *loop) {
			l.fires.joining = false
			if err == nil && res.Err == nil {
				l.nextHouse = 0
			}
		})
	})
}

// judgeJoins tells anew what the times of a schedule wait for.
func (l *loop) judgeJoins(r fsm.Reader, ref fsm.ScheduleRef) fsm.JudgeJoins {
	s, st, _ := fsm.GetSchedule(r, ref)
	cmd := fsm.JudgeJoins{Term: l.term, Ref: ref, Generation: st.Generation}
	told := l.newJoining(r, &s, nil)
	for _, j := range fsm.ListJoins(r, ref) {
		cmd.Joins = append(cmd.Joins, fsm.JoinJudged{End: j.End, Needs: told.needs(j.Start, j.End)})
	}
	return cmd
}
