package fsm

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"

	"github.com/axd-project/axd/job"
)

// MaxCalendars is how many calendars a namespace may have.
const MaxCalendars = 10_000

// countCalendars is a kind of counter; see tableCounters.
const countCalendars byte = 'K'

// Calendar is a named set of days that schedules refer to.
type Calendar struct {
	Namespace string           `msgpack:"n"`
	Name      string           `msgpack:"N"`
	Version   uint64           `msgpack:"v"`
	Spec      job.CalendarSpec `msgpack:"s"`
	Created   int64            `msgpack:"c"`
	Updated   int64            `msgpack:"u"`
	FileSet   string           `msgpack:"f,omitempty"` // whose files describe it; empty: no file does
}

// PutCalendar creates a calendar or gives it a new version; an equal spec changes
// nothing but, perhaps, the file set. The schedules that name it are planned anew.
type PutCalendar struct {
	Namespace string           `msgpack:"n"`
	Name      string           `msgpack:"N"`
	Spec      job.CalendarSpec `msgpack:"s"`
	Actor     string           `msgpack:"a,omitempty"`
	FileSet   string           `msgpack:"f,omitempty"` // empty: stays as it is
}

// DeleteCalendar removes a calendar that no schedule names.
type DeleteCalendar struct {
	Namespace string `msgpack:"n"`
	Name      string `msgpack:"N"`
	Actor     string `msgpack:"a,omitempty"`
}

// newCalendarCommand is newCommand for the commands of this file.
func newCalendarCommand(code Code) Command {
	switch code {
	case CodePutCalendar:
		return &PutCalendar{}
	case CodeDeleteCalendar:
		return &DeleteCalendar{}
	}
	return nil
}

// calendarCommand is command for those of this file.
func (a *apply) calendarCommand(c Command) (Result, bool) {
	switch c := c.(type) {
	case *PutCalendar:
		return a.putCalendar(c), true
	case *DeleteCalendar:
		return a.deleteCalendar(c), true
	}
	return Result{}, false
}

func (k key) calendar(namespace, name string) key {
	return k.table(tableCalendars).name(namespace).name(name)
}

// calendarUses is the prefix of the schedules that name a calendar.
func (k key) calendarUses(namespace, calendar string) key {
	return k.table(tableCalendarUses).name(namespace).name(calendar)
}

func (a *apply) putCalendar(c *PutCalendar) Result {
	if err := checkNames(c.Namespace, "name", c.Name); err != nil {
		return rejected(err)
	}
	if err := c.Spec.Validate(); err != nil {
		return rejected(err)
	}
	if c.FileSet != "" {
		if err := job.ValidateName("file_set", c.FileSet); err != nil {
			return rejected(err)
		}
	}
	cal := &Calendar{Namespace: c.Namespace, Name: c.Name, Version: 1, Spec: c.Spec, Created: a.now, Updated: a.now, FileSet: c.FileSet}
	a.key = a.key.calendar(c.Namespace, c.Name)
	old, found := stored[Calendar](a, a.key)
	changed := true
	if found {
		spec := bytes.Clone(mustEncode(a.codec, &c.Spec))
		if changed = !bytes.Equal(spec, mustEncode(a.codec, &old.Spec)); !changed {
			cal.Version, cal.Updated = old.Version, old.Updated
		} else {
			cal.Version = old.Version + 1
		}
		cal.Created, cal.FileSet = old.Created, cmp.Or(c.FileSet, old.FileSet)
		if !changed && cal.FileSet == old.FileSet {
			return Result{Version: old.Version}
		}
	} else {
		counter := key{}.counter(countCalendars).name(c.Namespace)
		if a.counter(counter).value >= MaxCalendars {
			return rejected(&job.Error{
				Code: job.CodeQuotaExceeded, Field: "namespace", Value: job.Shorten(c.Namespace),
				Rule: "has as many calendars as it may, " + strconv.Itoa(MaxCalendars),
			})
		}
		a.addCounter(counter, +1)
	}
	a.key = a.key.calendar(c.Namespace, c.Name)
	a.set(a.key, mustEncode(a.codec, cal))
	if found && changed {
		a.replan(ScheduleRef{c.Namespace, c.Name}, "")
	}
	return Result{Version: cal.Version, Changed: changed}
}

func (a *apply) deleteCalendar(c *DeleteCalendar) Result {
	a.key = a.key.calendar(c.Namespace, c.Name)
	if _, ok := a.tx.Get(a.key); !ok {
		return rejected(job.NotFound("calendar", c.Name))
	}
	if users, _ := scanUses(a.tx, ScheduleRef{c.Namespace, c.Name}, "", 1); len(users) > 0 {
		return rejected(job.Conflict("calendar", "is named by the schedule "+strconv.Quote(users[0]), c.Name))
	}
	a.key = a.key.scheduleAct(ActReplan, ScheduleRef{c.Namespace, c.Name})
	a.delete(a.key)
	a.key = a.key.calendar(c.Namespace, c.Name)
	a.delete(a.key)
	a.addCounter(key{}.counter(countCalendars).name(c.Namespace), -1)
	return Result{Changed: true}
}

// calendarNames lists the calendars that a schedule names, each once.
func calendarNames(c *job.Calendars) []string {
	if c == nil {
		return nil
	}
	names := slices.Concat(c.Include, c.Exclude)
	slices.Sort(names)
	return slices.Compact(names)
}

// checkCalendars refuses a schedule that names a calendar which doesn't exist.
func (a *apply) checkCalendars(namespace string, c *job.Calendars) *job.Error {
	for _, name := range calendarNames(c) {
		a.key = a.key.calendar(namespace, name)
		if _, ok := a.tx.Get(a.key); !ok {
			return job.NotFound("calendar", name)
		}
	}
	return nil
}

// useCalendars moves the rows that tell which calendars a schedule names.
func (a *apply) useCalendars(ref ScheduleRef, before, after *job.Calendars) {
	had, has := calendarNames(before), calendarNames(after)
	for _, name := range had {
		if _, kept := slices.BinarySearch(has, name); !kept {
			a.key = a.key.calendarUses(ref.Namespace, name).name(ref.Name)
			a.delete(a.key)
		}
	}
	for _, name := range has {
		if _, known := slices.BinarySearch(had, name); !known {
			a.key = a.key.calendarUses(ref.Namespace, name).name(ref.Name)
			a.set(a.key, nil)
		}
	}
}

// maxReplanned is how many schedules one command has planned anew: each costs a
// few rows.
const maxReplanned = 150

// replan has the leader plan a part of the schedules that name a calendar anew,
// and keeps the act as long as there are more. Times that lie in the past are not
// fired by it.
func (a *apply) replan(calendar ScheduleRef, after string) (more bool) {
	users, more := scanUses(a.tx, calendar, after, maxReplanned)
	for _, name := range users {
		h := a.schedule(ScheduleRef{calendar.Namespace, name})
		if h.st == nil {
			continue // deleted in this entry
		}
		a.leaveTimes(h, WhyEdited)
		st := h.st
		st.Planned, st.Next, st.NextAt, st.Broken, st.GapTo = false, 0, 0, "", 0
		a.newGeneration(h)
		a.rejudgeDependents(h.ref)
	}
	a.key = a.key.scheduleAct(ActReplan, calendar)
	if more {
		a.set(a.key, mustEncode(a.codec, &ScheduleAct{Kind: ActReplan, Ref: calendar, After: users[len(users)-1]}))
	} else {
		a.delete(a.key)
	}
	return more
}

// scanUses lists schedules that name a calendar, after one by name; more: there
// are others.
func scanUses(r Reader, calendar ScheduleRef, after string, limit int) (users []string, more bool) {
	prefix := key{}.calendarUses(calendar.Namespace, calendar.Name)
	from := bytes.Clone(prefix)
	if after != "" {
		from = append(key(from).name(after), 0)
	}
	r.Ascend(from, prefixEnd(prefix), func(k, _ []byte) bool {
		if more = len(users) == limit; more {
			return false
		}
		kr := readKey(k)
		kr.name()
		kr.name()
		users = append(users, kr.name())
		return true
	})
	return users, more
}

// GetCalendar reads a calendar.
func GetCalendar(r Reader, namespace, name string) (Calendar, bool) {
	return getRow[Calendar](r, key{}.calendar(namespace, name))
}

// CalendarsOf returns what finds a namespace's calendars, as a job.Plan wants it.
func CalendarsOf(r Reader, namespace string) func(name string) (*job.CalendarDays, bool) {
	return func(name string) (*job.CalendarDays, bool) {
		c, ok := GetCalendar(r, namespace, name)
		if !ok {
			return nil, false
		}
		days, err := c.Spec.Ready()
		return days, err == nil
	}
}

// CalendarUsers lists the first schedules that name a calendar; more: there are
// others.
func CalendarUsers(r Reader, namespace, name string, limit int) (schedules []string, more bool) {
	return scanUses(r, ScheduleRef{namespace, name}, "", limit)
}

// ListCalendars reads a page of at most limit calendars by name; an empty
// namespace means all of them. A cursor that isn't one is an error.
func ListCalendars(r Reader, namespace, cursor string, limit int) (list []Calendar, next string, err error) {
	prefix := key{tableCalendars}
	if namespace != "" {
		prefix = prefix.name(namespace)
	}
	return listRows[Calendar](r, prefix, cursor, limit)
}

// calendar checks a calendar's row.
func (c *checker) calendar(k, v []byte) {
	cal, ok := record[Calendar](c, k, v)
	if !ok {
		return
	}
	c.counts[string(key{}.counter(countCalendars).name(cal.Namespace))]++
	c.want(bytes.Equal(k, key{}.calendar(cal.Namespace, cal.Name)), "calendar %s: under the key %x", cal.Name, k)
	c.want(cal.Version > 0, "calendar %s: version %d", cal.Name, cal.Version)
}

// calendarUse checks that a row is of a calendar and of a schedule that names it.
func (c *checker) calendarUse(k, _ []byte) {
	kr := readKey(k)
	namespace, calendar, schedule := kr.name(), kr.name(), kr.name()
	s, found := getRow[Schedule](c.r, key{}.schedule(ScheduleRef{namespace, schedule}))
	c.want(kr.done() && found && slices.Contains(calendarNames(s.Spec.Calendars), calendar), "calendar use %x: of no schedule that names it", k)
	c.want(c.has(key{}.calendar(namespace, calendar)), "calendar %s: the schedule %s names it, but there is none", calendar, schedule)
}

// calendarsOf checks that each calendar of a schedule knows of it.
func (c *checker) calendarsOf(ref ScheduleRef, of *job.Calendars) {
	for _, name := range calendarNames(of) {
		c.want(c.has(key{}.calendarUses(ref.Namespace, name).name(ref.Name)), "schedule %s: the calendar %s does not know that it is named", ref.Name, name)
	}
}
