package main

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/job"
)

func newSchedule() *cobra.Command {
	cmd := &cobra.Command{
		Use: "schedule", Short: "See when cron expressions fire", GroupID: "use", Args: noVerb, RunE: help,
		Example: `  axd schedule next --cron "30 2 * * *" --timezone Europe/Berlin`,
	}
	cmd.AddCommand(newScheduleNext())
	return cmd
}

func newScheduleNext() *cobra.Command {
	var c conn
	var spec job.ScheduleSpec
	var dst job.DST
	var from, name string
	count := 10
	cmd := &cobra.Command{
		Use: "next --cron EXPR", Short: "Show when a cron expression fires", Args: noArgs,
		Long: `Show when a cron expression fires, by the wall clock of a time zone. No server is
asked.

Five fields: minute, hour, day of month, month, day of week; six: seconds first.
Or @yearly, @monthly, @weekly, @daily, @hourly, @every DURATION. Clock changes,
L, W, # and H: docs/guides/cron.md.`,
		Example: `  axd schedule next --cron "30 2 * * *" --timezone America/New_York --from 2026-03-07T12:00:00Z -n 3
  axd schedule next --cron "0 9 LW * *" -o json
  axd schedule next --cron "H H(0-5) * * *" --name backup`,
	}
	f := cmd.Flags()
	f.StringVar(&spec.Cron, "cron", "", "the `expression`")
	f.StringVar(&spec.Timezone, "timezone", "", "IANA `name` of the zone whose clocks count (default UTC)")
	f.StringVar(&from, "from", "", "begin after this `time`, RFC 3339 (default now)")
	f.VarP((*pageFlag)(&count), "count", "n", "so many times, 1 to "+strconv.Itoa(maxPage))
	f.StringVar(&name, "name", "", "the schedule's `name`, which H follows from")
	f.StringVar((*string)(&dst.Gap), "dst-gap", "", "`what` becomes of times that a clock change leaves out: after (the gap), skip")
	f.StringVar((*string)(&dst.Repeat), "dst-repeat", "", "`which` of the times that a clock change brings twice: first, second, both")
	c.outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		spec.DST = &dst
		times, err := nextTimes(&spec, name, from, count)
		if err == nil {
			err = c.output.print(cmd.OutOrStdout(), times, func(t *table) { nextTable(t, times) })
		}
		if err != nil {
			return &runError{code: exitCode(err), err: err}
		}
		return nil
	}
	return cmd
}

// nextTime is one time at which a plan fires.
type nextTime struct {
	At   string `json:"at"`   // with the zone's offset
	Wall string `json:"wall"` // the planned wall time
	Note string `json:"note"`
}

func nextTimes(spec *job.ScheduleSpec, name, from string, count int) ([]nextTime, error) {
	if spec.Cron == "" {
		return nil, job.Invalid("--cron", "must be given", "")
	}
	after := time.Now()
	if from != "" {
		var err error
		if after, err = time.Parse(time.RFC3339, from); err != nil {
			return nil, job.Invalid("--from", "must be a time as in RFC 3339, such as 2026-03-08T12:00:00Z", from)
		}
	}
	plan, err := job.NewPlan(spec, job.PlanFor{Namespace: job.DefaultNamespace, Name: name, Created: after})
	if err != nil {
		return nil, err
	}
	times := []nextTime{}
	for t, ok := plan.Next(after); ok && len(times) < count; t, ok = plan.Next(t) {
		wall, note := plan.Planned(t)
		times = append(times, nextTime{t.Format("2006-01-02T15:04:05.999999999-07:00"), wall, note})
	}
	return times, nil
}

func nextTable(t *table, times []nextTime) {
	t.row("AT", "WALL TIME", "NOTE")
	for _, n := range times {
		t.row(n.At, n.Wall, n.Note)
	}
}
