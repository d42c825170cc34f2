package api

import (
	"net/http"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

func calendarRoutes() []route {
	return []route{
		{
			method: get, path: "/v1/calendars", handle: (*api).listCalendars, summary: "List calendars by name",
			query: pageParams, answer: client.CalendarList{}, statuses: ok,
		},
		{
			method: put, path: "/v1/calendars/:name", handle: (*api).putCalendar,
			summary: "Create a calendar (201), or give it a new version where it differs; the schedules that name it are planned anew. " +
				"Version, times and used_by in the body are left aside",
			body: client.Calendar{}, answer: client.Calendar{}, statuses: created,
		},
		{
			method: get, path: "/v1/calendars/:name", handle: (*api).getCalendar, summary: "Show a calendar with the schedules that name it",
			answer: client.Calendar{}, statuses: ok,
		},
		{
			method: del, path: "/v1/calendars/:name", handle: (*api).deleteCalendar, summary: "Delete a calendar that no schedule names",
			statuses: noContent,
		},
	}
}

const shownUsers = 100 // schedules of a calendar

// putCalendar creates a calendar or gives it a new version.
func (a *api) putCalendar(r *request) error {
	var in client.Calendar
	name, err := r.readDefinition(&in, head{&in.Name, &in.Namespace, &in.FileSet})
	if err != nil {
		return err
	}
	if err := in.CalendarSpec.Validate(); err != nil {
		return err
	}
	out := client.Calendar{Namespace: r.namespace, Name: name, CalendarSpec: in.CalendarSpec}
	put := fsm.PutCalendar{Namespace: r.namespace, Name: name, Spec: in.CalendarSpec, FileSet: in.FileSet}
	status, err := a.storeDefinition(r, put, &out.Version, func(v fsm.Reader) {
		if c, ok := fsm.GetCalendar(v, r.namespace, name); ok && c.Version == out.Version {
			out = showCalendar(c)
		}
	})
	if err != nil {
		return err
	}
	return write(r, status, out)
}

func (a *api) getCalendar(r *request) error {
	name := r.name("name")
	var out client.Calendar
	return a.answer(r, &out, func(v fsm.Reader) error {
		c, ok := fsm.GetCalendar(v, r.namespace, name)
		if !ok {
			return job.NotFound("name", name)
		}
		out = showCalendar(c)
		out.UsedBy, _ = fsm.CalendarUsers(v, r.namespace, name, shownUsers)
		return nil
	})
}

func (a *api) listCalendars(r *request) error {
	var out client.CalendarList
	return a.page(r, &out, func(v fsm.Reader, limit int) error {
		calendars, next, err := fsm.ListCalendars(v, r.namespace, r.values.Get("cursor"), limit)
		if err != nil {
			return err
		}
		out = client.CalendarList{Calendars: make([]client.Calendar, 0, len(calendars)), NextCursor: next}
		for _, c := range calendars {
			out.Calendars = append(out.Calendars, showCalendar(c))
		}
		return nil
	})
}

func (a *api) deleteCalendar(r *request) error {
	if _, err := a.propose(r.ctx, fsm.DeleteCalendar{Namespace: r.namespace, Name: r.name("name")}); err != nil {
		return err
	}
	return r.NoContent(http.StatusNoContent)
}

func showCalendar(c fsm.Calendar) client.Calendar {
	return client.Calendar{
		Namespace: c.Namespace, Name: c.Name, CalendarSpec: c.Spec, Version: c.Version,
		CreatedAt: instant(c.Created), UpdatedAt: instant(c.Updated), FileSet: c.FileSet,
	}
}
