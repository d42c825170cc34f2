package fsm

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/axd-project/axd/job"
)

const (
	hourMS = int64(3600 * 1000)
	dayMS  = 24 * hourMS
)

// joinModel drives schedules that wait for each other and knows by itself what has
// succeeded.
type joinModel struct {
	*world
	t         *rapid.T
	succeeded map[string]bool // upstream and nominal time, or day
	pending   []TaskRef
}

// day is the period that a time is of, as its begin.
func day(ms int64) int64 { return ms - ms%dayMS }

// needs are what "s" and "t" wait for in a day: of the schedule "up" each time, which
// are at 0, 8 and 16 o'clock, and of the job "b" any.
func (m *joinModel) needs(name string) []JoinNeed {
	if name == "t" {
		return []JoinNeed{{N: 1}}
	}
	st, _ := GetScheduleState(m.tx, ScheduleRef{"default", "up"})
	return []JoinNeed{{N: 3, Planned: true, Generation: st.Generation}, {N: 1}}
}

func (m *joinModel) complete(name string, nominal int64) bool {
	d := day(nominal)
	for h := int64(0); name == "s" && h < 24; h += 8 {
		if !m.succeeded[fmt.Sprint("up", d+h*hourMS)] {
			return false
		}
	}
	return m.succeeded[fmt.Sprint("b", d)]
}

// fireNext fires the next time of a schedule, if it has come.
func (m *joinModel) fireNext(name string, step int64) {
	st, _ := GetScheduleState(m.tx, ScheduleRef{"default", name})
	next := max(st.Cursor, scriptStart-dayMS)/step*step + step
	if next > m.now || st.Paused != nil {
		return
	}
	f := FireTime{Nominal: next}
	if name != "up" {
		f.Join = &FireJoin{Start: day(next), End: day(next) + dayMS, Until: next + 40*hourMS, Needs: m.needs(name)}
	}
	item := FireItem{Ref: ScheduleRef{"default", name}, Generation: st.Generation, Cursor: st.Cursor, Times: []FireTime{f}, Next: next + step, NextAt: next + step}
	if r := m.do(FireSchedules{Items: []FireItem{item}})[0]; r.Attempts[0] != nil {
		m.t.Fatalf("%s: %v", name, r.Attempts[0])
	}
	m.look(name)
}

// look notes the tasks that a schedule has fired.
func (m *joinModel) look(name string) {
	for _, f := range m.fires(name) {
		if t, ok := GetTask(m.tx, TaskRef{"default", f.Task}); ok && name == "up" && t.State == job.Pending {
			m.pending = append(m.pending, t.Ref())
		}
	}
}

// endTask ends a task of an upstream.
func (m *joinModel) endTask() {
	if len(m.pending) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.pending)-1).Draw(m.t, "task")
	t, _ := GetTask(m.tx, m.pending[i])
	m.pending = append(m.pending[:i], m.pending[i+1:]...)
	if t.State != job.Pending {
		return
	}
	outcome := job.OutcomeFailed
	if rapid.IntRange(0, 4).Draw(m.t, "outcome") > 0 {
		outcome = job.OutcomeSuccess
		if t.Schedule == "up" {
			m.succeeded[fmt.Sprint("up", t.Nominal)] = true
		} else {
			m.succeeded[fmt.Sprint("b", day(t.Created))] = true
		}
	}
	m.finish(&t, outcome)
}

func (m *joinModel) step() {
	t := m.t
	switch rapid.IntRange(0, 10).Draw(t, "what") {
	case 0, 1:
		m.now += rapid.Int64Range(1, 6).Draw(t, "hours") * hourMS
	case 2, 3:
		m.fireNext("up", 8*hourMS)
	case 4:
		m.fireNext("s", dayMS)
	case 5:
		m.fireNext("t", 4*hourMS)
	case 6:
		r := m.do(Submit{Namespace: "default", Tasks: []job.TaskSpec{{Job: "b"}}})[0]
		m.pending = append(m.pending, TaskRef{"default", r.Tasks[0].ID})
	case 7:
		m.endTask()
	case 8:
		m.do(EndJoins{Items: ScanJoinDue(m.tx, m.now, MaxJoinEnds)})
	case 9:
		if rapid.Bool().Draw(t, "change") {
			m.do(PutSchedule{Namespace: "default", Name: "up", Spec: job.ScheduleSpec{
				Job: "a", Cron: "0 */8 * * *", Overlap: job.OverlapAllow, Description: fmt.Sprint(m.index),
			}})
		}
		m.judge()
	case 10:
		m.m.Reset() // as another server, or this one after a restart
	}
}

// judge tells anew what waits, where that is asked for.
func (m *joinModel) judge() {
	due := ScanJoinDue(m.tx, m.now, 1)
	if len(due) == 0 || due[0].Until != 0 {
		return
	}
	st, _ := GetScheduleState(m.tx, due[0].Ref)
	c := JudgeJoins{Ref: due[0].Ref, Generation: st.Generation}
	for _, j := range ListJoins(m.tx, due[0].Ref) {
		c.Joins = append(c.Joins, JoinJudged{End: j.End, Needs: m.needs(due[0].Ref.Name)})
	}
	m.do(c)
}

// A time waits exactly as long as something lacks: whatever happens in whatever order,
// what is fired was complete, and what waits is not.
func TestJoinsFireWhenCompleteAndNotBefore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &joinModel{world: newWorld(t), t: t, succeeded: map[string]bool{}}
		m.now = scriptStart - scriptStart%dayMS + dayMS
		for _, name := range []string{"a", "b"} {
			m.do(PutJob{Namespace: "default", Name: name, Spec: job.Spec{
				Executor: job.Executor{Handler: "h"}, Policy: job.Policy{Retry: &job.Retry{MaxRetries: new(0)}},
			}})
		}
		put := func(name string, spec job.ScheduleSpec) {
			spec.Overlap = job.OverlapAllow
			m.do(PutSchedule{Namespace: "default", Name: name, Spec: spec})
		}
		put("up", job.ScheduleSpec{Job: "a", Cron: "0 */8 * * *"})
		put("s", job.ScheduleSpec{Job: "true", After: &job.After{All: []job.Upstream{{Schedule: "up"}, {Job: "b"}}}})
		put("t", job.ScheduleSpec{Job: "true", Cron: "0 */4 * * *", After: &job.After{All: []job.Upstream{{Job: "b"}}}})
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			m.step()
			for _, name := range []string{"s", "t"} {
				st, _ := GetScheduleState(m.tx, ScheduleRef{"default", name})
				for _, f := range m.fires(name) {
					complete := m.complete(name, f.Nominal)
					if f.Verdict == VerdictFired && !complete || f.Verdict == VerdictWaiting && complete && !st.Rejudge {
						t.Fatalf("the time %d of %s is %v, complete %v", f.Nominal, name, f.Verdict, complete)
					}
				}
			}
		}
	})
}
