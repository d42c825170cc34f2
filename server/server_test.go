package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/axd-project/axd/chaos/process"
	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/worker"
)

// within is how long a real cluster gets for what takes it a second or two.
const within = 60 * time.Second

// node is a server of a test, running.
type node struct {
	*Server
	stop func() error
}

// freeAddress returns a loopback address whose port was free a moment ago, for
// TCP and UDP.
func freeAddress(t *testing.T) string {
	t.Helper()
	free, err := process.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	return free[0]
}

func testLog(t *testing.T) *slog.Logger {
	if !testing.Verbose() {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}

// start runs a server until the test or stop ends it.
func start(t *testing.T, cfg Config) *node {
	t.Helper()
	cfg.HTTP, cfg.RPC, cfg.Logger = "127.0.0.1:0", "127.0.0.1:0", testLog(t)
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stopped := false
	stop := func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-done
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("server %s ended with %v", cfg.Name, err)
		}
	})
	return &node{Server: s, stop: stop}
}

func (n *node) await(t *testing.T) {
	t.Helper()
	select {
	case <-n.Ready():
	case <-time.After(within):
		t.Fatalf("server %s is not ready", n.Name())
	}
}

// three starts a cluster and returns its settings too, for restarts.
func three(t *testing.T) ([]*node, []Config) {
	t.Helper()
	base := t.TempDir()
	cfgs := make([]Config, 3)
	var join []string
	for i := range cfgs {
		join = append(join, freeAddress(t))
		name := fmt.Sprintf("s%d", i+1)
		cfgs[i] = Config{Name: name, DataDir: filepath.Join(base, name), Gossip: join[i], BootstrapExpect: 3}
	}
	var nodes []*node
	for i := range cfgs {
		cfgs[i].Join = join
		nodes = append(nodes, start(t, cfgs[i]))
	}
	for _, n := range nodes {
		n.await(t)
	}
	return nodes, cfgs
}

func clientOf(t *testing.T, nodes ...*node) *client.Client {
	t.Helper()
	return clientWith(t, client.Config{}, nodes...)
}

func clientWith(t *testing.T, cfg client.Config, nodes ...*node) *client.Client {
	t.Helper()
	for _, n := range nodes {
		cfg.Addresses = append(cfg.Addresses, n.HTTPAddr())
	}
	c, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// startWorker runs a worker with the handlers "ok" and "fail".
func startWorker(t *testing.T, name string, join []string) {
	t.Helper()
	w, err := worker.New(worker.Config{
		Name: name, Slots: 8, DataDir: t.TempDir(), Join: join, Logger: testLog(t), DrainTime: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Handle("ok", func(context.Context, worker.Task) ([]byte, error) { return []byte(`"done"`), nil })
	w.Handle("fail", func(context.Context, worker.Task) ([]byte, error) { return nil, errors.New("no luck") })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("worker %s ended with %v", name, err)
		}
	})
}

func submit(t *testing.T, c *client.Client, handler string) client.Task {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	req := client.SubmitRequest{Executor: job.Executor{Handler: handler}}
	req.Retry = &job.Retry{MaxRetries: new(0)}
	task, err := c.Submit(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	return task
}

func wait(t *testing.T, c *client.Client, id, state string) client.Task {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	task, err := c.Wait(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	if task.State != state {
		t.Errorf("task %s is %s (%s), want %s", id, task.State, task.LastError, state)
	}
	return task
}

func TestClusterRunsTasksThroughTheLossOfItsLeader(t *testing.T) {
	nodes, cfgs := three(t)
	startWorker(t, "w1", cfgs[0].Join)
	for _, n := range nodes { // any server takes any request
		c := clientOf(t, n)
		wait(t, c, submit(t, c, "ok").ID, "success")
		wait(t, c, submit(t, c, "fail").ID, "failed")
	}
	leader := slices.IndexFunc(nodes, func(n *node) bool { return n.leading.Load() })
	if leader < 0 {
		t.Fatal("no server leads")
	}
	if err := nodes[leader].stop(); err != nil {
		t.Fatal(err)
	}
	rest := slices.Delete(slices.Clone(nodes), leader, leader+1)
	c := clientOf(t, rest...)
	wait(t, c, submit(t, c, "ok").ID, "success")
}

func TestWithoutAQuorumWritesAreRefusedAndStaleReadsAnswer(t *testing.T) {
	nodes, _ := three(t)
	c := clientOf(t, nodes[0])
	req := client.SubmitRequest{Executor: job.Executor{Handler: "ok"}}
	day := job.Duration(24 * time.Hour)
	req.Delay = &day
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	task, err := c.Submit(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes[1:] {
		if err := n.stop(); err != nil {
			t.Fatal(err)
		}
	}
	short, cancelShort := context.WithTimeout(ctx, 8*time.Second)
	defer cancelShort()
	if _, err := c.Submit(short, req); err == nil {
		t.Error("a write was accepted without a quorum")
	}
	got, err := clientWith(t, client.Config{Stale: true}, nodes[0]).Task(ctx, task.ID)
	if err != nil || got.State != "scheduled" {
		t.Errorf("a stale read gave %v, %v; want the scheduled task", got, err)
	}
}

func TestAServerThatComesLaterIsAddedAndPromoted(t *testing.T) {
	base := t.TempDir()
	first := freeAddress(t)
	one := start(t, Config{Name: "s1", DataDir: filepath.Join(base, "s1"), Gossip: first})
	one.await(t)
	two := start(t, Config{
		Name: "s2", DataDir: filepath.Join(base, "s2"), Gossip: "127.0.0.1:0", Join: []string{first},
	})
	two.await(t)
	c := clientOf(t, two)
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for {
		got, err := c.Cluster(ctx)
		if err != nil {
			t.Fatal(err)
		}
		voters := 0
		for _, s := range got.Servers {
			if s.Voter {
				voters++
			}
		}
		if voters == 2 {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the second server does not vote: %+v", got.Servers)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func TestRestartKeepsEverything(t *testing.T) {
	nodes, cfgs := three(t)
	c := clientOf(t, nodes[0])
	task := submit(t, c, "nobody-offers-this")
	for _, n := range nodes {
		if err := n.stop(); err != nil {
			t.Fatal(err)
		}
	}
	var again []*node
	for _, cfg := range cfgs {
		again = append(again, start(t, cfg))
	}
	for _, n := range again {
		n.await(t)
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	got, err := clientOf(t, again[2]).Task(ctx, task.ID)
	if err != nil || got.State != "waiting" {
		t.Errorf("after a restart of all: %v, %v; want the waiting task", got, err)
	}
}

// A second server of a living one's name must be told so, and must not cost the
// living one its vote.
func TestASecondServerOfANameIsRefused(t *testing.T) {
	nodes, cfgs := three(t)
	twin, err := New(Config{
		Name: "s2", DataDir: t.TempDir(), HTTP: "127.0.0.1:0", RPC: "127.0.0.1:0", Gossip: freeAddress(t),
		Join: cfgs[0].Join, BootstrapExpect: 3, Logger: testLog(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if err := twin.Run(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("the second s2 ended with %v, want an error that it is one too many", err)
	}
	c := clientOf(t, nodes...)
	got, err := c.Cluster(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range got.Servers {
		if i := slices.IndexFunc(nodes, func(n *node) bool { return n.Name() == s.Name }); !s.Voter || s.RPC != nodes[i].RPCAddr() {
			t.Errorf("after a twin of s2 the cluster has %+v", s)
		}
	}
	submit(t, c, "nobody-offers-this")
}
