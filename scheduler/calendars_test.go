package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// TestCalendarsDecideTheDays: schedules follow their calendars, and follow them
// anew when one changes, without firing what has passed.
func TestCalendarsDecideTheDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 10, time.Millisecond)
		w.mustConnect()
		today := c.start.UTC().Format(time.DateOnly)
		tomorrow := c.start.UTC().AddDate(0, 0, 1).Format(time.DateOnly)
		put := func(days ...string) {
			c.must(fsm.PutCalendar{Namespace: job.DefaultNamespace, Name: "days", Spec: job.CalendarSpec{Include: days}})
		}
		put(tomorrow)
		spec := job.ScheduleSpec{Every: job.Duration(10 * time.Second), Anchor: c.anchor(), Calendars: &job.Calendars{Include: []string{"days"}}}
		c.schedule("s", spec)
		spec.Job = "j"
		c.schedule("t", spec)
		c.to(25 * time.Second)
		wantText(t, "fired on a day that is left out", c.with("s", fsm.VerdictFired), "")
		first := c.start.UTC().Truncate(24*time.Hour).AddDate(0, 0, 1).UnixMilli()
		if st := c.scheduleState("s"); st.Next < first || st.Next >= first+10_000 {
			t.Errorf("waits until %s, want the first time of %s", time.UnixMilli(st.Next).UTC(), tomorrow)
		}

		put(today)
		c.to(45 * time.Second)
		wantText(t, "fired since the day belongs to the calendar", c.with("s", fsm.VerdictFired), "30 40")
		wantText(t, "fired by the other", c.with("t", fsm.VerdictFired), "30 40")
		put(tomorrow)
		c.to(65 * time.Second)
		wantText(t, "fired since it doesn't any more", c.with("s", fsm.VerdictFired), "30 40")
		c.check()
	})
}
