package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/axd-project/axd/chaos/process"
	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

// outliving is a task whose command goes on when its worker is killed. It adds a line
// to a file when it starts and waits for another one.
func outliving(dir, zone string, timeout time.Duration) client.SubmitRequest {
	r := client.SubmitRequest{Executor: job.Executor{Exec: &job.Exec{Command: []string{
		"sh", "-c", `echo "$AXD_ATTEMPT $AXD_FENCING_TOKEN" >> "$0/$1-ran"; echo before; until [ -e "$0/$1-go" ]; do sleep 0.05; done; echo after; exit 0`, dir, zone,
	}}}}
	r.Timeout, r.Grace, r.OnDisconnect = new(job.Duration(timeout)), new(job.Duration(500*time.Millisecond)), job.DisconnectContinue
	r.Route = &job.Route{Require: []string{"zone = " + zone}}
	return r
}

// Workers are killed while commands run that are to go on (on_disconnect: continue).
// Where the worker comes back the command's result arrives once, of the same attempt.
// Where it doesn't, the next attempt begins after the safe window alone.
func TestKilledWorkersCommandsGoOn(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real processes")
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p, err := process.New(process.Config{
		Bin: "axd", Dir: t.TempDir(), Servers: 1, ServerArgs: []string{"--lease-ttl", "2s", "--election-timeout", "500ms"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	if err := p.StartServers(ctx); err != nil {
		t.Fatal(err)
	}
	back, away := p.Worker("back", 2, "--label", "zone=back"), p.Worker("away", 2, "--label", "zone=away")
	for _, w := range []*process.Process{back, away} {
		if err := w.Start(); err != nil {
			t.Fatal(err)
		}
	}
	c, err := p.Client(client.Config{RetryTime: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := p.AwaitWorkers(ctx, 2); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	const timeout = 2 * time.Second
	stays, err := c.Submit(ctx, outliving(dir, "back", time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	lost, err := c.Submit(ctx, outliving(dir, "away", timeout))
	if err != nil {
		t.Fatal(err)
	}
	for _, zone := range []string{"back", "away"} {
		await(ctx, t, "the command at "+zone, func() bool { return lines(t, filepath.Join(dir, zone+"-ran")) == 1 })
	}
	killed := time.Now()
	for _, w := range []*process.Process{back, away} {
		if err := w.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	if err := back.Start(); err != nil {
		t.Fatal(err)
	}
	other := p.Worker("other", 2, "--label", "zone=away")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	if err := p.AwaitWorkers(ctx, 2); err != nil {
		t.Fatal(err)
	}
	touched(t, dir, "back")
	task, err := c.Wait(ctx, stays.ID)
	if err != nil || task.State != "success" || task.Attempt != 1 || task.RetryCount != 0 || lines(t, filepath.Join(dir, "back-ran")) != 1 {
		t.Errorf("the task of the worker that came back is %s at attempt %d: %s, %v", task.State, task.Attempt, task.LastError, err)
	}
	attempts, err := c.Attempts(ctx, stays.ID)
	if err != nil || len(attempts) != 1 || attempts[0].StdoutTail != "before\nafter\n" {
		t.Errorf("its attempts: %+v, %v", attempts, err)
	}

	await(ctx, t, "the next attempt", func() bool { return lines(t, filepath.Join(dir, "away-ran")) == 2 })
	if took := time.Since(killed); took < timeout*3/2 {
		t.Errorf("the next attempt began %v after its worker was lost, within the safe window", took)
	}
	touched(t, dir, "away")
	if task, err = c.Wait(ctx, lost.ID); err != nil || task.State != "success" || task.Attempt != 2 {
		t.Errorf("the task of the worker that stayed away is %s at attempt %d: %s, %v", task.State, task.Attempt, task.LastError, err)
	}
}

func touched(t *testing.T, dir, zone string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, zone+"-go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func await(ctx context.Context, t *testing.T, what string, done func() bool) {
	t.Helper()
	for ; !done(); time.Sleep(20 * time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// A command asks and records by itself what its task has done: a second attempt does
// not repeat it.
func TestTaskDone(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real processes")
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p, err := process.New(process.Config{Bin: "axd", Dir: t.TempDir(), Servers: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	if err := p.StartServers(ctx); err != nil {
		t.Fatal(err)
	}
	if err := p.Worker("w1", 2).Start(); err != nil {
		t.Fatal(err)
	}
	c, err := p.Client(client.Config{RetryTime: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	dir := t.TempDir()
	const script = `axd task done charge --value c-17 -- sh -c 'echo charged >> "$0/charged"; echo said' "$0" || exit 9
axd task done charge --check -o json || exit 8
axd task done other --check && exit 7
AXD_FENCING_TOKEN=00000000000000000000000000000001 axd task done charge; test $? = 4 || exit 6
axd task done fails -- sh -c 'exit 5'; test $? = 5 || exit 4
test "$AXD_ATTEMPT" = 2`
	r := client.SubmitRequest{Executor: job.Executor{Exec: &job.Exec{Command: []string{"sh", "-c", script, dir}}}}
	r.Retry = &job.Retry{MaxRetries: new(1), Initial: job.Duration(time.Millisecond)}
	task, err := c.Submit(ctx, r)
	if err == nil {
		task, err = c.Wait(ctx, task.ID)
	}
	if err != nil || task.State != "success" || task.Attempt != 2 || len(task.Done) != 1 || task.Done[0].Value != "c-17" || task.Done[0].Attempt != 1 {
		t.Errorf("the task is %s at attempt %d: %s, %+v, %v", task.State, task.Attempt, task.LastError, task.Done, err)
	}
	if n := lines(t, filepath.Join(dir, "charged")); n != 1 {
		t.Errorf("charged %d times, want once", n)
	}
	attempts, err := c.Attempts(ctx, task.ID)
	if err != nil || len(attempts) != 2 || !strings.HasPrefix(attempts[0].StdoutTail, "said\n") {
		t.Errorf("attempts %+v, %v", attempts, err)
	}
}
