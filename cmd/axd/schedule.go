package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

func newSchedule() *cobra.Command {
	cmd := &cobra.Command{
		Use: "schedule", Short: "Fire jobs and workflows by plan", GroupID: "use", Args: noVerb, RunE: help,
		Example: `  axd schedule put -f nightly.yaml
  axd schedule next nightly -n 3
  axd schedule fires nightly`,
	}
	cmd.AddCommand(newSchedulePut(), newScheduleList(), newScheduleShow(), newDelete("schedule", "nightly", "Delete a schedule; what it fired goes on", (*client.Client).DeleteSchedule), newSchedulePause(), newScheduleResume(),
		newScheduleTrigger(), newScheduleNext(), newScheduleFires(), newScheduleBackfill(), newScheduleBackfills())
	return cmd
}

func newScheduleNext() *cobra.Command {
	var c conn
	var spec job.ScheduleSpec
	var dst job.DST
	var from, name string
	count := 10
	cmd := &cobra.Command{
		Use: "next (NAME | --cron EXPR)", Short: "Show when a schedule fires next, or a cron expression", Args: cobra.MaximumNArgs(1),
		Long: `Show when a schedule fires next, or when a cron expression would, by the wall
clock of its time zone, and say in words what it means. Of an expression no server
is asked.

Five fields: minute, hour, day of month, month, day of week; six: seconds first.
Or @yearly, @monthly, @weekly, @daily, @hourly, @every DURATION. Clock changes,
L, W, # and H: docs/guides/cron.md.`,
		Example: `  axd schedule next nightly -n 3
  axd schedule next --cron "30 2 * * *" --timezone America/New_York --from 2026-03-07T12:00:00Z -n 3
  axd schedule next --cron "0 9 LW * *" -o json
  axd schedule next --cron "H H(0-5) * * *" --name backup`,
	}
	f := cmd.Flags()
	f.StringVar((*string)(&spec.Cron), "cron", "", "the `expression`")
	f.StringVar(&spec.Timezone, "timezone", "", "IANA `name` of the zone whose clocks count (default UTC)")
	f.StringVar(&from, "from", "", "begin after this `time`, RFC 3339 (default now)")
	f.VarP((*pageFlag)(&count), "count", "n", "so many times, 1 to "+strconv.Itoa(maxPage))
	f.StringVar(&name, "name", "", "the schedule's `name`, which H follows from")
	f.StringVar((*string)(&dst.Gap), "dst-gap", "", "`what` becomes of times that a clock change leaves out: after (the gap), skip")
	f.StringVar((*string)(&dst.Repeat), "dst-repeat", "", "`which` of the times that a clock change brings twice: first, second, both")
	return c.clientWithout(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		if len(args) == 0 {
			spec.DST = &dst
			times, words, err := nextTimes(&spec, name, from, count)
			if err != nil {
				return err
			}
			c.say(cmd, words)
			return c.output.print(cmd.OutOrStdout(), times, func(t *table) { nextTable(t, times) })
		}
		for _, flag := range []string{"cron", "timezone", "name", "dst-gap", "dst-repeat"} {
			if cmd.Flags().Changed(flag) {
				return job.Invalid("--"+flag, "must not be given with the NAME of a schedule", args[0])
			}
		}
		next, err := cl.NextTimes(ctx, args[0], from, count)
		if err != nil {
			return about("schedule", args[0], err)
		}
		c.say(cmd, next.Words)
		if c.output == "table" {
			switch {
			case len(next.Times) == 0:
				_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "axd: no further time is planned: see 'axd schedule show %s'\n", args[0])
			case next.State == "paused":
				_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "axd: the schedule is paused: it lets these times pass")
			}
		}
		return c.output.print(cmd.OutOrStdout(), next, func(t *table) {
			t.row("PLANNED", "ZONE", "IN YOUR ZONE", "NOTE")
			for _, n := range next.Times {
				t.row(spaced(n.Wall), next.Timezone, localTime(cmp.Or(n.Due, n.At)), n.Note)
			}
		})
	})
}

// say tells people what a table is about; programs read other formats.
func (c *conn) say(cmd *cobra.Command, text string) {
	if text != "" && c.output == "table" {
		_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "axd: "+printable(text))
	}
}

// spaced writes a wall time for people.
func spaced(wall string) string { return strings.Replace(wall, "T", " ", 1) }

// localTime writes an RFC 3339 time for people, in their zone.
func localTime(s string) string {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return s
	}
	return t.Local().Format("2006-01-02 15:04:05 MST")
}

// nextTime is one time at which a plan fires.
type nextTime struct {
	At   string `json:"at"`   // with the zone's offset
	Wall string `json:"wall"` // the planned wall time
	Note string `json:"note"`
}

func nextTimes(spec *job.ScheduleSpec, name, from string, count int) ([]nextTime, string, error) {
	if spec.Cron == "" {
		return nil, "", job.Invalid("--cron", "must be given, or the NAME of a schedule", "")
	}
	after := time.Now()
	if from != "" {
		var err error
		if after, err = time.Parse(time.RFC3339, from); err != nil {
			return nil, "", job.Invalid("--from", "must be a time as in RFC 3339, such as 2026-03-08T12:00:00Z", from)
		}
	}
	plan, err := job.NewPlan(spec, job.PlanFor{Namespace: job.DefaultNamespace, Name: name, Created: after})
	if err != nil {
		return nil, "", err
	}
	times := []nextTime{}
	for t, ok := plan.Next(after); ok && len(times) < count; t, ok = plan.Next(t) {
		wall, note := plan.Planned(t)
		times = append(times, nextTime{t.Format("2006-01-02T15:04:05.999999999-07:00"), wall, note})
	}
	return times, plan.Words(), nil
}

func nextTable(t *table, times []nextTime) {
	t.row("AT", "WALL TIME", "NOTE")
	for _, n := range times {
		t.row(n.At, n.Wall, n.Note)
	}
}
