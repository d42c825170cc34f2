package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

func newCalendar() *cobra.Command {
	cmd := &cobra.Command{
		Use: "calendar", Short: "Name days that schedules fire on, or don't", GroupID: "use", Args: noVerb, RunE: help,
		Example: `  axd calendar put work --weekdays mon-fri --exclude 12-25,2026-04-03
  axd calendar show work`,
	}
	cmd.AddCommand(newCalendarPut(), newCalendarList(), newCalendarShow(),
		newDelete("calendar", "work", "Delete a calendar that no schedule names", (*client.Client).DeleteCalendar))
	return cmd
}

func newCalendarPut() *cobra.Command {
	var c conn
	var spec job.CalendarSpec
	var file string
	cmd := &cobra.Command{
		Use: "put (-f FILE | NAME [flags])", Short: "Create a calendar or change it",
		Long: `Create a calendar, or its next version where it differs from what is there. The
schedules that name it follow it from then on.

A day belongs to a calendar if --weekdays or --include has it and --exclude
hasn't. Days are 2026-12-25, each year's 12-25, or spans of either, such as
2026-12-24..2027-01-06 and 12-24..01-06.

A file holds one or more definitions as YAML or JSON:

  kind: calendar
  name: work
  weekdays: [mon-fri]
  exclude: [12-25..12-26, 2026-04-03]`,
		Example: `  axd calendar put work --weekdays mon-fri --exclude 12-25..12-26,2026-04-03
  axd calendar put -f calendars.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if file == "" {
				return exactlyOne("NAME")(cmd, args)
			}
			if len(args) > 0 {
				return job.Invalid("-f FILE and NAME", "exclude each other", args[0])
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVarP(&file, "file", "f", "", "read definitions from this `file`; - is standard input")
	f.StringVar(&spec.Description, "description", "", "`what` the calendar is for")
	f.StringSliceVar(&spec.Weekdays, "weekdays", nil, "`days` of the week, such as mon-fri or sat,sun")
	f.StringSliceVar(&spec.Include, "include", nil, "`days` that belong to it besides")
	f.StringSliceVar(&spec.Exclude, "exclude", nil, "`days` that don't")
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		p := putter[job.CalendarSpec, client.Calendar]{
			kind: "calendar", put: cl.PutCalendar, list: func(done []client.Calendar) any { return client.CalendarList{Calendars: done} },
			row: func(t *table, d client.Calendar) { t.row(d.Name, "version "+strconv.FormatUint(d.Version, 10)) },
		}
		if file == "" {
			return p.all(ctx, cmd, c.output, []defined[job.CalendarSpec]{{args[0], spec}})
		}
		for _, flag := range []string{"description", "weekdays", "include", "exclude"} {
			if cmd.Flags().Changed(flag) {
				return job.Invalid("--"+flag, "can't be combined with -f; set it in the file", "")
			}
		}
		defs, err := readDefinitions[job.CalendarSpec]("calendar", file, cmd.InOrStdin(), cl.Namespace())
		if err != nil {
			return err
		}
		return p.all(ctx, cmd, c.output, defs)
	})
}

func newCalendarList() *cobra.Command {
	var c conn
	var limit int
	var cursor string
	cmd := &cobra.Command{
		Use: "list", Short: "List calendars", Args: noArgs, Example: `  axd calendar list -o yaml`,
	}
	pageFlags(cmd, &limit, 100, &cursor)
	return c.client(cmd, func(ctx context.Context, cl *client.Client, _ []string) error {
		list, err := cl.Calendars(ctx, limit, cursor)
		if err != nil {
			return err
		}
		c.tellMore(cmd, list.NextCursor)
		return c.output.print(cmd.OutOrStdout(), list, func(t *table) {
			now := time.Now()
			t.row("NAME", "VERSION", "UPDATED", "WEEKDAYS", "INCLUDE", "EXCLUDE", "DESCRIPTION")
			for _, d := range list.Calendars {
				t.row(cut(d.Name, 30), strconv.FormatUint(d.Version, 10), clock(d.UpdatedAt, now), cut(strings.Join(d.Weekdays, ","), 20),
					days(d.Include), days(d.Exclude), cut(d.Description, 24))
			}
		})
	})
}

// days says how many entries a list has, or its only one.
func days(list []string) string {
	switch len(list) {
	case 0:
		return ""
	case 1:
		return list[0]
	}
	return strconv.Itoa(len(list)) + " entries"
}

func newCalendarShow() *cobra.Command {
	var c conn
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Show a calendar, its next days and the schedules that name it", Args: exactlyOne("NAME"),
		Example: `  axd calendar show work`,
	}
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		d, err := cl.Calendar(ctx, args[0])
		if err != nil {
			return about("calendar", args[0], err)
		}
		return c.output.print(cmd.OutOrStdout(), d, func(t *table) { calendarTable(t, d, time.Now()) })
	})
}

func calendarTable(t *table, d client.Calendar, now time.Time) {
	t.pair("Name", d.Name)
	t.pair("Namespace", d.Namespace)
	t.pair("Version", strconv.FormatUint(d.Version, 10))
	t.pair("Description", d.Description)
	t.pair("Weekdays", strings.Join(d.Weekdays, ", "))
	for _, list := range []struct {
		name string
		days []string
	}{{"Include", d.Include}, {"Exclude", d.Exclude}} {
		name := list.name
		for _, part := range words(strings.Join(list.days, ", "), 90) {
			t.pair(name, part)
			name = ""
		}
	}
	next, _ := d.Days(now, 7)
	t.pair("Next days", strings.Join(next, ", "))
	t.pair("Created", exact(d.CreatedAt))
	t.pair("Updated", exact(d.UpdatedAt))
	t.pair("File set", d.FileSet)
	t.pair("Named by", cut(strings.Join(d.UsedBy, ", "), 200))
}
