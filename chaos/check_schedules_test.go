package chaos

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

func TestTimesAroundAClockChange(t *testing.T) {
	table := func(name string, until time.Time) timetable {
		for _, t := range timetables(until, Plan{}) {
			if t.name == name {
				return t
			}
		}
		return timetable{}
	}
	for _, tt := range []struct {
		name, from, until, want string
	}{
		{"fixed", "2027-03-28T00:40:00Z", "2027-03-28T01:10:00Z", "01:00:00.000"},
		{"fixed", "2027-10-31T00:20:00Z", "2027-10-31T02:10:00Z", "00:30:00.000"}, // not at 01:30, when it is half past two again
		{"fixed", "2027-06-01T00:20:00Z", "2027-06-01T00:40:00Z", "00:30:00.000"},
		{"clocks", "2027-03-28T00:52:00Z", "2027-03-28T01:06:00Z", "00:55:00.000 01:00:00.000 01:05:00.000"},
		{"clocks", "2027-10-31T00:57:00Z", "2027-10-31T01:06:00Z", "01:00:00.000 01:05:00.000"},
		{"strict", "2027-06-01T00:00:00Z", "2027-06-01T00:00:21Z", "00:00:07.000 00:00:14.000"},
		{"all", "2027-06-01T00:00:00.5Z", "2027-06-01T00:00:20Z", "00:00:10.000"},
		{"once", "2027-06-01T00:00:00Z", "2027-06-01T00:02:00Z", "00:01:20.000"},
		{"heard", "2027-06-01T00:00:00Z", "2027-06-01T00:02:00Z", ""},
	} {
		from, _ := time.Parse(time.RFC3339, tt.from)
		until, _ := time.Parse(time.RFC3339, tt.until)
		plan := table(tt.name, until)
		var got []string
		for _, ms := range plan.times(from) {
			got = append(got, stamp(ms))
		}
		if is := strings.Join(got, " "); is != tt.want {
			t.Errorf("%s from %s to %s fires at %q, not at %q", tt.name, tt.from, tt.until, is, tt.want)
		}
	}
}

// fired is a history of two minutes in which every time of every schedule was fired.
func fired() (History, map[string]*ScheduleDump) {
	made := at(0).Truncate(time.Minute)
	until := made.Add(2 * time.Minute)
	d := Dump{Tasks: map[string]fsm.Task{}, Runs: map[string]RunDump{}, Schedules: map[string]ScheduleDump{}}
	dumps, n := map[string]*ScheduleDump{}, uint64(0)
	for _, t := range timetables(until, Plan{}) {
		s := &ScheduleDump{Schedule: fsm.Schedule{Name: t.name, Spec: t.spec, Created: made.UnixMilli()}}
		times := t.times(made)
		if most := t.spec.MaxRuns; most > 0 {
			times = times[:min(len(times), most)]
		}
		for _, nominal := range times {
			n++
			f, id := fsm.Fire{Nominal: nominal, Due: nominal, At: nominal + 5, Verdict: fsm.VerdictFired}, job.NewID(1, n, 0)
			if t.spec.Workflow != "" {
				f.Run = id
				d.Runs[id.String()] = RunDump{Schedule: t.name, Nominal: nominal}
			} else {
				f.Task = id
				d.Tasks[id.String()] = fsm.Task{ID: id, State: job.Success, Schedule: t.name, Nominal: nominal}
			}
			s.Fires = append(s.Fires, f)
		}
		dumps[t.name] = s
	}
	return History{Dumps: []Dump{d}, Plan: Plan{Length: 2 * time.Minute}}, dumps
}

func (h *History) withSchedules(dumps map[string]*ScheduleDump) *check {
	for name, s := range dumps {
		h.Dumps[0].Schedules[name] = *s
	}
	return newCheck(*h, Limits{Skew: 100 * time.Millisecond})
}

func TestLedgersThatAreWholePass(t *testing.T) {
	h, dumps := fired()
	c := h.withSchedules(dumps)
	c.ledgers()
	if len(c.found) > 0 {
		t.Error(c.found)
	}
}

func TestChecksFindBrokenLedgers(t *testing.T) {
	span := func(s *ScheduleDump, from, to int, f fsm.Fire) { // of times, in the place of their rows
		f.Nominal, f.Until, f.At = s.Fires[from].Nominal, s.Fires[to].Nominal, s.Fires[to].Nominal+int64(time.Hour/time.Millisecond)
		s.Fires = append(append(append([]fsm.Fire(nil), s.Fires[:from]...), f), s.Fires[to+1:]...)
	}
	for want, break_ := range map[string]func(h *History, s map[string]*ScheduleDump){
		"strict has 0 verdicts for": func(_ *History, s map[string]*ScheduleDump) { s["strict"].Fires = s["strict"].Fires[1:] },
		"strict has 2 verdicts for": func(_ *History, s map[string]*ScheduleDump) {
			again := s["strict"].Fires[0]
			again.Until = again.Nominal
			again.Verdict, again.Why = fsm.VerdictSkipped, fsm.WhyPaused
			s["strict"].Fires = append(s["strict"].Fires, again)
		},
		"still waits":       func(_ *History, s map[string]*ScheduleDump) { s["queue"].Fires[0].Verdict = fsm.VerdictQueued },
		"none of its times": func(_ *History, s map[string]*ScheduleDump) { s["all"].Fires[0].Nominal++ },
		"counts 3 times, there are 2": func(_ *History, s map[string]*ScheduleDump) {
			span(s["strict"], 2, 3, fsm.Fire{Count: 3, Verdict: fsm.VerdictMissed, Why: fsm.WhyDowntime})
		},
		"by its plan, it may 5": func(_ *History, s map[string]*ScheduleDump) {
			s["few"].Fires = append(s["few"].Fires, s["few"].Fires[0])
		},
		"is missing": func(_ *History, s map[string]*ScheduleDump) { delete(s, "latest") },
		"not there, or not its": func(h *History, s map[string]*ScheduleDump) {
			delete(h.Dumps[0].Tasks, s["all"].Fires[0].Task.String())
		},
		"two fires name": func(_ *History, s map[string]*ScheduleDump) {
			s["all"].Fires[0].Task = s["all"].Fires[1].Task
		},
		"made task": func(h *History, _ map[string]*ScheduleDump) {
			h.Dumps[0].Tasks["x"] = fsm.Task{Schedule: "all", Nominal: 7}
		},
		"made run":                 func(h *History, _ map[string]*ScheduleDump) { h.Dumps[0].Runs["x"] = RunDump{Schedule: "flows"} },
		"for missed times forbids": func(_ *History, s map[string]*ScheduleDump) { s["strict"].Fires[0].CatchUp = true },
		`with "overlap"`: func(_ *History, s map[string]*ScheduleDump) {
			s["queue"].Fires[0].Verdict, s["queue"].Fires[0].Why = fsm.VerdictSkipped, fsm.WhyOverlap
		},
		"which has no verdict": func(_ *History, s map[string]*ScheduleDump) {
			s["latest"].Fires[0] = fsm.Fire{Nominal: s["latest"].Fires[0].Nominal, Verdict: fsm.VerdictMerged, Why: fsm.WhyNewer, Into: 7}
		},
		"late and not as missed": func(_ *History, s map[string]*ScheduleDump) { s["all"].Fires[0].At += time.Minute.Milliseconds() },
		"although it was judged in time": func(_ *History, s map[string]*ScheduleDump) {
			span(s["strict"], 1, 1, fsm.Fire{Count: 1, Verdict: fsm.VerdictMissed, Why: fsm.WhyDowntime})
			s["strict"].Fires[1].At = s["strict"].Fires[1].Nominal + 10
		},
		"while it was paused": func(h *History, s map[string]*ScheduleDump) {
			when := time.UnixMilli(s["all"].Fires[3].At)
			h.Calls = []Call{
				{Verb: Pause, Object: "all", Begun: when.Add(-2 * time.Second), Ended: when.Add(-time.Second)},
				{Verb: Resume, Object: "all", Begun: when.Add(time.Second), Ended: when.Add(2 * time.Second)},
			}
		},
		"nobody has paused it": func(_ *History, s map[string]*ScheduleDump) {
			span(s["all"], 1, 2, fsm.Fire{Count: 2, Verdict: fsm.VerdictSkipped, Why: fsm.WhyPaused})
		},
	} {
		h, dumps := fired()
		break_(&h, dumps)
		c := h.withSchedules(dumps)
		c.ledgers()
		if found := strings.Join(c.found, "\n"); !strings.Contains(found, want) {
			t.Errorf("ledgers in which something is %q gave %q", want, found)
		}
	}
}

func TestChecksFindBrokenEvents(t *testing.T) {
	id := job.NewID(1, 2, 3)
	good := func() History {
		heard := ScheduleDump{Schedule: fsm.Schedule{Name: "heard", Spec: job.ScheduleSpec{Event: &job.OnEvent{Name: eventName}}}}
		heard.Fires = []fsm.Fire{{Origin: fsm.ByEvent, Actor: "event " + eventName + " e1", Verdict: fsm.VerdictFired}}
		return History{
			Calls: []Call{{Verb: SendEvent, Arg: "e1", Object: id.String()}, {Verb: SendEvent, Arg: "e1", Object: id.String(), Deduplicated: true}},
			Dumps: []Dump{{Events: []fsm.SentEvent{{ID: id, Dedup: "e1"}}, Schedules: map[string]ScheduleDump{"heard": heard}}},
		}
	}
	for want, break_ := range map[string]func(h *History){
		"":                          func(*History) {},
		"was kept twice":            func(h *History) { h.Dumps[0].Events = append(h.Dumps[0].Events, h.Dumps[0].Events[0]) },
		`and is kept as ""`:         func(h *History) { h.Dumps[0].Events = nil },
		"was acknowledged as other": func(h *History) { h.Calls[1].Object = "other" },
		"has 0 verdicts for event":  func(h *History) { h.Dumps[0].Schedules["heard"].Fires[0].Actor = "" },
	} {
		h := good()
		break_(&h)
		c := newCheck(h, Limits{})
		c.events()
		if found := strings.Join(c.found, "\n"); !strings.Contains(found, want) || want == "" && found != "" {
			t.Errorf("events in which something is %q gave %q", want, found)
		}
	}
}

func TestChecksFindFiresThatOverlap(t *testing.T) {
	task := func(n uint64, state job.State) fsm.Task {
		return fsm.Task{ID: job.NewID(1, n, 0), State: state, Schedule: "strict", Version: 1}
	}
	for name, tt := range map[string]struct {
		first job.State
		plan  string
		want  bool
	}{
		"one after the other": {job.Success, "strict", false},
		"beside another":      {job.Running, "strict", true},
		"where it may be":     {job.Running, "all", false},
	} {
		c := newCheck(History{}, Limits{})
		w := newFireWatch(c)
		one, two := task(1, tt.first), task(2, job.Pending)
		one.Schedule, two.Schedule = tt.plan, tt.plan
		w.see([]change{{is: one}})
		w.see([]change{{is: two}})
		if found := len(c.found) > 0; found != tt.want {
			t.Errorf("%s: found %s", name, fmt.Sprint(c.found))
		}
	}
}

// A call to resume that was under way with a pause may have come after it.
func TestAPauseBesideAResumeIsNotSure(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	pause := Call{Verb: Pause, Begun: at(10), Ended: at(12)}
	later := Call{Verb: Resume, Begun: at(40), Ended: at(41)}
	for name, tt := range map[string]struct {
		resumes []Call
		sure    bool
	}{
		"one later":      {[]Call{later, {Verb: Resume, Begun: at(1), Ended: at(2)}}, true},
		"one beside it":  {[]Call{later, {Verb: Resume, Begun: at(9), Ended: at(30)}}, false},
		"one before":     {[]Call{{Verb: Resume, Begun: at(1), Ended: at(2)}}, false},
		"one within it":  {[]Call{{Verb: Resume, Begun: at(11), Ended: at(12)}, later}, false},
		"one and others": {[]Call{{Verb: Resume, Begun: at(50), Ended: at(51)}, later}, true},
	} {
		end, sure := resumedAt(&pause, tt.resumes)
		if sure != tt.sure || sure && !end.Equal(later.Begun) {
			t.Errorf("%s: %v, %v", name, end, sure)
		}
	}
}
