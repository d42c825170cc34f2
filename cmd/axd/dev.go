package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/internal/timeslice"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/server"
	"github.com/axd-project/axd/worker"
)

// dev holds the settings of axd dev.
type dev struct {
	http, dataDir string
	slots         int
	log           logging
}

// The limits of axd dev.
const (
	devReady = 20 * time.Second // to be ready to take tasks
	devDrain = 2 * time.Second  // for attempts when it is stopped
)

func newDev() *cobra.Command {
	var d dev
	cmd := &cobra.Command{
		Use: "dev", Short: "Run a server and a worker in one process, to try axd", GroupID: "run", Args: noArgs,
		Long: `Run one server and one worker in one process, to try axd or to develop
against it. Tasks are kept in --data-dir over restarts. It listens on loopback;
Raft and gossip take the two ports after that of --http.`,
		Example: `  axd dev
  axd dev --http 127.0.0.1:9480 --data-dir /tmp/axd`,
	}
	f := cmd.Flags()
	f.StringVar(&d.http, "http", client.DefaultAddress, "`address` of the API, host:port")
	f.StringVar(&d.dataDir, "data-dir", "./axd-data", "`directory` for everything that is kept")
	f.IntVar(&d.slots, "slots", 0, "attempts at one time (default: twice the CPUs)")
	d.log.flags(cmd, "warn")
	cmd.RunE = daemon(func(ctx context.Context, hurry <-chan struct{}) error {
		defer keepMemory(ctx)()
		timeslice.Shorten()
		return d.run(ctx, hurry, cmd.OutOrStdout(), cmd.ErrOrStderr())
	})
	return cmd
}

func (d *dev) run(ctx context.Context, hurry <-chan struct{}, stdout, stderr io.Writer) error {
	rpc, gossip, err := nextPorts(d.http)
	if err == nil {
		err = errors.Join(checkDataDir(d.dataDir), d.checkListeners(d.http, rpc, gossip))
	}
	if err != nil {
		return err
	}
	logger := d.log.logger(stderr)
	s, err := server.New(server.Config{
		Name: "s1", DataDir: filepath.Join(d.dataDir, "server"), HTTP: d.http, RPC: rpc, Gossip: gossip,
		BootstrapExpect: 1, Alone: true, Version: version, Logger: logger, CallbackAllow: loopback,
	})
	if err != nil {
		return err
	}
	super, err := supervisor()
	if err != nil {
		return err
	}
	w, err := worker.New(worker.Config{
		Name: "w1", Slots: d.slots, DataDir: filepath.Join(d.dataDir, "worker"), Join: []string{gossip},
		Exec: true, Supervisor: super, Version: version, DrainTime: devDrain, Logger: logger,
	})
	if err != nil {
		return err
	}

	// The server outlives the worker, whose last results it must take.
	serverCtx, stopServer := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServer()
	group, workerCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.Run(serverCtx) })
	group.Go(func() error {
		defer stopServer()
		select {
		case <-s.Ready():
		case <-workerCtx.Done():
			return nil
		}
		return ignoreCancel(runWorker(workerCtx, hurry, w))
	})
	group.Go(func() error { return d.announce(workerCtx, s, stdout) })
	return group.Wait()
}

// announce says how to use it, once a task would run.
func (d *dev) announce(ctx context.Context, s *server.Server, stdout io.Writer) error {
	deadline, cancel := context.WithTimeout(ctx, devReady)
	defer cancel()
	select {
	case <-s.Ready():
	case <-deadline.Done():
		return notReady(ctx, "the server did not become ready")
	}
	cl, err := client.New(client.Config{Addresses: []string{s.HTTPAddr()}})
	if err != nil {
		return err
	}
	defer cl.Close()
	for {
		list, err := cl.Workers(deadline, 0, "")
		if err == nil && len(list.Workers) > 0 && list.Workers[0].State == "alive" {
			break
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-deadline.Done():
			return notReady(ctx, "the worker did not join")
		}
	}
	where := ""
	if s.HTTPAddr() != client.DefaultAddress {
		where = "--addr " + s.HTTPAddr() + " "
	}
	_, err = fmt.Fprintf(stdout, `axd is ready at http://%s (data in %s). Try, in another terminal:

  axd exec %s-- echo hi
  axd task submit %s--delay 10s --wait -- date

Ctrl-C stops it.
`, s.HTTPAddr(), d.dataDir, where, where)
	return err
}

func notReady(ctx context.Context, what string) error {
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("%s within %s; --log-level info says more", what, devReady)
}

// checkListeners refuses addresses that a server would refuse or find taken,
// since the flags of a server that move them are not those of axd dev.
func (d *dev) checkListeners(addresses ...string) error {
	host, _, err := net.SplitHostPort(d.http)
	if err != nil {
		return usage("--http", "must be host:port")
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return job.Invalid("--http", "must be on loopback, such as 127.0.0.1:7480: whoever reaches axd dev may run commands; "+
			"for other machines start axd server and axd worker", d.http)
	}
	for _, a := range addresses {
		l, err := net.Listen("tcp", a)
		if errors.Is(err, syscall.EADDRINUSE) {
			return job.Conflict("--http", "axd dev needs this port and the two after it, and another process has "+a+
				"; choose another, such as --http 127.0.0.1:9480", d.http)
		}
		if err == nil {
			_ = l.Close()
		}
	}
	return nil
}

// nextPorts derives the other addresses from the API's, so that they are the
// same after a restart.
func nextPorts(http string) (rpc, gossip string, err error) {
	host, port, err := net.SplitHostPort(http)
	n, perr := strconv.ParseUint(port, 10, 16)
	if err != nil || perr != nil || n == 0 || n > 65533 {
		return "", "", usage("--http", "must be host:port, with a port from 1 to 65533")
	}
	return net.JoinHostPort(host, strconv.FormatUint(n+1, 10)), net.JoinHostPort(host, strconv.FormatUint(n+2, 10)), nil
}
