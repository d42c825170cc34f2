// Command demo runs a real ETL on an axd cluster of three servers and two
// workers, kills the leading server half-way, and checks that nothing was lost,
// nothing ran twice and every result is right. See ../README.md.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The demo's course. Times count from the moment the tasks are submitted.
const (
	firstDue  = 3 * time.Second // the first task of the batch
	lastDue   = 21 * time.Second
	killAt    = 11 * time.Second // kill -9 of the leader
	restartAt = 15 * time.Second // it comes back
	readyTime = 30 * time.Second // for the cluster to come up
	endTime   = 55 * time.Second // for everything; then the demo fails
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Getenv("KEEP") == "1")
	if err != nil {
		fmt.Fprintf(os.Stderr, "\ndemo: %v\n", err)
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

func run(ctx context.Context, keep bool) (err error) {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	days, err := readDays(filepath.Join(root, "examples/weather/weather.csv"))
	if err != nil {
		return err
	}
	say("Building axd")
	bin, err := build(ctx, root)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "axd-weather-")
	if err != nil {
		return err
	}
	c := newCluster(bin, dir, keep)
	defer func() {
		switch {
		case keep && err == nil:
			c.handOver(os.Stdout)
		case err != nil:
			c.stop()
			err = fmt.Errorf("%w\nThe logs and results are kept in %s", err, dir)
		default:
			c.stop()
			_ = os.RemoveAll(dir)
		}
	}()
	if err = c.start(ctx); err != nil {
		return err
	}
	etl, err := newETL(root, dir, days)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	if err = etl.runWithFault(ctx, c); err != nil {
		return err
	}
	return etl.check(ctx, c)
}

// runWithFault submits the tasks, kills the leader and brings it back while
// they run, waits for all, and has the last step join the parts.
func (e *etl) runWithFault(ctx context.Context, c *cluster) error {
	start := time.Now()
	if err := e.submitBatch(ctx, c.client, start); err != nil {
		return err
	}
	say("%d tasks accepted for the next %.0f seconds; %d more follow one by one", len(e.batch), lastDue.Seconds(), len(e.single))
	ctx, cancel := context.WithCancelCause(ctx)
	var singles sync.WaitGroup
	defer func() { cancel(nil); singles.Wait() }()
	singles.Go(func() {
		if err := e.submitSingles(ctx, c.client, start); err != nil {
			cancel(err)
		}
	})

	bar := newProgress(os.Stderr)
	defer bar.done()
	var victim string
	killed, restarted := false, false
	for {
		ended, err := e.parts()
		if err != nil {
			return err
		}
		elapsed := time.Since(start)
		bar.show(ended, len(e.steps), elapsed, c.leader())
		switch {
		case !killed && elapsed >= killAt:
			killed = true
			if victim, err = c.killLeader(); err != nil {
				return err
			}
			bar.note("kill -9 of the leader, %s, after %.1f s with %d of %d tasks done", victim, elapsed.Seconds(), ended, len(e.steps))
		case killed && !restarted && elapsed >= restartAt:
			restarted = true
			bar.note("%s leads; starting %s again", cmp.Or(c.leader(), "nobody"), victim)
			if err = c.restart(victim); err != nil {
				return err
			}
		}
		if ended == len(e.steps) && restarted {
			break
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return fmt.Errorf("%d of %d tasks had ended: %w", ended, len(e.steps), err)
		}
	}
	singles.Wait()
	bar.note("all %d parts are there; the last task joins them", len(e.steps))
	return e.summarize(ctx, c.client)
}

func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	mod := strings.TrimSpace(string(out))
	if err != nil || mod == "" || mod == os.DevNull {
		return "", errors.New("must be run inside axd's source tree: go run ./examples/weather/demo")
	}
	return filepath.Dir(mod), nil
}

// build makes bin/axd from the source, or takes the program AXD_BIN names.
func build(ctx context.Context, root string) (string, error) {
	if bin := os.Getenv("AXD_BIN"); bin != "" {
		return filepath.Abs(bin)
	}
	bin := filepath.Join(root, "bin", "axd")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", bin, "./cmd/axd")
	cmd.Dir, cmd.Stderr = root, os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build axd: %w", err)
	}
	return bin, nil
}

func say(format string, args ...any) { fmt.Printf("• "+format+"\n", args...) }
