package api

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

func TestCalendars(t *testing.T) {
	w := newWorld(t)
	path := "/v1/calendars/work"
	rec := w.do("PUT", path, `{"description":"d","weekdays":["mon-fri"],"exclude":["12-25"]}`)
	created := decoded[client.Calendar](t, http.StatusCreated, rec)
	if created.Name != "work" || created.Version != 1 || created.CreatedAt == nil || rec.Header().Get("Location") != path {
		t.Errorf("created %+v", created)
	}
	w.must(fsm.PutJob{Namespace: "default", Name: "j", Spec: job.Spec{Executor: job.Executor{Handler: "h"}}})
	w.must(fsm.PutSchedule{Namespace: "default", Name: "nightly", Spec: job.ScheduleSpec{
		Job: "j", Cron: "@daily", Calendars: &job.Calendars{Include: []string{"work"}},
	}})

	// What GET shows can be put back, and changes nothing.
	shown := w.do("GET", path, "").Body.String()
	if !strings.Contains(shown, `"used_by":["nightly"]`) || !strings.Contains(shown, `"weekdays":["mon-fri"]`) {
		t.Errorf("shown %s", shown)
	}
	if same := expect[client.Calendar](w, 200, "PUT", path, shown); same.Version != 1 {
		t.Errorf("put back: %+v", same)
	}
	if next := expect[client.Calendar](w, 200, "PUT", path, `{"weekdays":["sat","sun"],"file_set":"site"}`); next.Version != 2 || next.FileSet != "site" || next.Exclude != nil {
		t.Errorf("changed: %+v", next)
	}
	if kept := expect[client.Calendar](w, 200, "PUT", path, `{"weekdays":["sat","sun"]}`); kept.Version != 2 || kept.FileSet != "site" {
		t.Errorf("without its file set: %+v", kept)
	}

	wantProblem(t, w.do("DELETE", path, ""), 409, job.CodeConflict, "calendar")
	w.must(fsm.DeleteSchedule{Namespace: "default", Name: "nightly"})
	expect[client.Calendar](w, 201, "PUT", "/v1/calendars/holidays", `{"include":["12-25..12-26","2026-04-03"]}`)
	expect[client.Calendar](w, 201, "PUT", "/v1/calendars/work?namespace=other", `{"weekdays":["mon"]}`)
	page := expect[client.CalendarList](w, 200, "GET", "/v1/calendars?limit=1", "")
	if len(page.Calendars) != 1 || page.Calendars[0].Name != "holidays" || page.NextCursor == "" {
		t.Errorf("page %+v", page)
	}
	page = expect[client.CalendarList](w, 200, "GET", "/v1/calendars?cursor="+page.NextCursor, "")
	if len(page.Calendars) != 1 || page.Calendars[0].Name != "work" || page.NextCursor != "" {
		t.Errorf("page %+v", page)
	}
	if rec := w.do("DELETE", path, ""); rec.Code != http.StatusNoContent || rec.Body.Len() != 0 {
		t.Errorf("delete: %d %s", rec.Code, rec.Body)
	}
	wantProblem(t, w.do("DELETE", path, ""), 404, job.CodeNotFound, "calendar")
	wantProblem(t, w.do("GET", path, ""), 404, job.CodeNotFound, "name")
	if got := expect[client.Calendar](w, 200, "GET", path+"?namespace=other", ""); !slices.Equal(got.Weekdays, []string{"mon"}) {
		t.Errorf("of another namespace: %+v", got)
	}
}

func TestCalendarRefusals(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct{ path, body, field string }{
		{"/v1/calendars/work", `{}`, "weekdays"},
		{"/v1/calendars/work", `{"weekdays":["monday"]}`, "weekdays[0]"},
		{"/v1/calendars/work", `{"include":["2026-02-30"]}`, "include[0]"},
		{"/v1/calendars/work", `{"weekdays":["mon"],"exclude":["12-25","x"]}`, "exclude[1]"},
		{"/v1/calendars/work", `{"weekdays":["mon"],"days":[]}`, "days"},
		{"/v1/calendars/work", `{"weekdays":"mon"}`, "weekdays"},
		{"/v1/calendars/work", `{"name":"other","weekdays":["mon"]}`, "name"},
		{"/v1/calendars/work", `{"namespace":"other","weekdays":["mon"]}`, "namespace"},
		{"/v1/calendars/work", `{"file_set":"-","weekdays":["mon"]}`, "file_set"},
		{"/v1/calendars/-work", `{"weekdays":["mon"]}`, "name"},
	} {
		wantProblem(t, w.do("PUT", tt.path, tt.body), 400, job.CodeInvalid, tt.field)
	}
	if list := expect[client.CalendarList](w, 200, "GET", "/v1/calendars", ""); len(list.Calendars) != 0 {
		t.Errorf("stored all the same: %+v", list)
	}
	wantProblem(t, w.do("GET", "/v1/calendars?cursor=x", ""), 400, job.CodeInvalid, "cursor")
}
