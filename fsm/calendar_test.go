package fsm

import (
	"fmt"
	"testing"

	"github.com/axd-project/axd/job"
)

// TestCalendarChangeReachesAllItsSchedules changes a calendar that more schedules
// name than one entry plans anew.
func TestCalendarChangeReachesAllItsSchedules(t *testing.T) {
	const schedules = 2*maxReplanned + 7
	e := newLimitsEnv(t)
	ref := ScheduleRef{"default", "days"}
	put := func(weekdays ...string) Result {
		return e.apply(PutCalendar{Namespace: ref.Namespace, Name: ref.Name, Spec: job.CalendarSpec{Weekdays: weekdays}})[0]
	}
	put("mon-fri")
	e.apply(PutJob{Namespace: "default", Name: "j", Spec: job.Spec{Executor: job.Executor{Handler: "h"}}})
	fire := FireSchedules{}
	for i := range schedules {
		s := ScheduleRef{"default", fmt.Sprintf("s%d", i)}
		spec := job.ScheduleSpec{Job: "j", Cron: "0 5 * * *", Calendars: &job.Calendars{Include: []string{"days"}}}
		if r := e.apply(PutSchedule{Namespace: s.Namespace, Name: s.Name, Spec: spec})[0]; r.Err != nil {
			t.Fatal(r.Err)
		}
		_, st, _ := GetSchedule(e.tx, s)
		fire.Items = append(fire.Items, FireItem{Ref: s, Generation: st.Generation, Cursor: st.Cursor, Next: e.now + 1e6, NextAt: e.now + 1e6})
	}
	e.apply(fire)
	unplanned := func() (n int) {
		return len(ScanScheduleDue(e.tx, ScheduleDue{}, e.now, schedules+1))
	}
	if n := unplanned(); n != 0 {
		t.Fatalf("%d schedules are not planned", n)
	}
	if users, more := CalendarUsers(e.tx, "default", "days", 3); len(users) != 3 || !more || users[0] != "s0" {
		t.Fatal(users, more)
	}

	put("sat", "sun")
	acts, last := 0, maxReplanned
	for len(ListScheduleActs(e.tx, 10)) > 0 {
		if n := unplanned(); n != last {
			t.Fatalf("%d schedules are planned anew, want %d", n, last)
		}
		e.check()
		r := e.apply(ContinueSchedules{Kind: ActReplan, Ref: ref})[0]
		last = min(last+maxReplanned, schedules)
		if acts++; r.Err != nil || r.More != (last < schedules) || acts > 10 {
			t.Fatalf("%+v after %d", r, acts)
		}
	}
	if n := unplanned(); n != schedules || acts != 2 {
		t.Errorf("%d schedules are planned anew after %d entries", n, acts)
	}
	e.check()
	if r := e.apply(ContinueSchedules{Kind: ActReplan, Ref: ref})[0]; r.Err == nil {
		t.Error("an act that has ended goes on")
	}

	// The act goes with the calendar, which goes once nobody names it.
	put("mon")
	for i := range schedules {
		e.apply(DeleteSchedule{Namespace: "default", Name: fmt.Sprintf("s%d", i)})
	}
	if r := e.apply(DeleteCalendar{Namespace: "default", Name: "days"})[0]; r.Err != nil || len(ListScheduleActs(e.tx, 10)) > 0 {
		t.Error(r.Err, ListScheduleActs(e.tx, 10))
	}
	e.check()
}

// TestCalendarCheckSeesDamage breaks each kind of row.
func TestCalendarCheckSeesDamage(t *testing.T) {
	e := newLimitsEnv(t)
	e.apply(PutCalendar{Namespace: "default", Name: "days", Spec: job.CalendarSpec{Weekdays: []string{"mon"}}},
		PutJob{Namespace: "default", Name: "j", Spec: job.Spec{Executor: job.Executor{Handler: "h"}}},
		PutSchedule{Namespace: "default", Name: "s", Spec: job.ScheduleSpec{Job: "j", Cron: "0 5 * * *", Calendars: &job.Calendars{Exclude: []string{"days"}}}})
	e.check()
	for name, damage := range map[string]func(tx *memTx){
		"use lost":             func(tx *memTx) { tx.Delete(key{}.calendarUses("default", "days").name("s")) },
		"use of no schedule":   func(tx *memTx) { tx.Set(key{}.calendarUses("default", "days").name("nobody"), nil) },
		"calendar lost":        func(tx *memTx) { tx.Delete(key{}.calendar("default", "days")) },
		"calendar not counted": func(tx *memTx) { tx.Delete(key{}.counter(countCalendars).name("default")) },
	} {
		tx := e.tx.memTx.clone()
		damage(tx)
		if Check(tx, 5) == nil {
			t.Errorf("%s: not seen", name)
		}
	}
}
