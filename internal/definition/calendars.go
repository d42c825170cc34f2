package definition

import (
	"context"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

var calendars = row[job.CalendarSpec]{
	check: func(s *job.CalendarSpec) error { return orNil(s.Validate()) },
	list: func(ctx context.Context, c *client.Client, cursor string) ([]Stored, string, error) {
		page, err := c.Calendars(ctx, pageSize, cursor)
		return all(page.Calendars, func(cal client.Calendar) Stored {
			return Stored{cal.Name, cal.Version, cal.FileSet, &cal.CalendarSpec}
		}), page.NextCursor, err
	},
	put: func(ctx context.Context, c *client.Client, name, set string, s *job.CalendarSpec) (uint64, error) {
		cal, err := c.PutCalendarFromFile(ctx, name, set, *s)
		return cal.Version, err
	},
	remove: (*client.Client).DeleteCalendar,
}.kind("calendar")
