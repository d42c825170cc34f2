package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/axd-project/axd/chaos/process"
	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

// patience is how long real processes get for what takes them seconds.
const patience = 4 * time.Minute

// startProcesses starts three servers and so many workers as real processes on
// loopback; they end with the test.
func startProcesses(ctx context.Context, t *testing.T, workers int) (*process.Cluster, *client.Client) {
	t.Helper()
	p, err := process.New(process.Config{Bin: "axd", Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Close()
		for _, s := range p.Servers {
			if t.Failed() {
				t.Logf("the end of %s's log:\n%s", s.Name(), s.Tail())
			}
		}
	})
	for i := range workers {
		if err := p.Worker("w"+strconv.Itoa(i+1), 4).Start(); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.StartServers(ctx); err != nil {
		t.Fatal(err)
	}
	c, err := p.Client(client.Config{RetryTime: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return p, c
}

// appends is a task whose command adds a line to a file of its own, so that the
// file tells how often it ran.
func appends(file string, delay time.Duration) client.SubmitRequest {
	d := job.Duration(delay)
	return client.SubmitRequest{
		Executor: job.Executor{Exec: &job.Exec{Command: []string{"sh", "-c", `echo "$AXD_ATTEMPT" >> "$0"`, file}}},
		Delay:    &d,
	}
}

func lines(t *testing.T, file string) int {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Count(string(b), "\n")
}

// All servers are killed at once while tasks are being submitted, and started
// again: every acknowledged task is there, and each that is due ran once.
func TestKillingAllServersLosesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real processes")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p, c := startProcesses(ctx, t, 1)
	dir := t.TempDir()

	const callers, each = 4, 15
	type acked struct{ id, file string }
	var mu sync.Mutex
	var tasks []acked
	half := make(chan struct{})
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for i := range each {
				file := filepath.Join(dir, fmt.Sprintf("ran-%d-%d", caller, i))
				task, err := c.Submit(ctx, appends(file, time.Duration(i%4)*500*time.Millisecond))
				if err != nil {
					t.Errorf("submitting: %v", err)
					return
				}
				mu.Lock()
				tasks = append(tasks, acked{task.ID, file})
				if len(tasks) == callers*each/2 {
					close(half)
				}
				mu.Unlock()
			}
		})
	}
	select {
	case <-half:
	case <-ctx.Done():
		t.Fatal("half of the tasks were not acknowledged in time")
	}
	for _, s := range p.Servers {
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range p.Servers {
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	if len(tasks) != callers*each {
		t.Fatalf("%d tasks were acknowledged, want %d", len(tasks), callers*each)
	}
	for _, a := range tasks {
		task, err := c.Wait(ctx, a.id)
		if err != nil {
			t.Fatalf("task %s: %v", a.id, err)
		}
		if n := lines(t, a.file); task.State != "success" || n != task.RetryCount+1 {
			t.Errorf("task %s is %s after %d retries and ran %d times", a.id, task.State, task.RetryCount, n)
		}
	}
}

// The leader is killed while delayed tasks wait: they run once all the same.
func TestKillingTheLeaderLosesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real processes")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p, c := startProcesses(ctx, t, 2)
	dir := t.TempDir()
	const total = 40
	ids := make([]string, total)
	for i := range ids {
		task, err := c.Submit(ctx, appends(filepath.Join(dir, fmt.Sprintf("ran-%d", i)), time.Duration(i)*100*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = task.ID
	}
	leader, err := p.AwaitLeader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := leader.Kill(); err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		task, err := c.Wait(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if n := lines(t, filepath.Join(dir, fmt.Sprintf("ran-%d", i))); task.State != "success" || n != 1 {
			t.Errorf("task %d is %s and ran %d times, want success and once", i, task.State, n)
		}
	}
	if err := leader.Start(); err != nil {
		t.Fatal(err)
	}
	if err := p.AwaitReady(ctx, leader); err != nil {
		t.Fatal(err)
	}
}
