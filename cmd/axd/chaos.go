package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/chaos/trial"
	"github.com/axd-project/axd/job"
)

// The exit codes of axd chaos run beside those of every command.
const (
	exitViolated = 1
	exitUntested = 3
)

const (
	chaosTime     = 5 * time.Minute
	chaosParallel = 3
	maxParallel   = 16
	chaosReport   = "axd-chaos-report"
)

func newChaos() *cobra.Command {
	cmd := &cobra.Command{
		Use: "chaos", Short: "Put a cluster of its own through faults, and judge it", GroupID: "use", Args: noVerb, RunE: help,
		Long: `Put a cluster of its own through faults, and judge whether it kept its promises.
Each scenario starts servers and workers on loopback, puts a load on them, makes
trouble, and compares what callers, commands and receivers of callbacks saw with
what the servers hold on their disks. It touches no cluster of yours.`,
		Example: "  axd chaos list\n  axd chaos run",
	}
	cmd.AddCommand(newChaosList(), newChaosRun())
	return cmd
}

func newChaosList() *cobra.Command {
	output := outputFlag("table")
	cmd := &cobra.Command{
		Use: "list", Short: "List the scenarios", Args: noArgs, Example: "  axd chaos list\n  axd chaos list -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			type row struct {
				Name    string `json:"name"`
				Group   string `json:"group"`
				Summary string `json:"summary"`
			}
			var rows []row
			for _, s := range trial.All() {
				rows = append(rows, row{s.Name, s.Group, s.Summary})
			}
			return output.print(cmd.OutOrStdout(), rows, func(t *table) {
				t.row("SCENARIO", "GROUP", "WHAT HAPPENS")
				for _, r := range rows {
					t.row(r.Name, r.Group, r.Summary)
				}
			})
		},
	}
	cmd.Flags().VarP(&output, "output", "o", "`format`: table, json or yaml")
	return cmd
}

func newChaosRun() *cobra.Command {
	var o trial.Options
	length, short := durationFlag(chaosTime), false
	cmd := &cobra.Command{
		Use: "run [SCENARIO...]", Short: "Try scenarios; without names all of them",
		Long: `Try scenarios, without names all of them, and judge what came of each. It takes
about --duration in all; a scenario that lasts longer than its share happens once
all the same. The report's directory gets report.json, junit.xml for CI, and
timeline.html, a page that shows what happened when.

A fault that did not act, too few calls, or a check that could not be made is no
pass: the scenario could not be tested. Scenarios that turn clocks need the build
axd-chaos as --servers, and are skipped with any other.

Exit code 0: all promises were kept; 1: one was broken; 3: something could not be
tested, or everything was skipped.`,
		Example: `  axd chaos run
  axd chaos run kill-leader partition-leader --duration 2m --seed 7
  axd chaos run --servers ./bin/axd-chaos --report out/
  axd chaos run --config definitions/ --report out/`,
	}
	f := cmd.Flags()
	f.Var(&length, "duration", "`time` for all scenarios together, about")
	f.Uint64Var(&o.Seed, "seed", 0, "what is drawn at random follows from this `number` (default: a new one)")
	f.StringVar(&o.Report, "report", chaosReport, "`directory` for the report")
	f.StringVar(&o.Bin, "servers", "", "the `program` to try (default: this one)")
	f.StringVar(&o.Config, "config", "", "definitions, a `file` or directory, that are the workload (default: one of its own)")
	o.Parallel = chaosParallel
	f.Var(whole{&o.Parallel, maxParallel}, "parallel", "scenarios at one time")
	f.BoolVar(&short, "short", false, "the few that the project's own tests run")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if length <= 0 {
			return usage("--duration", "must be more than 0")
		}
		o.Duration = time.Duration(length)
		if o.Config != "" {
			if err := trial.CheckWorkload(o.Config); err != nil {
				return err
			}
		}
		if !cmd.Flags().Changed("seed") {
			o.Seed = uint64(time.Now().UnixNano())
		}
		scenarios, err := chosen(args, short)
		if err != nil {
			return err
		}
		return runChaos(cmd, o, scenarios)
	}
	return cmd
}

func chosen(names []string, short bool) ([]trial.Scenario, error) {
	all, err := trial.Find(names)
	if err != nil || !short {
		return all, err
	}
	var out []trial.Scenario
	for _, s := range all {
		if s.Short {
			out = append(out, s)
		}
	}
	return out, nil
}

func runChaos(cmd *cobra.Command, o trial.Options, scenarios []trial.Scenario) error {
	if runtime.GOOS != "linux" {
		return &runError{code: exitUntested, err: job.Errorf(job.CodeUnsupported, "axd chaos needs Linux")}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if o.Bin, err = program(o.Bin); err != nil {
		return err
	}
	stderr := cmd.ErrOrStderr()
	talk := &chaosTalk{w: stderr, all: isTerminal(stderr), began: time.Now()}
	o.Progress = talk.tell
	report, err := trial.Run(ctx, o, scenarios)
	if ctx.Err() != nil {
		return &runError{code: exitInterrupted}
	}
	if err != nil {
		return &runError{code: exitUntested, err: err}
	}
	report.Version = version
	if err := report.Write(o.Report); err != nil {
		return &runError{code: exitUntested, err: err}
	}
	t := newTable(cmd.OutOrStdout())
	chaosTable(t, report)
	if err := t.flush(); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(stderr, "%s; the report is in %s; --seed %d makes the same trouble again\n", report.Verdict(), o.Report, o.Seed)
	switch report.Verdict() {
	case trial.Held:
		return nil
	case trial.Violated:
		return &runError{code: exitViolated}
	default:
		return &runError{code: exitUntested}
	}
}

// program finds what is tried: a path, a name in PATH, or this program.
func program(name string) (string, error) {
	if name == "" {
		return os.Executable()
	}
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrDot) {
		err = nil
	}
	if err != nil {
		return "", job.Invalid("--servers", "must be a program that can be run: "+err.Error(), name)
	}
	return filepath.Abs(path)
}

func chaosTable(t *table, r *trial.Report) {
	t.row("SCENARIO", "VERDICT", "FAULTS", "CALLS", "ATTEMPTS", "RECOVERY", "LATE P99", "WHY")
	for _, s := range r.Results {
		why := ""
		if list := append(append([]string(nil), s.Violations...), s.Doubts...); len(list) > 0 {
			why = cut(list[0], 100)
		}
		t.row(s.Scenario, string(s.Verdict), strconv.Itoa(len(s.Faults)), strconv.Itoa(s.Acknowledged), strconv.Itoa(s.Attempts),
			s.Recovery().Round(10*time.Millisecond).String(), fmt.Sprintf("%.0f ms", s.QuietP99), why)
	}
}

// chaosTalk tells what happens: to a person all, to a log each scenario's end.
type chaosTalk struct {
	w     io.Writer
	all   bool
	began time.Time
	mu    sync.Mutex
}

func (c *chaosTalk) tell(scenario, text string, end bool) {
	if !end && !c.all {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = fmt.Fprintf(c.w, "%6.1fs  %-20s %s\n", time.Since(c.began).Seconds(), scenario, printable(text))
}
