package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/axd-project/axd/job"
)

// Calendar is a named set of days that schedules refer to. The fields of its spec
// stand beside its own.
type Calendar struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	job.CalendarSpec
	Version   uint64     `json:"version,omitempty"`
	CreatedAt *time.Time `json:"created_at,omitempty"`
	UpdatedAt *time.Time `json:"updated_at,omitempty"`
	FileSet   string     `json:"file_set,omitempty"` // whose files describe it, as axd apply noted; kept where a PUT lacks it
	UsedBy    []string   `json:"used_by,omitempty"`  // schedules that name it, up to 100; shown for one calendar
}

// CalendarList is a page of calendars.
type CalendarList struct {
	Calendars  []Calendar `json:"calendars"`
	NextCursor string     `json:"next_cursor,omitempty"`
}

// PutCalendar creates a calendar or, where it exists and differs, its next
// version. The schedules that name it follow it from then on.
func (c *Client) PutCalendar(ctx context.Context, name string, spec job.CalendarSpec) (Calendar, error) {
	return c.PutCalendarFromFile(ctx, name, "", spec)
}

// PutCalendarFromFile is PutCalendar that notes the set of files which describe
// the calendar.
func (c *Client) PutCalendarFromFile(ctx context.Context, name, fileSet string, spec job.CalendarSpec) (Calendar, error) {
	var out Calendar
	err := c.call(ctx, request{method: http.MethodPut, path: calendarPath(name), body: Calendar{CalendarSpec: spec, FileSet: fileSet}, again: true}, &out)
	return out, err
}

// Calendar returns one calendar with the schedules that name it.
func (c *Client) Calendar(ctx context.Context, name string) (Calendar, error) {
	var out Calendar
	err := c.get(ctx, calendarPath(name), nil, &out)
	return out, err
}

// Calendars returns a page of calendars by name.
func (c *Client) Calendars(ctx context.Context, limit int, cursor string) (CalendarList, error) {
	var out CalendarList
	err := c.get(ctx, "/v1/calendars", page(limit, cursor), &out)
	return out, err
}

// DeleteCalendar removes a calendar that no schedule names.
func (c *Client) DeleteCalendar(ctx context.Context, name string) error {
	return c.call(ctx, request{method: http.MethodDelete, path: calendarPath(name)}, nil)
}

func calendarPath(name string) string { return "/v1/calendars/" + url.PathEscape(name) }
