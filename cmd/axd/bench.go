package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/axd-project/axd/internal/bench"
	"github.com/axd-project/axd/internal/timeslice"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/worker"
)

// errMissed ends axd bench --strict.
var errMissed = errors.New("a target was missed")

// benchFlags are those of every scenario.
type benchFlags struct {
	opts   bench.Options
	strict bool
}

func (b *benchFlags) flags(f *pflag.FlagSet) {
	f.StringVar(&b.opts.Dir, "dir", "", "`directory` for the servers' data, on the disk to be measured (default: the temporary one)")
	f.StringSliceVar(&b.opts.Addr, "addr", nil, "a running cluster's HTTP `addresses` instead of own servers")
	f.IntVar(&b.opts.Workers, "workers", 0, "worker `processes` (default 2; worker-failover 5, workflows 10)")
	f.IntVar(&b.opts.Slots, "slots", 0, "attempts at one time, of each worker (default 1000; workflows 20)")
	f.BoolVar(&b.opts.Spool, "spool", false, "let no-op workers keep results on disk, synced, until they are acknowledged")
	f.BoolVar(&b.strict, "strict", false, "exit code 1 where a target is missed")
}

func newBench() *cobra.Command {
	cmd := &cobra.Command{
		Use: "bench", Short: "Measure axd on this machine", GroupID: "use", Args: noVerb, RunE: help,
		Example: `  axd bench all
  axd bench lateness --rate 5000 --seconds 20`,
		Long: `Measure axd on this machine: each scenario starts three servers and the workers
it needs on loopback, with their data synced to disk, puts a load on them and
ends them. The last line of standard output is one JSON object with the figures;
what they are, and the targets, is in docs/performance.md.`,
	}
	cmd.AddCommand(newBenchIngest(), newBenchImmediate(), newBenchLateness(), newBenchCron(), newBenchDrain(), newBenchPriority(), newBenchCommands())
	cmd.AddCommand(newBenchFootprint(), newBenchFailover(), newBenchWorkerFailover(), newBenchIdle(), newBenchRetry(), newBenchDag(), newBenchWorkflows(), newBenchSoak(), newBenchAll(), newBenchWorker())
	return cmd
}

// scenario makes the command of one scenario; get is called after the flags are
// read.
func (b *benchFlags) scenario(cmd *cobra.Command, get func() bench.Scenario) *cobra.Command {
	cmd.Args = noArgs
	b.flags(cmd.Flags())
	cmd.RunE = func(*cobra.Command, []string) error {
		return b.run(cmd, func(ctx context.Context) error {
			r, err := bench.Run(ctx, b.opts, get())
			if err != nil {
				return err
			}
			return b.finish(cmd.OutOrStdout(), []*bench.Result{r})
		})
	}
	return cmd
}

func (b *benchFlags) run(cmd *cobra.Command, f func(context.Context) error) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	self, err := os.Executable()
	if err == nil {
		b.opts.Bin, b.opts.Progress = self, cmd.ErrOrStderr()
		err = f(ctx)
	}
	if ctx.Err() != nil {
		return &runError{code: exitInterrupted}
	}
	if err != nil {
		return &runError{code: exitCode(err), err: err}
	}
	return nil
}

// finish prints one JSON line per result.
func (b *benchFlags) finish(w io.Writer, results []*bench.Result) error {
	missed := false
	for _, r := range results {
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%s\n", line); err != nil {
			return err
		}
		missed = missed || !r.Reached()
	}
	if b.strict && missed {
		return errMissed
	}
	return nil
}

func newBenchAll() *cobra.Command {
	var b benchFlags
	format := "table"
	cmd := &cobra.Command{
		Use: "all", Short: "Run every scenario", Args: noArgs,
		Long: `Run every scenario with its defaults, one after the other; that takes about an
hour. A table of the targets comes first, then one JSON line per scenario.`,
		Example: "  axd bench all --strict\n  axd bench all -o markdown",
	}
	b.flags(cmd.Flags())
	cmd.Flags().StringVarP(&format, "output", "o", format, "`format` of the table: table or markdown")
	cmd.RunE = func(*cobra.Command, []string) error {
		write := bench.Table
		switch format {
		case "table":
		case "markdown":
			write = bench.Markdown
		default:
			return &runError{code: exitUsage, err: job.Invalid("--output", "must be table or markdown", format)}
		}
		return b.run(cmd, func(ctx context.Context) error {
			var results []*bench.Result
			var failed error
			for _, s := range bench.All() {
				r, err := bench.Run(ctx, b.opts, s)
				if err != nil {
					if failed = errors.Join(failed, err); ctx.Err() != nil {
						break
					}
					continue // the others still tell something
				}
				results = append(results, r)
			}
			out := cmd.OutOrStdout()
			err := write(out, results)
			if err == nil {
				err = b.finish(out, results)
			}
			return errors.Join(failed, err)
		})
	}
	return cmd
}

// newBenchWorker is the worker process of the scenarios.
func newBenchWorker() *cobra.Command {
	var cfg worker.Config
	var handler string
	var log logging
	cmd := &cobra.Command{
		Use: "worker", Hidden: true, Args: noArgs, Short: "Run no-op tasks for a scenario; started by axd bench",
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Name, "name", "", "")
	f.StringSliceVar(&cfg.Join, "join", nil, "")
	f.IntVar(&cfg.Slots, "slots", 0, "")
	f.StringVar(&cfg.DataDir, "data-dir", "", "")
	f.StringVar(&handler, "handler", "", "")
	log.flags(cmd, "warn")
	cmd.RunE = daemon(func(ctx context.Context, _ <-chan struct{}) error {
		timeslice.Shorten()
		cfg.Version, cfg.DrainTime, cfg.Logger = version, time.Second, log.logger(cmd.ErrOrStderr())
		return bench.ServeWorker(ctx, cfg, handler, os.Stdin, cmd.OutOrStdout())
	})
	return cmd
}
