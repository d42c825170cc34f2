package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/internal/timeslice"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/worker"
)

func newWorker() *cobra.Command {
	var cfg worker.Config
	var log logging
	var drain durationFlag
	cmd := &cobra.Command{
		Use: "worker", Short: "Run a worker; list, drain and resume workers", GroupID: "run", Args: noVerb,
		Long: `Run a worker: it takes attempts from the cluster's leader and runs their
commands and HTTP requests, as the user that started it.

A worker that gets SIGTERM or Ctrl-C takes nothing new and lets attempts finish
for --drain-time; a second signal ends and gives back what still runs. It finds
the leader by gossip: --join names the gossip address of one or more servers.

Settings come from flags, AXD_* variables and the YAML file of --config, in
this order; a flag --data-dir is AXD_DATA_DIR and data_dir there.`,
		Example: `  axd worker --name w1 --join 127.0.0.1:7482 --slots 8 --data-dir /var/lib/axd-worker
  axd worker --name urgent1 --join 127.0.0.1:7482 --priorities high
  axd worker --name gpu1 --join 10.0.0.1:7482,10.0.0.2:7482 --gossip 10.0.0.9:7482 --label gpu=a100`,
	}
	host, _ := os.Hostname()
	f := cmd.Flags()
	f.StringVar(&cfg.Name, "name", host, "the worker's `name`; keep it over restarts")
	f.StringVar(&cfg.Gossip, "gossip", "127.0.0.1:0", "gossip `address`, host:port")
	f.StringVar(&cfg.AdvertiseGossip, "advertise-gossip", "", "`address` at which servers reach --gossip (default: --gossip)")
	f.StringSliceVar(&cfg.Join, "join", nil, "gossip `addresses` of servers, comma separated")
	f.IntVar(&cfg.Slots, "slots", 0, "attempts at one time (default: twice the CPUs)")
	f.StringVar(&cfg.DataDir, "data-dir", "./axd-worker", "`directory` for unacknowledged results and attempts' files")
	f.StringToStringVar(&cfg.Labels, "label", nil, "a label `KEY=VALUE` that selectors match; repeatable")
	f.Var((*prioritiesFlag)(&cfg.Priorities), "priorities", "take only tasks of these priorities, such as high,normal (default: all)")
	drain = durationFlag(30 * time.Second)
	f.Var(&drain, "drain-time", "how long a stop waits for attempts")
	log.flags(cmd, "info")
	cmd.RunE = daemon(func(ctx context.Context, hurry <-chan struct{}) error {
		timeslice.Shorten()
		if len(cfg.Join) == 0 {
			return usage("--join", "must name the gossip address of at least one server, such as 127.0.0.1:7482")
		}
		err := errors.Join(checkDataDir(cfg.DataDir), checkAddresses("--join", cfg.Join...), checkAddresses("--gossip", cfg.Gossip))
		if cfg.AdvertiseGossip != "" {
			err = errors.Join(err, checkAddresses("--advertise-gossip", cfg.AdvertiseGossip))
		}
		if err != nil {
			return err
		}
		if cfg.Supervisor, err = supervisor(); err != nil {
			return err
		}
		cfg.Version = version
		cfg.Exec, cfg.DrainTime, cfg.Logger = true, time.Duration(drain), log.logger(cmd.ErrOrStderr())
		w, err := worker.New(cfg)
		if err != nil {
			return err
		}
		return runWorker(ctx, hurry, w)
	})
	cmd.AddCommand(newWorkerList(), newWorkerDrain(), newWorkerResume(), newWorkerForget())
	return cmd
}

// supervisor is the command line of the process that owns the attempts'
// process groups: this program again.
func supervisor() ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program's file: %w", err)
	}
	return []string{self, "supervisor"}, nil
}

func newSupervisor() *cobra.Command {
	return &cobra.Command{
		Use: "supervisor", Hidden: true, DisableFlagParsing: true, Short: "Own the attempts' process groups; started by axd worker",
		RunE: func(_ *cobra.Command, args []string) error {
			if code := worker.SupervisorMain(context.Background(), args); code != 0 {
				return &runError{code: code}
			}
			return nil
		},
	}
}

func newWorkerList() *cobra.Command {
	var c conn
	var limit int
	var cursor string
	cmd := &cobra.Command{
		Use: "list", Short: "List workers", Args: noArgs, Example: `  axd worker list`,
	}
	pageFlags(cmd, &limit, 100, &cursor)
	return c.client(cmd, func(ctx context.Context, cl *client.Client, _ []string) error {
		list, err := cl.Workers(ctx, limit, cursor)
		if err != nil {
			return err
		}
		c.tellMore(cmd, list.NextCursor)
		return c.output.print(cmd.OutOrStdout(), list, func(t *table) { workerTable(t, list.Workers) })
	})
}

func workerTable(t *table, workers []client.Worker) {
	now := time.Now()
	t.row("WORKER", "STATE", "RUNNING", "ADDRESS", "LAST SEEN", "VERSION", "LABELS")
	for _, w := range workers {
		t.row(cut(w.Name, 24), workerState(w, now), strconv.Itoa(w.Running)+"/"+strconv.Itoa(w.Slots), w.Address,
			clock(w.LastSeen, now), cut(w.Version, 12), cut(labels(w.Labels), 30))
	}
}

// workerState is a worker's state with what is known of its drain.
func workerState(w client.Worker, now time.Time) string {
	switch {
	case w.DrainDeadline != nil && w.DrainDeadline.After(now):
		return w.State + " until " + clock(w.DrainDeadline, now)
	case w.Draining && w.State != "draining":
		return w.State + ", draining"
	}
	return w.State
}

func newWorkerDrain() *cobra.Command {
	var deadline durationFlag
	cmd := workerVerb("drain", "Give a worker nothing new; what runs may end", func(cl *client.Client, ctx context.Context, name string) (client.Worker, error) {
		var in client.DrainRequest
		if deadline != 0 {
			in.Deadline = new(job.Duration(deadline))
		}
		return cl.DrainWorker(ctx, name, in)
	})
	cmd.Example += "\n  axd worker drain w1 --deadline 10m"
	cmd.Flags().Var(&deadline, "deadline", "give back what still runs after this `time`, without spending a retry (default: it may end)")
	return cmd
}

func newWorkerResume() *cobra.Command {
	return workerVerb("resume", "Give a drained worker work again", (*client.Client).ResumeWorker)
}

func workerVerb(verb, what string, do func(*client.Client, context.Context, string) (client.Worker, error)) *cobra.Command {
	var c conn
	cmd := &cobra.Command{
		Use: verb + " NAME", Short: what, Args: exactlyOne("NAME"), Example: "  axd worker " + verb + " w1",
	}
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		w, err := do(cl, ctx, args[0])
		if err != nil {
			return about("worker", args[0], err)
		}
		return c.output.print(cmd.OutOrStdout(), w, func(t *table) { t.row(w.Name, workerState(w, time.Now())) })
	})
}

func newWorkerForget() *cobra.Command {
	var c conn
	cmd := &cobra.Command{
		Use: "forget NAME", Short: "Remove a lost worker from the list", Args: exactlyOne("NAME"),
		Example: `  axd worker forget w1`,
	}
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		if err := cl.ForgetWorker(ctx, args[0]); err != nil {
			if codeOf(err) == job.CodeConflict {
				err = fmt.Errorf("%w\n  Stop it first: about 12 s later it is lost and can be forgotten. 'axd worker drain %s' only gives it nothing new", err, args[0])
			}
			return about("worker", args[0], err)
		}
		_, err := fmt.Fprintf(cmd.ErrOrStderr(), "axd: worker %s forgotten\n", args[0])
		return err
	})
}

// runWorker runs a worker; hurry cuts its drain short.
func runWorker(ctx context.Context, hurry <-chan struct{}, w *worker.Worker) error {
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-hurry:
			w.Hurry()
		case <-done:
		}
	}()
	return w.Run(ctx)
}
