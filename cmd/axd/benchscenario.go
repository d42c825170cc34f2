package main

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/axd-project/axd/internal/bench"
	"github.com/axd-project/axd/job"
)

// whole is a flag that counts something, from 1 to most.
type whole struct {
	value *int
	most  int
}

// String serves the zero value too, with which pflag compares.
func (w whole) String() string {
	if w.value == nil {
		return ""
	}
	return strconv.Itoa(*w.value)
}
func (w whole) Type() string { return "int" }

func (w whole) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > w.most {
		return job.Invalid("", "must be a whole number from 1 to "+strconv.Itoa(w.most), s)
	}
	*w.value = n
	return nil
}

const maxCount = 20_000_000

func count(f *pflag.FlagSet, p *int, name, usage string) { f.Var(whole{p, maxCount}, name, usage) }

func batchFlag(f *pflag.FlagSet, p *int) { f.Var(whole{p, job.MaxBatch}, "batch", "tasks of one call") }

// seconds is a flag that says how long something takes.
type seconds time.Duration

func (d *seconds) String() string {
	return strconv.FormatFloat(time.Duration(*d).Seconds(), 'f', -1, 64)
}
func (d *seconds) Type() string { return "float" }

func (d *seconds) Set(s string) error {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 0.1 && v <= 86_400) {
		return job.Invalid("", "must be from 0.1 to 86400 seconds", s)
	}
	*d = seconds(v * float64(time.Second))
	return nil
}

func spanFlag(f *pflag.FlagSet, d *time.Duration, name, usage string) {
	f.Var((*seconds)(d), name, usage)
}

// rate is a flag that says how many a second.
type rate float64

func (r *rate) String() string { return strconv.FormatFloat(float64(*r), 'f', -1, 64) }
func (r *rate) Type() string   { return "float" }

func (r *rate) Set(s string) error {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 0.1 && v <= 1_000_000) {
		return job.Invalid("", "must be from 0.1 to 1000000 a second", s)
	}
	*r = rate(v)
	return nil
}

func rateFlag(f *pflag.FlagSet, r *float64, usage string) { f.Var((*rate)(r), "rate", usage) }

func newBenchIngest() *cobra.Command {
	var b benchFlags
	s := bench.DefaultIngest
	cmd := &cobra.Command{
		Use: "ingest", Short: "Submit delayed tasks as fast as they are acknowledged",
		Long: `Submit delayed tasks with idempotency keys as fast as the callers can, each
waiting for its answer before its next call.`,
		Example: "  axd bench ingest\n  axd bench ingest --batch 1 --callers 64 --tasks 100000",
	}
	f := cmd.Flags()
	count(f, &s.Tasks, "tasks", "tasks to submit")
	batchFlag(f, &s.Batch)
	count(f, &s.Callers, "callers", "calls at one time")
	count(f, &s.Payload, "payload", "`bytes` of a task's payload")
	return b.scenario(cmd, func() bench.Scenario { return s })
}

func newBenchImmediate() *cobra.Command {
	var b benchFlags
	s := bench.DefaultImmediate
	cmd := &cobra.Command{
		Use: "immediate", Short: "Measure from a submit to the start of its handler",
		Long: `Submit immediate tasks on a fixed schedule, one call each, and measure from each
call to the start of its handler in a worker.`,
		Example: "  axd bench immediate --rate 1000 --seconds 20",
	}
	rateFlag(cmd.Flags(), &s.Rate, "calls a second")
	spanFlag(cmd.Flags(), &s.Time, "seconds", "how long")
	return b.scenario(cmd, func() bench.Scenario { return s })
}

func newBenchLateness() *cobra.Command {
	var b benchFlags
	s := bench.DefaultLateness
	cmd := &cobra.Command{
		Use: "lateness", Short: "Measure how long after their time tasks start",
		Long: `Submit tasks ahead of their time, which come due spread evenly, and measure in
the workers how long after it each handler starts.`,
		Example: "  axd bench lateness --rate 5000 --seconds 20",
	}
	rateFlag(cmd.Flags(), &s.Rate, "tasks due a second")
	spanFlag(cmd.Flags(), &s.Time, "seconds", "over how long they come due")
	return b.scenario(cmd, func() bench.Scenario { return s })
}

func newBenchCron() *cobra.Command {
	var b benchFlags
	s := bench.DefaultCron
	cmd := &cobra.Command{
		Use: "cron", Short: "Measure how long after their times schedules start what they fire",
		Long: `Create schedules that each fire once a minute, spread evenly over it, and measure
for one minute how long after its time each handler starts, and what that costs
the leader.`,
		Example: "  axd bench cron --schedules 100000",
	}
	f := cmd.Flags()
	count(f, &s.Schedules, "schedules", "schedules to create")
	f.StringVar(&s.Overlap, "overlap", s.Overlap, "the schedules' rule for overlaps; default skip")
	return b.scenario(cmd, func() bench.Scenario { return s })
}

func newBenchDrain() *cobra.Command {
	var b benchFlags
	s := bench.DefaultDrain
	cmd := &cobra.Command{
		Use: "drain", Short: "Run immediate tasks as fast as possible to their end",
		Long: `Submit immediate no-op tasks as fast as the callers can, and measure from the
first call until all have ended.`,
		Example: "  axd bench drain --tasks 100000",
	}
	f := cmd.Flags()
	count(f, &s.Tasks, "tasks", "tasks to submit")
	batchFlag(f, &s.Batch)
	count(f, &s.Callers, "callers", "calls at one time")
	return b.scenario(cmd, func() bench.Scenario { return s })
}

func newBenchPriority() *cobra.Command {
	var b benchFlags
	s := bench.DefaultPriority
	cmd := &cobra.Command{
		Use: "priority", Short: "Measure how soon urgent tasks start beside a long queue of others",
		Long: `Queue far more low-priority tasks than there are slots, then submit high-priority
ones on a fixed schedule. Measures from each call to the start of its handler, and
the longest time in which no low-priority task started.`,
		Example: "  axd bench priority --low 100000 --rate 100",
	}
	f := cmd.Flags()
	count(f, &s.Low, "low", "low-priority tasks queued")
	spanFlag(f, &s.Work, "work", "how long each of them takes, in seconds")
	rateFlag(f, &s.Rate, "high-priority tasks a second")
	spanFlag(f, &s.Time, "seconds", "how long")
	return b.scenario(cmd, func() bench.Scenario { return s })
}

func newBenchCommands() *cobra.Command {
	var b benchFlags
	s := bench.DefaultCommands
	cmd := &cobra.Command{
		Use: "commands", Short: "Measure how late real commands are, by what they write",
		Long: `Run shell commands at their time in ordinary workers; each writes the time that
it sees. The lateness holds the start of a shell and of date.`,
		Example: "  axd bench commands --rate 50 --seconds 20",
	}
	rateFlag(cmd.Flags(), &s.Rate, "commands due a second")
	spanFlag(cmd.Flags(), &s.Time, "seconds", "over how long they come due")
	return b.scenario(cmd, func() bench.Scenario { return s })
}

func newBenchFootprint() *cobra.Command {
	var b benchFlags
	s := bench.DefaultFootprint
	cmd := &cobra.Command{
		Use: "footprint", Short: "Measure what waiting tasks cost",
		Long: `Fill the cluster with tasks that wait, and measure memory and disk, how late
others start beside them, what a snapshot stops, and how long a server that was
killed takes to serve again.`,
		Example: "  axd bench footprint --tasks 1000000",
	}
	f := cmd.Flags()
	count(f, &s.Tasks, "tasks", "tasks that wait")
	count(f, &s.Payload, "payload", "`bytes` of a task's payload")
	f.IntVar(&s.Snapshot, "snapshot-mib", 0, "`MiB` of log between the servers' snapshots (default: theirs)")
	f.Var((*rate)(&s.Probe.Rate), "probe-rate", "tasks due a second that show how late others start")
	spanFlag(f, &s.Probe.Time, "probe-seconds", "over how long they come due")
	return b.scenario(cmd, func() bench.Scenario { return s })
}

func newBenchFailover() *cobra.Command {
	var b benchFlags
	s := bench.DefaultFailover
	cmd := &cobra.Command{
		Use: "failover", Short: "Kill leaders while tasks come due",
		Long: `Kill the leader with SIGKILL again and again while tasks come due and others are
submitted. Measures how late the tasks start that come due while nobody leads,
and how long no write is accepted, and checks that nothing is lost or runs twice.`,
		Example: "  axd bench failover --kills 10 --rate 200",
	}
	count(cmd.Flags(), &s.Kills, "kills", "leaders to kill")
	rateFlag(cmd.Flags(), &s.Rate, "tasks due a second, and as many submitted")
	return b.scenario(cmd, func() bench.Scenario { return s })
}

func newBenchRetry() *cobra.Command {
	var b benchFlags
	s := bench.DefaultRetry
	cmd := &cobra.Command{
		Use: "retry", Short: "Measure what jitter does to a service that many tasks call at once",
		Long: `Have many tasks call a service at once that has a capacity and fails at random,
and then one that is down at first. Measures how many have succeeded after each
round of retries, and how the retries are spread when the service is back, with a
rule without jitter and with the default.`,
		Example: "  axd bench retry --tasks 1000 --outage-tasks 5000",
	}
	f := cmd.Flags()
	count(f, &s.Tasks, "tasks", "tasks that call the service with a capacity")
	f.Var((*rate)(&s.Capacity), "capacity", "requests a second that it takes")
	count(f, &s.OutageTasks, "outage-tasks", "tasks that call the service that is down")
	spanFlag(f, &s.Down, "down", "seconds that it is down")
	return b.scenario(cmd, func() bench.Scenario { return s })
}

func newBenchWorkerFailover() *cobra.Command {
	var b benchFlags
	s := bench.DefaultWorkerFailover
	cmd := &cobra.Command{
		Use: "worker-failover", Short: "Kill a worker while its tasks run",
		Long: `Let tasks run on five workers, half of them of an idempotent job, and kill one
worker with SIGKILL. Measures when the servers no longer call it alive, and when
its tasks run again elsewhere, and checks that no other runs twice.`,
		Example: "  axd bench worker-failover --tasks 2000",
	}
	count(cmd.Flags(), &s.Tasks, "tasks", "tasks that run")
	return b.scenario(cmd, func() bench.Scenario { return s })
}

func newBenchIdle() *cobra.Command {
	var b benchFlags
	s := bench.DefaultIdle
	cmd := &cobra.Command{
		Use: "idle", Short: "Measure what three servers take without work",
		Long:    `Let three servers stand without workers or load and measure what they take.`,
		Example: "  axd bench idle --seconds 60",
	}
	spanFlag(cmd.Flags(), &s.Time, "seconds", "how long")
	return b.scenario(cmd, func() bench.Scenario { return s })
}

func newBenchSoak() *cobra.Command {
	var b benchFlags
	s := bench.DefaultSoak
	minutes := rate(s.Time.Minutes())
	cmd := &cobra.Command{
		Use: "soak", Short: "Keep a steady load up and look for what grows or slows",
		Long: `Submit tasks at a steady rate with delays of up to five minutes, so that as many
come due, with short retention and frequent snapshots. Compares lateness, memory
and disk of the end with those before.`,
		Example: "  axd bench soak --minutes 15",
	}
	f := cmd.Flags()
	f.Var(&minutes, "minutes", "how long")
	rateFlag(f, &s.Rate, "tasks a second, in and out")
	spanFlag(f, &s.Spread, "spread", "the longest delay, in seconds")
	return b.scenario(cmd, func() bench.Scenario {
		s.Time = time.Duration(float64(minutes) * float64(time.Minute))
		return s
	})
}
