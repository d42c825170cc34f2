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

func newScheduleList() *cobra.Command {
	var c conn
	var limit int
	var cursor string
	cmd := &cobra.Command{
		Use: "list", Short: "List schedules with their next and last times", Args: noArgs,
		Long: `List schedules with their next and last times, which are shown in your zone;
ZONE is the one that a schedule's times are planned in. FAILED counts tasks and
runs, MISSED times that nothing was fired for though it should have been: missed,
or refused, and how many of them are since it last fired.`,
		Example: `  axd schedule list -o yaml`,
	}
	pageFlags(cmd, &limit, 100, &cursor)
	return c.client(cmd, func(ctx context.Context, cl *client.Client, _ []string) error {
		list, err := cl.Schedules(ctx, limit, cursor)
		if err != nil {
			return err
		}
		c.tellMore(cmd, list.NextCursor)
		return c.output.print(cmd.OutOrStdout(), list, func(t *table) {
			now := time.Now()
			t.row("NAME", "STATE", "WHEN", "ZONE", "FIRES", "NEXT", "LAST", "ACTIVE", "FAILED", "MISSED")
			for _, s := range list.Schedules {
				st := statusOf(s)
				t.row(cut(s.Name, 30), st.State, cut(whenOf(&s.ScheduleSpec), 30), s.TimezoneOrDefault(), cut(targetOf(&s.ScheduleSpec), 25),
					clock(st.NextFire, now), clock(st.LastFire, now), strconv.Itoa(st.Active), strconv.FormatInt(st.Counts.Failed, 10),
					missedOf(&st))
			}
		})
	})
}

// missedOf tells how many times were missed or refused, and how many of them since it
// last fired.
func missedOf(st *client.ScheduleStatus) string {
	text := strconv.FormatInt(st.Counts.Missed+st.Counts.Refused, 10)
	if st.Unfired > 0 {
		text += ", " + strconv.FormatInt(st.Unfired, 10) + " now"
	}
	return text
}

func statusOf(s client.Schedule) client.ScheduleStatus {
	if s.Status == nil {
		return client.ScheduleStatus{}
	}
	return *s.Status
}

// whenOf tells in few words when a schedule fires.
func whenOf(s *job.ScheduleSpec) string {
	var when []string
	switch {
	case s.Cron != "":
		when = append(when, string(s.Cron))
	case s.Every != 0:
		when = append(when, "every "+s.Every.String())
	case s.At != 0:
		when = append(when, "at "+s.At.Std().Local().Format("2006-01-02 15:04:05"))
	}
	if s.Event != nil {
		when = append(when, "event "+s.Event.Name)
	}
	if s.After != nil {
		when = append(when, "after "+upstreamsOf(s.After))
	}
	if len(when) == 0 {
		return "by hand"
	}
	return strings.Join(when, "; ")
}

// upstreamsOf names what an After waits for.
func upstreamsOf(a *job.After) string {
	var names []string
	for _, u := range a.All {
		names = append(names, upstreamName(u))
	}
	return strings.Join(names, ", ") + " of the same " + string(a.PeriodOrDefault())
}

func upstreamName(u job.Upstream) string {
	noun, name := u.Object()
	return noun + " " + name
}

// wordsOf tells in English when a schedule fires by time; empty: it doesn't, or this
// version of axd can't read it.
func wordsOf(s *client.Schedule) string {
	of := job.PlanFor{Namespace: s.Namespace, Name: s.Name, Calendar: job.AnyCalendar}
	if s.CreatedAt != nil {
		of.Created = *s.CreatedAt
	}
	plan, err := job.NewPlan(&s.ScheduleSpec, of)
	if err != nil {
		return ""
	}
	return plan.Words()
}

func targetOf(s *job.ScheduleSpec) string {
	switch {
	case s.Workflow != "":
		return "workflow " + s.Workflow
	case s.ReconcileURL != "":
		return "list " + s.ReconcileURL
	}
	return "job " + s.Job
}

func newScheduleShow() *cobra.Command {
	var c conn
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Show a schedule and how far it has come", Args: exactlyOne("NAME"),
		Example: `  axd schedule show nightly`,
	}
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		s, err := cl.Schedule(ctx, args[0])
		if err != nil {
			return about("schedule", args[0], err)
		}
		return c.output.print(cmd.OutOrStdout(), s, func(t *table) { scheduleTable(t, s) })
	})
}

func scheduleTable(t *table, s client.Schedule) {
	st := statusOf(s)
	t.pair("Name", s.Name)
	t.pair("Namespace", s.Namespace)
	t.pair("Version", strconv.FormatUint(s.Version, 10))
	t.pair("Description", s.Description)
	t.pair("Fires", targetOf(&s.ScheduleSpec))
	if s.ReconcileURL != "" {
		what := "compared"
		if s.ReconcileReplay {
			what += "; what is missing is submitted, what failed is replayed"
		}
		t.pair("List is", what)
		t.pair("Secret", s.ReconcileSecret)
	}
	t.pair("When", whenOf(&s.ScheduleSpec))
	t.pair("In words", wordsOf(&s))
	t.pair("Zone", s.TimezoneOrDefault())
	t.pair("Payload", cut(string(s.Payload), 100))
	if s.Priority != 0 {
		t.pair("Priority", s.Priority.String())
	}
	if s.Jitter != 0 {
		t.pair("Jitter", s.Jitter.String())
	}
	t.pair("Overlap", string(s.OverlapOrDefault()))
	t.pair("Misfire", string(s.MisfireOrDefault()))
	if s.MaxRuns > 0 {
		t.pair("Max runs", strconv.Itoa(s.MaxRuns))
	}
	t.pair("State", st.State)
	if p := st.Paused; p != nil {
		by := cmp.Or(p.Actor, "somebody")
		if p.Auto {
			by = "itself"
		}
		t.pair("Paused", exact(&p.At)+" by "+by)
		t.pair("Because", p.Reason)
	}
	t.pair("Broken", st.Broken)
	t.pair("Next time", exact(st.NextTime))
	t.pair("Next fire", exact(st.NextFire))
	t.pair("Last time", exact(st.LastTime))
	t.pair("Last fire", exact(st.LastFire))
	t.pair("Last task", st.LastTask)
	t.pair("Last run", st.LastRun)
	t.pair("Active", strconv.Itoa(st.Active))
	t.pair("Queued", strconv.Itoa(st.Queued))
	if s.After != nil {
		t.pair("Waiting", strconv.Itoa(st.Waiting))
	}
	for _, w := range st.Waits {
		t.pair("Waits", exact(&w.Nominal)+" until "+exact(&w.Until)+": "+waitsFor(w))
	}
	n := st.Counts
	t.pair("Times", fmt.Sprintf("%d fired, %d merged, %d skipped, %d missed", n.Fired, n.Merged, n.Skipped, n.Missed))
	if n.Refused > 0 {
		t.pair("Refused", strconv.FormatInt(n.Refused, 10)+" of the skipped")
	}
	if st.Unfired > 0 {
		t.pair("Not fired", strconv.FormatInt(st.Unfired, 10)+" in a row: see 'axd alert list', 'axd schedule fires "+s.Name+"'")
	}
	t.pair("Ledger since", exact(st.LedgerSince))
	t.pair("Ended", fmt.Sprintf("%d succeeded, %d failed", n.Succeeded, n.Failed))
	if st.Failures > 0 {
		t.pair("Failed in a row", strconv.Itoa(st.Failures))
	}
	t.pair("Created", exact(s.CreatedAt))
	t.pair("Updated", exact(s.UpdatedAt))
}

// waitsFor tells how far what a time waits for has come.
func waitsFor(w client.ScheduleWait) string {
	var said []string
	for _, u := range w.For {
		said = append(said, fmt.Sprintf("%s (%s)", upstreamName(u.Upstream), cmp.Or(u.Note, fmt.Sprintf("%d of %d", u.Succeeded, u.Need))))
	}
	return strings.Join(said, ", ")
}

func newSchedulePut() *cobra.Command {
	var c conn
	var file string
	cmd := &cobra.Command{
		Use: "put -f FILE", Short: "Create schedules or give them a new version", Args: noArgs,
		Long: `Create schedules or give them a new version, from a file of definitions (YAML or
JSON, several documents; - reads standard input). A change fires nothing that
lies in the past.`,
		Example: `  axd schedule put -f nightly.yaml`,
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "`file` of definitions, kind: schedule")
	return c.client(cmd, func(ctx context.Context, cl *client.Client, _ []string) error {
		if file == "" {
			return job.Invalid("-f", "is missing", "")
		}
		defs, err := readDefinitions[job.ScheduleSpec]("schedule", file, cmd.InOrStdin(), cl.Namespace())
		if err != nil {
			return err
		}
		return putter[job.ScheduleSpec, client.Schedule]{
			kind: "schedule", put: cl.PutSchedule, list: func(done []client.Schedule) any { return client.ScheduleList{Schedules: done} },
			row: func(t *table, s client.Schedule) {
				t.row(s.Name, "version "+strconv.FormatUint(s.Version, 10), "next "+cmp.Or(clock(statusOf(s).NextFire, time.Now()), "-"))
			},
		}.all(ctx, cmd, c.output, defs)
	})
}

func newSchedulePause() *cobra.Command {
	var c conn
	var reason string
	cmd := &cobra.Command{
		Use: "pause NAME", Short: "Let a schedule's times pass without a fire", Args: exactlyOne("NAME"),
		Long: `Let a schedule's times pass without a fire, until 'axd schedule resume'. The
ledger tells of them as skipped. By hand it fires all the same.`,
		Example: `  axd schedule pause nightly --reason "the warehouse moves"`,
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for whoever looks at it")
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		s, err := cl.PauseSchedule(ctx, args[0], reason)
		if err != nil {
			return about("schedule", args[0], err)
		}
		return c.output.print(cmd.OutOrStdout(), s, func(t *table) { t.row(s.Name, statusOf(s).State) })
	})
}

func newScheduleResume() *cobra.Command {
	var c conn
	cmd := &cobra.Command{
		Use: "resume NAME", Short: "End a schedule's pause", Args: exactlyOne("NAME"),
		Example: `  axd schedule resume nightly`,
	}
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		s, err := cl.ResumeSchedule(ctx, args[0])
		if err != nil {
			return about("schedule", args[0], err)
		}
		return c.output.print(cmd.OutOrStdout(), s, func(t *table) { t.row(s.Name, statusOf(s).State) })
	})
}

func newScheduleTrigger() *cobra.Command {
	var c conn
	var payload string
	cmd := &cobra.Command{
		Use: "trigger NAME", Short: "Fire a schedule by hand, at once", Args: exactlyOne("NAME"),
		Long: `Fire a schedule by hand, at once. Where what it fired before has not ended, its
rule for overlaps holds; where that would skip the time, the command is refused.`,
		Example: `  axd schedule trigger nightly
  axd schedule trigger nightly --payload '{"day":"2026-03-29"}'`,
	}
	cmd.Flags().StringVar(&payload, "payload", "", "JSON `value` for the task, in place of the schedule's")
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		f, err := cl.TriggerSchedule(ctx, args[0], client.TriggerRequest{Payload: job.JSON(payload)})
		if err != nil {
			return about("schedule", args[0], err)
		}
		return c.output.print(cmd.OutOrStdout(), f, func(t *table) { t.row(f.Verdict, madeBy(f)) })
	})
}

// madeBy is the task or the run that a fire made, or what came of its list.
func madeBy(f client.Fire) string {
	if f.List != nil {
		return listOf(f.List)
	}
	if f.Run != "" {
		return "run " + f.Run
	}
	if f.Task != "" {
		return "task " + f.Task
	}
	return ""
}

// listOf tells in few words what came of a list.
func listOf(l *client.ComparedList) string {
	if l.State != "done" {
		text := "list " + l.State
		if l.Tries > 0 {
			text += " after " + timesTried(l.Tries)
		}
		if l.NextTry != nil {
			text += ", next " + l.NextTry.Local().Format(time.TimeOnly)
		}
		return text
	}
	parts := []string{fmt.Sprintf("list: %d same", l.Same)}
	for _, c := range []struct {
		n    int
		what string
	}{
		{l.Differs, "differ"}, {l.Missing, "missing"}, {l.Submitted, "submitted"}, {l.Replayed, "replayed"}, {l.Wrong, "wrong"},
	} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	return strings.Join(parts, ", ")
}

// differenceOf tells of one key; JSON has them all.
func differenceOf(d *client.ListDifference) string {
	text := cut(d.IdempotencyKey, 30) + " " + d.Verdict
	switch {
	case d.Error != "":
		return cut(d.IdempotencyKey, 30) + ": " + cut(d.Error, 50)
	case d.State != "":
		text += ": " + d.State
	}
	return text
}

func newScheduleFires() *cobra.Command {
	var c conn
	var f client.FireFilter
	var limit int
	var cursor string
	cmd := &cobra.Command{
		Use: "fires NAME", Short: "List what became of a schedule's times, the newest first", Args: exactlyOne("NAME"),
		Long: `List what became of a schedule's times, the newest first. PLANNED is the wall
time in the schedule's zone, AT the same instant in yours. Times that had the
same fate are one row, with their number and the last of them. Of a schedule that
compares a list it is told what came of that; -o json has the first differences.`,
		Example: `  axd schedule fires nightly --verdict missed --from 2026-03-01T00:00:00Z`,
	}
	cmd.Flags().StringVar(&f.Verdict, "verdict", "", "only those that are planned, queued, waiting, fired, merged, skipped or missed")
	_ = cmd.RegisterFlagCompletionFunc("verdict", fixed("planned", "queued", "waiting", "fired", "merged", "skipped", "missed"))
	cmd.Flags().StringVar(&f.From, "from", "", "planned at or after this `time`, RFC 3339")
	cmd.Flags().StringVar(&f.To, "to", "", "planned before this `time`, RFC 3339")
	pageFlags(cmd, &limit, 50, &cursor)
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		list, err := cl.Fires(ctx, args[0], f, limit, cursor)
		if err != nil {
			return about("schedule", args[0], err)
		}
		c.tellMore(cmd, list.NextCursor)
		return c.output.print(cmd.OutOrStdout(), list, func(t *table) {
			firesTable(t, list.Fires, time.Now())
		})
	})
}

func firesTable(t *table, fires []client.Fire, now time.Time) {
	t.row("PLANNED", "AT", "BY", "VERDICT", "TIMES", "LATE", "MADE", "WHY")
	for _, x := range fires {
		at := clock(&x.Nominal, now)
		if l := x.Nominal.Local(); at == l.Format(time.DateTime) {
			at = l.Format("01-02 15:04:05") // the year is that of PLANNED
		}
		t.wrapped(16, spaced(x.Wall), at, x.Origin, x.Verdict, timesOf(x), lateOf(x), madeBy(x), whyOf(x))
	}
}

func timesOf(f client.Fire) string {
	switch {
	case f.Until == nil:
		return "1"
	case f.Count == 0:
		return "some"
	}
	return strconv.FormatInt(f.Count, 10)
}

func lateOf(f client.Fire) string {
	if f.LateBy == nil {
		return ""
	}
	return short(time.Duration(*f.LateBy))
}

func whyOf(f client.Fire) string {
	why := f.Why
	switch {
	case f.List != nil && f.List.LastError != "":
		why = cut(f.List.LastError, 80)
	case f.List != nil && len(f.List.Differences) > 0:
		why = differenceOf(&f.List.Differences[0])
	case f.Error != "":
		why = cut(f.Error, 80)
	case f.Into != nil:
		why += ": " + beside(*f.Into, f.Nominal)
	case f.Origin == "backfill": // its id would break the table
	case f.Why == "" && f.Actor != "":
		why = "by " + cut(f.Actor, 15)
	}
	if f.Until != nil {
		why += ", last " + beside(*f.Until, f.Nominal)
	}
	return why
}

// beside writes a time next to another, with the date if that is another one.
func beside(t, other time.Time) string {
	t, other = t.Local(), other.Local()
	if t.Year() == other.Year() && t.YearDay() == other.YearDay() {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}
