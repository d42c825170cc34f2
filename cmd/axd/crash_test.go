package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

// patience is how long real processes get for what takes them seconds.
const patience = 90 * time.Second

// processes is a cluster of real axd processes on loopback.
type processes struct {
	t       *testing.T
	dir     string
	ports   []int // first of three of each server
	join    string
	servers []*exec.Cmd
}

func startProcesses(t *testing.T) *processes {
	t.Helper()
	p := &processes{t: t, dir: t.TempDir(), servers: make([]*exec.Cmd, 3)}
	var join []string
	for range p.servers {
		port, err := freePorts(3)
		if err != nil {
			t.Fatal(err)
		}
		p.ports = append(p.ports, port)
		join = append(join, p.address(len(p.ports)-1, 2))
	}
	p.join = strings.Join(join, ",")
	for i := range p.servers {
		p.start(i)
	}
	return p
}

// address is of a server's HTTP (0), RPC (1) or gossip (2) port.
func (p *processes) address(server, which int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.ports[server]+which))
}

func (p *processes) start(i int) {
	name := fmt.Sprintf("s%d", i+1)
	p.servers[i] = p.run(name, "server", "--name", name, "--data-dir", filepath.Join(p.dir, name),
		"--http", p.address(i, 0), "--rpc", p.address(i, 1), "--gossip", p.address(i, 2),
		"--join", p.join, "--bootstrap-expect", "3")
}

// run starts an axd process that is killed at the latest when the test ends.
func (p *processes) run(name string, args ...string) *exec.Cmd {
	p.t.Helper()
	log, err := os.OpenFile(filepath.Join(p.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.Command("axd", args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	_ = log.Close()
	p.t.Cleanup(func() {
		p.kill(cmd)
		if p.t.Failed() {
			b, _ := os.ReadFile(log.Name())
			p.t.Logf("the end of %s's log:\n%s", name, b[max(0, len(b)-4000):])
		}
	})
	return cmd
}

// kill ends a process without a chance to say goodbye.
func (p *processes) kill(cmd *exec.Cmd) {
	_ = cmd.Process.Signal(syscall.SIGKILL)
	_ = cmd.Wait()
}

func (p *processes) client() *client.Client {
	p.t.Helper()
	cfg := client.Config{RetryTime: patience}
	for i := range p.servers {
		cfg.Addresses = append(cfg.Addresses, p.address(i, 0))
	}
	c, err := client.New(cfg)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(c.Close)
	return c
}

func (p *processes) awaitReady(ctx context.Context) {
	p.t.Helper()
	for i := range p.servers {
		p.poll(ctx, "server "+strconv.Itoa(i+1)+" is ready", func() bool {
			resp, err := http.Get("http://" + p.address(i, 0) + "/readyz")
			if err != nil {
				return false
			}
			_ = resp.Body.Close()
			return resp.StatusCode == http.StatusOK
		})
	}
}

func (p *processes) poll(ctx context.Context, what string, done func() bool) {
	p.t.Helper()
	for !done() {
		select {
		case <-ctx.Done():
			p.t.Fatalf("waited in vain until %s", what)
		case <-time.After(50 * time.Millisecond):
		}
	}
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
	p := startProcesses(t)
	p.run("w1", "worker", "--name", "w1", "--data-dir", filepath.Join(p.dir, "w1"), "--gossip", "127.0.0.1:0",
		"--join", p.join, "--slots", "4")
	c := p.client()
	p.awaitReady(ctx)

	const callers, each = 4, 15
	type acked struct{ id, file string }
	var mu sync.Mutex
	var tasks []acked
	half := make(chan struct{})
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for i := range each {
				file := filepath.Join(p.dir, fmt.Sprintf("ran-%d-%d", caller, i))
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
	for _, s := range p.servers {
		p.kill(s)
	}
	for i := range p.servers {
		p.start(i)
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
	p := startProcesses(t)
	for _, name := range []string{"w1", "w2"} {
		p.run(name, "worker", "--name", name, "--data-dir", filepath.Join(p.dir, name), "--gossip", "127.0.0.1:0",
			"--join", p.join, "--slots", "4")
	}
	c := p.client()
	p.awaitReady(ctx)
	const total = 40
	ids := make([]string, total)
	for i := range ids {
		task, err := c.Submit(ctx, appends(filepath.Join(p.dir, fmt.Sprintf("ran-%d", i)), time.Duration(i)*100*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = task.ID
	}
	state, err := c.Cluster(ctx)
	if err != nil {
		t.Fatal(err)
	}
	leader, err := strconv.Atoi(strings.TrimPrefix(state.Leader, "s"))
	if err != nil {
		t.Fatalf("the leader is %q", state.Leader)
	}
	p.kill(p.servers[leader-1])
	for i, id := range ids {
		task, err := c.Wait(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if n := lines(t, filepath.Join(p.dir, fmt.Sprintf("ran-%d", i))); task.State != "success" || n != 1 {
			t.Errorf("task %d is %s and ran %d times, want success and once", i, task.State, n)
		}
	}
	p.start(leader - 1)
	p.awaitReady(ctx)
}
