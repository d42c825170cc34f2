package scheduler

import (
	"slices"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// maxShared is how many calendars are kept ready.
const maxShared = 1 << 10

// sharedCalendar is a calendar made ready, with what it was made from.
type sharedCalendar struct {
	spec job.CalendarSpec
	days *job.CalendarDays
}

// calendars finds a namespace's calendars. Plans share them: thousands may name one
// that holds as many days.
func (l *loop) calendars(r fsm.Reader, namespace string) func(name string) (*job.CalendarDays, bool) {
	return func(name string) (*job.CalendarDays, bool) {
		c, ok := fsm.GetCalendar(r, namespace, name)
		if !ok {
			return nil, false
		}
		ref := fsm.ScheduleRef{Namespace: namespace, Name: name}
		shared, ok := l.fires.calendars[ref]
		if ok && slices.Equal(shared.spec.Weekdays, c.Spec.Weekdays) && slices.Equal(shared.spec.Include, c.Spec.Include) &&
			slices.Equal(shared.spec.Exclude, c.Spec.Exclude) {
			return shared.days, true
		}
		days, err := c.Spec.Ready()
		if err != nil {
			return nil, false
		}
		if len(l.fires.calendars) >= maxShared {
			clear(l.fires.calendars)
		}
		l.fires.calendars[ref] = sharedCalendar{c.Spec, days}
		return days, true
	}
}
