package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/axd-project/axd/chaos/process"
	"github.com/axd-project/axd/client"
)

// cluster is three servers and two workers on this machine.
type cluster struct {
	*process.Cluster
	bin, dir string
	keep     bool
	workers  []*process.Process
	client   *client.Client

	watch   context.CancelFunc
	watched sync.WaitGroup
	mu      sync.Mutex
	leads   string   // the leader as last seen; empty while there is none
	history []string // leaders in order of appearance
	without span     // from the kill of the leader until another was seen to lead
}

// span is a piece of time.
type span struct{ from, to time.Time }

func (s span) has(t time.Time) bool { return !s.from.IsZero() && !t.Before(s.from) && !t.After(s.to) }

const (
	servers, workers = 3, 2
	slots            = 8 // of each worker
)

func newCluster(bin, dir string, keep bool) *cluster { return &cluster{bin: bin, dir: dir, keep: keep} }

// start brings everything up and returns once tasks would run.
func (c *cluster) start(ctx context.Context) (err error) {
	c.Cluster, err = process.New(process.Config{Bin: c.bin, Dir: c.dir, Servers: servers, Detached: c.keep})
	if err != nil {
		return err
	}
	say("Starting %d servers and %d workers in %s", servers, workers, c.dir)
	begin := time.Now()
	for i := range workers {
		w := c.Worker("w"+strconv.Itoa(i+1), slots)
		if err := w.Start(); err != nil {
			return err
		}
		c.workers = append(c.workers, w)
	}
	if c.client, err = c.Client(client.Config{}); err != nil {
		return err
	}
	ready, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	if err := c.StartServers(ready); err != nil {
		return err
	}
	if err := c.AwaitWorkers(ready, workers); err != nil {
		return err
	}
	leader, err := c.AwaitLeader(ready)
	if err != nil {
		return err
	}
	c.seen(leader.Name())
	watch, cancel := context.WithCancel(context.Background())
	c.watch = cancel
	c.watched.Go(func() { c.follow(watch) })
	say("The cluster is up after %.1f s, %s leads", time.Since(begin).Seconds(), c.leader())
	return nil
}

// follow keeps up with who leads, asking every server what it believes.
func (c *cluster) follow(ctx context.Context) {
	for ctx.Err() == nil {
		c.seen(c.Leadership(ctx).Leader)
		_ = pause(ctx, 150*time.Millisecond)
	}
}

func (c *cluster) seen(leader string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leads = leader
	if leader != "" && (len(c.history) == 0 || c.history[len(c.history)-1] != leader) {
		c.history = append(c.history, leader)
		if !c.without.from.IsZero() && c.without.to.IsZero() {
			c.without.to = time.Now()
		}
	}
}

// leaderless is the time in which nobody led.
func (c *cluster) leaderless() span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.without
}

func (c *cluster) leader() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leads
}

// changes is how often the lead went from one server to another.
func (c *cluster) changes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(len(c.history)-1, 0)
}

func (c *cluster) killLeader() (string, error) {
	server := c.Server(c.leader())
	if server == nil {
		return "", errors.New("there is no leader to kill")
	}
	c.mu.Lock()
	c.without.from = time.Now()
	c.mu.Unlock()
	return server.Name(), server.Kill()
}

func (c *cluster) restart(name string) error { return c.Server(name).Start() }

// stop ends all: workers first, so that the servers can take their last words.
func (c *cluster) stop() {
	if c.watch != nil {
		c.watch()
		c.watched.Wait()
	}
	if c.client != nil {
		c.client.Close()
	}
	if c.Cluster != nil {
		c.Close()
	}
}

// handOver leaves everything running and says how to use and how to end it.
func (c *cluster) handOver(w io.Writer) {
	c.watch()
	c.watched.Wait()
	var pids []string
	for _, p := range c.workers {
		pids = append(pids, strconv.Itoa(p.PID()))
	}
	for _, s := range c.Servers {
		pids = append(pids, strconv.Itoa(s.PID()))
	}
	_, _ = fmt.Fprintf(w, `
The cluster goes on running (KEEP=1). To use it:

  export AXD_ADDR=%s
  %[2]s cluster status
  %[2]s task list --state success --limit 5
  %[2]s exec -- echo hi
  curl http://%[3]s/v1/stats

Logs and results: %[4]s
To stop it and remove everything:

  kill %[5]s; sleep 2; rm -r %[4]s
`, strings.Join(c.HTTP(), ","), c.bin, c.Servers[0].HTTP, c.dir, strings.Join(pids, " "))
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
