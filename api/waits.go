package api

import (
	"strconv"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// shownWaits is how many times that wait are shown with their schedule.
const shownWaits = 20

// showWaits tells of a schedule's times that wait for what it comes after.
func showWaits(v fsm.Reader, ref fsm.ScheduleRef) (waits []client.ScheduleWait) {
	for _, w := range fsm.ListJoinWaits(v, ref, nil, shownWaits) {
		j, ok := fsm.FindJoin(v, ref, w.Nominal)
		if !ok {
			continue
		}
		out := client.ScheduleWait{Nominal: at(w.Nominal), Until: at(w.Until), Begin: at(j.Start), End: at(j.End)}
		for i := range j.Parts {
			p := &j.Parts[i]
			up := client.ScheduleUpstream{Upstream: p.Upstream(), Need: max(p.Need, 0), Succeeded: p.Got, Lacks: p.Lacks()}
			if p.Need < 0 {
				up.Note = "its times can't be told, or are more than " + strconv.Itoa(fsm.MaxJoinNeed)
			}
			out.For = append(out.For, up)
		}
		waits = append(waits, out)
	}
	return waits
}

// tellWait says what a time of a ledger waits for.
func tellWait(v fsm.Reader, f *fsm.Fire) {
	if f.Verdict != fsm.VerdictWaiting {
		return
	}
	if j, ok := fsm.FindJoin(v, fsm.ScheduleRef{Namespace: f.Namespace, Name: f.Schedule}, f.Nominal); ok {
		f.Error = "waits for " + j.Lacks()
	}
}

// checkUpstreams refuses what has more times in a period than can be waited for.
func checkUpstreams(v fsm.Reader, namespace string, s *job.ScheduleSpec, plan *job.Plan, now time.Time) *job.Error {
	if s.After == nil {
		return nil
	}
	period := s.After.PeriodOrDefault()
	_, start := plan.Bounds(period, now)
	_, end := plan.Bounds(period, start)
	for i, u := range s.After.All {
		up, _, ok := fsm.GetSchedule(v, fsm.ScheduleRef{Namespace: namespace, Name: u.Schedule})
		if u.Schedule == "" || !ok {
			continue // what does not exist, the state machine refuses
		}
		of, err := planOf(v, &up)
		if err == nil && len(of.Between(start.Add(-1), end.Add(-1), fsm.MaxJoinNeed+1)) > fsm.MaxJoinNeed {
			return job.Invalid("after.all["+strconv.Itoa(i)+"].schedule", "must have at most "+strconv.Itoa(fsm.MaxJoinNeed)+
				" times in a "+string(period)+": choose a shorter period", u.Schedule)
		}
	}
	return nil
}
