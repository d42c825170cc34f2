package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/axd-project/axd/chaos/process"
	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/server"
)

// drillTime is how long one drill gets on a slow, busy machine.
const drillTime = 6 * time.Minute

// drill is a cluster of real processes that an operator works on, and the
// ledger of what it acknowledged.
type drill struct {
	*process.Cluster
	t   *testing.T
	ctx context.Context
	dir string

	mu    sync.Mutex
	acked map[string]string // task → the file that each run adds a line to
}

func newDrill(t *testing.T, servers int) *drill {
	t.Helper()
	if testing.Short() {
		t.Skip("starts real processes")
	}
	ctx, cancel := context.WithTimeout(t.Context(), drillTime)
	t.Cleanup(cancel)
	d := &drill{t: t, ctx: ctx, dir: t.TempDir(), acked: map[string]string{}}
	var err error
	if d.Cluster, err = process.New(process.Config{Bin: "axd", Dir: d.dir, Servers: servers}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			logs, _ := filepath.Glob(filepath.Join(d.dir, "*.log"))
			for _, log := range logs {
				b, _ := os.ReadFile(log)
				t.Logf("the end of %s:\n%s", filepath.Base(log), b[max(0, len(b)-3000):])
			}
		}
	})
	t.Cleanup(d.Close)
	d.must(d.StartServers(ctx))
	return d
}

func (d *drill) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// axd runs the command line against the cluster and returns its standard output.
func (d *drill) axd(code int, args ...string) string {
	d.t.Helper()
	cmd := exec.CommandContext(d.ctx, "axd", args...)
	cmd.Env = append(os.Environ(), "AXD_ADDR="+strings.Join(d.HTTP(), ","))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != code {
		d.t.Fatalf("axd %s: exit code %d, want %d (%v)\n%s%s", strings.Join(args, " "), got, code, err, &out, &errs)
	}
	return out.String() + errs.String()
}

func (d *drill) client() *client.Client {
	d.t.Helper()
	c, err := d.Client(client.Config{RetryTime: drillTime})
	d.must(err)
	d.t.Cleanup(c.Close)
	return c
}

func (d *drill) until(what string, done func() bool) {
	d.t.Helper()
	for !done() {
		select {
		case <-d.ctx.Done():
			d.t.Fatalf("waited in vain until %s", what)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// votes waits until exactly these servers are members, with a vote each.
func (d *drill) votes(names ...string) {
	d.t.Helper()
	c := d.client()
	d.until(strings.Join(names, ", ")+" vote", func() bool {
		got, err := c.Cluster(d.ctx)
		var voters []string
		for _, s := range got.Servers {
			if !s.Voter {
				return false
			}
			voters = append(voters, s.Name)
		}
		slices.Sort(voters)
		return err == nil && slices.Equal(voters, names)
	})
}

// join adds a fresh server to the cluster's processes and starts it.
func (d *drill) join(name string) *process.Server {
	d.t.Helper()
	ports, err := process.FreePorts(3)
	d.must(err)
	s := &process.Server{HTTP: ports[0], RPC: ports[1], Gossip: ports[2], DataDir: filepath.Join(d.dir, name)}
	s.Process = d.Run(name, []string{
		"server", "--name", name, "--data-dir", s.DataDir, "--http", s.HTTP, "--rpc", s.RPC, "--gossip", s.Gossip, "--join", d.Join(),
	}, nil)
	d.must(s.Start())
	d.Servers = append(d.Servers, s)
	return s
}

// submit has one task acknowledged, and enters it into the ledger.
func (d *drill) submit(c *client.Client, delay time.Duration) string {
	d.t.Helper()
	d.mu.Lock()
	file := filepath.Join(d.dir, fmt.Sprintf("ran-%d", len(d.acked)))
	d.acked[file] = file // reserves the name
	d.mu.Unlock()
	task, err := c.Submit(d.ctx, appends(file, delay))
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.acked, file)
	if err != nil {
		if d.ctx.Err() == nil {
			d.t.Errorf("submitting: %v", err)
		}
		return ""
	}
	d.acked[task.ID] = file
	return task.ID
}

// load submits until stop is called.
func (d *drill) load(c *client.Client) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			d.submit(c, time.Duration(i%5)*300*time.Millisecond)
			select {
			case <-done:
				return
			case <-d.ctx.Done():
				return
			case <-time.After(40 * time.Millisecond):
			}
		}
	})
	stop = sync.OnceFunc(func() { close(done); wg.Wait() })
	d.t.Cleanup(stop)
	return stop
}

// settle wants every acknowledged task to have ended well, and to have run once for
// each attempt. One that was lost before its worker heard of it never ran: it cost a
// retry all the same, since nobody can know.
func (d *drill) settle(c *client.Client) {
	d.t.Helper()
	if len(d.acked) < 10 {
		d.t.Errorf("only %d tasks were acknowledged", len(d.acked))
	}
	for id, file := range d.acked {
		task, err := c.Wait(d.ctx, id)
		if err != nil {
			d.t.Fatalf("task %s: %v", id, err)
		}
		if n := lines(d.t, file); task.State != "success" || n < 1 || n > task.RetryCount+1 {
			d.t.Errorf("task %s is %s after %d retries and ran %d times", id, task.State, task.RetryCount, n)
		}
	}
}

// token returns the newest fencing token of a task; tokens of one task compare as
// texts.
func (d *drill) token(c *client.Client, id string) string {
	d.t.Helper()
	list, err := c.Attempts(d.ctx, id)
	d.must(err)
	if len(list) == 0 {
		return ""
	}
	return list[len(list)-1].Token
}

// One server grows to three while tasks run; one is replaced, one removed; each is
// restarted in turn.
func TestDrillGrowReplaceRestart(t *testing.T) {
	t.Parallel()
	d := newDrill(t, 1)
	d.must(d.Worker("w1", 4).Start())
	stop := d.load(d.client())
	d.join("s2")
	s3 := d.join("s3")
	d.votes("s1", "s2", "s3")
	stop()
	c := d.client() // that knows all three
	stop = d.load(c)

	// s3 dies with its disk, and a new server takes its name.
	d.must(s3.Kill())
	d.must(os.RemoveAll(s3.DataDir))
	d.must(s3.Start())
	d.must(d.AwaitReady(d.ctx, s3))
	d.votes("s1", "s2", "s3")
	if out := d.axd(exitOK, "check"); strings.Count(out, " yes ") != 3 || !strings.Contains(out, "all 3 servers agree") {
		t.Errorf("the servers don't agree:\n%s", out)
	}

	for _, s := range d.Servers { // the leader last: it hands over before it stops
		if d.Leadership(d.ctx).Leader == s.Name() {
			d.axd(exitOK, "cluster", "transfer")
		}
		d.must(s.Stop(drillTime))
		d.must(s.Start())
		d.must(d.AwaitReady(d.ctx, s))
	}

	// The leader is removed while it lives: it hands over, goes, and says why.
	leader, err := d.AwaitLeader(d.ctx)
	d.must(err)
	d.axd(exitOK, "cluster", "remove", leader.Name())
	d.until("the removed server has ended", func() bool { return !leader.Running() })
	if leader.ExitCode() != 78 || !strings.Contains(leader.Tail(), "was removed from the cluster") {
		t.Errorf("the removed server ended with %d: %s", leader.ExitCode(), leader.Tail())
	}
	d.axd(exitNotFound, "cluster", "transfer", leader.Name())
	stop()
	d.settle(c)
}

// A majority is lost with its disks; the last server goes on alone, and is grown to
// three again.
func TestDrillRecover(t *testing.T) {
	t.Parallel()
	d := newDrill(t, 3)
	d.must(d.Worker("w1", 4).Start())
	c := d.client()
	stop := d.load(c)
	probe := d.flaky(c)
	before := ""
	d.until("the probe's first attempt", func() bool { before = d.token(c, probe); return before != "" })
	d.until("some tasks", func() bool { d.mu.Lock(); defer d.mu.Unlock(); return len(d.acked) > 30 })
	stop()
	for _, s := range d.Servers {
		d.must(s.Kill())
	}
	survivor, last := d.Servers[0], uint64(0)
	for _, s := range d.Servers {
		d.axd(exitOK, "check", "--data-dir", s.DataDir)
		var rep server.RecoveryReport
		out := d.axd(exitOK, "cluster", "recover", "--data-dir", s.DataDir, "--name", s.Name(), "-o", "json")
		d.must(json.NewDecoder(strings.NewReader(out)).Decode(&rep))
		if rep.Epoch != 0 || len(rep.Servers) != 3 {
			t.Errorf("a look changed something, or saw too little: %+v", rep)
		}
		if rep.Last > last {
			survivor, last = s, rep.Last
		}
	}
	for _, s := range d.Servers {
		if s != survivor {
			d.must(os.RemoveAll(s.DataDir))
		}
	}
	d.axd(exitConflict, "cluster", "recover", "--data-dir", survivor.DataDir, "--name", "other", "--yes")
	d.axd(exitOK, "cluster", "recover", "--data-dir", survivor.DataDir, "--name", survivor.Name(), "--yes")
	d.must(survivor.Start())
	d.must(d.AwaitReady(d.ctx, survivor))
	for _, s := range d.Servers {
		if s != survivor {
			d.must(s.Start())
		}
	}
	d.votes("s1", "s2", "s3")
	d.settle(c)
	d.rises(c, probe, before)
	d.axd(exitOK, "check")
}

// flaky submits a task that fails until its flag file is there, so that it has
// attempts before and after.
func (d *drill) flaky(c *client.Client) string {
	d.t.Helper()
	req := client.SubmitRequest{Executor: job.Executor{Exec: &job.Exec{
		Command: []string{"test", "-e", filepath.Join(d.dir, "flag")},
	}}}
	req.Retry = &job.Retry{MaxRetries: new(100), Initial: job.Duration(2 * time.Second), Factor: 1, Jitter: new(job.JitterNone)}
	task, err := c.Submit(d.ctx, req)
	d.must(err)
	return task.ID
}

// rises lets the flaky task succeed and wants a token above the one from before.
func (d *drill) rises(c *client.Client, id, before string) {
	d.t.Helper()
	d.must(os.WriteFile(filepath.Join(d.dir, "flag"), nil, 0o600))
	task, err := c.Wait(d.ctx, id)
	d.must(err)
	if after := d.token(c, id); task.State != "success" || after <= before {
		d.t.Errorf("task %s is %s with token %s, before it was %s", id, task.State, after, before)
	}
}

// A backup is made while tasks run, and restored into a new cluster of three: all
// that was acknowledged before it is there, and tokens rise past every one given.
func TestDrillBackupAndRestore(t *testing.T) {
	t.Parallel()
	old := newDrill(t, 3)
	old.must(old.Worker("w1", 4).Start())
	c := old.client()
	probe := old.flaky(c)
	waiting := []string{}
	for range 20 {
		waiting = append(waiting, old.submit(c, time.Hour))
	}
	first := ""
	old.until("the probe's first attempt", func() bool { first = old.token(c, probe); return first != "" })
	file := filepath.Join(old.dir, "backup.tar")
	old.axd(exitOK, "snapshot", "save", file)
	highest := first
	old.until("a token after the backup", func() bool { highest = old.token(c, probe); return highest > first })
	old.axd(exitConflict, "snapshot", "restore", file) // not empty
	old.Close()

	damaged := filepath.Join(old.dir, "damaged.tar")
	b, err := os.ReadFile(file)
	old.must(err)
	b[len(b)/2] ^= 1
	old.must(os.WriteFile(damaged, b, 0o600))

	d := newDrill(t, 3)
	d.dir = old.dir // where the probe looks for its flag
	d.axd(exitUsage, "snapshot", "inspect", damaged)
	d.axd(exitUsage, "snapshot", "restore", damaged)
	if out := d.axd(exitOK, "snapshot", "restore", file); !strings.Contains(out, "all 3 servers have it") {
		t.Errorf("restored:\n%s", out)
	}
	d.votes("s1", "s2", "s3")
	fresh := d.client()
	for _, id := range waiting {
		if task, err := fresh.Task(d.ctx, id); err != nil || task.State != "pending" && task.State != "scheduled" {
			t.Errorf("task %s: %s, %v", id, task.State, err)
		}
	}
	d.must(d.Worker("w2", 4).Start())
	d.rises(fresh, probe, highest)
	// Every server has the restored state, whichever leads.
	d.axd(exitOK, "cluster", "transfer")
	d.axd(exitOK, "check")
	if _, err := fresh.Task(d.ctx, waiting[0]); err != nil {
		t.Error(err)
	}
}
