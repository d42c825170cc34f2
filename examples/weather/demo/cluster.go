package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/axd-project/axd/client"
)

// process is one axd process and how to start it.
type process struct {
	name string
	args []string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// cluster is three servers and two workers on this machine.
type cluster struct {
	bin, dir string
	keep     bool
	http     []string
	servers  []*process
	workers  []*process
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
func (c *cluster) start(ctx context.Context) error {
	ports, err := freePorts(3*servers + workers)
	if err != nil {
		return err
	}
	next := func() string { p := ports[0]; ports = ports[1:]; return p }
	var rpc, gossip []string
	for range servers {
		c.http, rpc, gossip = append(c.http, next()), append(rpc, next()), append(gossip, next())
	}
	join := strings.Join(gossip, ",")
	for i := range servers {
		name := "s" + strconv.Itoa(i+1)
		c.servers = append(c.servers, &process{name: name, args: []string{
			"server", "--name", name, "--data-dir", filepath.Join(c.dir, name), "--http", c.http[i], "--rpc", rpc[i],
			"--gossip", gossip[i], "--join", join, "--bootstrap-expect", strconv.Itoa(servers),
		}})
	}
	for i := range workers {
		name := "w" + strconv.Itoa(i+1)
		c.workers = append(c.workers, &process{name: name, args: []string{
			"worker", "--name", name, "--data-dir", filepath.Join(c.dir, name), "--gossip", next(), "--join", join,
			"--slots", strconv.Itoa(slots),
		}})
	}
	say("Starting %d servers and %d workers in %s", servers, workers, c.dir)
	begin := time.Now()
	for _, p := range append(append([]*process{}, c.servers...), c.workers...) {
		if err := c.run(p); err != nil {
			return err
		}
	}
	if c.client, err = clientOf(c.http); err != nil {
		return err
	}
	if err := c.ready(ctx); err != nil {
		return err
	}
	watch, cancel := context.WithCancel(context.Background())
	c.watch = cancel
	c.watched.Go(func() { c.follow(watch) })
	say("The cluster is up after %.1f s, %s leads", time.Since(begin).Seconds(), c.leader())
	return nil
}

// run starts a process; its output goes to a file of its name.
func (c *cluster) run(p *process) error {
	log, err := os.OpenFile(filepath.Join(c.dir, p.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	p.cmd = exec.Command(c.bin, p.args...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C is for the demo, which stops them in order
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.done = make(chan struct{})
	go func() { _ = p.cmd.Wait(); close(p.done) }()
	return nil
}

// ready waits until all servers vote, one leads and all workers are alive.
func (c *cluster) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	for {
		for _, p := range append(append([]*process{}, c.servers...), c.workers...) {
			if p.ended() {
				return fmt.Errorf("%s ended at once:\n%s", p.name, tail(filepath.Join(c.dir, p.name+".log")))
			}
		}
		got, err := c.client.Cluster(ctx)
		if err == nil && got.Leader != "" {
			voters, alive := 0, 0
			for _, s := range got.Servers {
				if s.Voter && s.State == "alive" {
					voters++
				}
			}
			for _, w := range got.Workers {
				if w.State == "alive" {
					alive++
				}
			}
			if voters == servers && alive == workers {
				c.seen(got.Leader)
				return nil
			}
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			return fmt.Errorf("the cluster was not ready within %s (last: %+v, %w)", readyTime, got, err)
		}
	}
}

// follow keeps up with who leads, asking every server what it believes.
func (c *cluster) follow(ctx context.Context) {
	var asks []*client.Client
	for _, a := range c.http {
		if cl, err := client.New(client.Config{Addresses: []string{a}, Stale: true, RetryTime: -1}); err == nil {
			defer cl.Close()
			asks = append(asks, cl)
		}
	}
	for ctx.Err() == nil {
		var term uint64
		leader := ""
		for _, cl := range asks {
			try, cancel := context.WithTimeout(ctx, time.Second)
			if got, err := cl.Cluster(try); err == nil && got.Leader != "" && got.Term > term {
				term, leader = got.Term, got.Leader
			}
			cancel()
		}
		c.seen(leader)
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
	name := c.leader()
	for _, p := range c.servers {
		if p.name == name {
			if err := p.cmd.Process.Kill(); err != nil {
				return name, err
			}
			c.mu.Lock()
			c.without.from = time.Now()
			c.mu.Unlock()
			<-p.done
			return name, nil
		}
	}
	return "", errors.New("there is no leader to kill")
}

func (c *cluster) restart(name string) error {
	for _, p := range c.servers {
		if p.name == name {
			return c.run(p)
		}
	}
	return fmt.Errorf("no server %q", name)
}

// stop ends all: workers first, so that the servers can take their last words.
func (c *cluster) stop() {
	if c.watch != nil {
		c.watch()
		c.watched.Wait()
	}
	if c.client != nil {
		c.client.Close()
	}
	for _, group := range [][]*process{c.workers, c.servers} {
		for _, p := range group {
			p.signal(syscall.SIGTERM)
		}
		limit := time.After(10 * time.Second)
		for _, p := range group {
			if p.done == nil {
				continue
			}
			select {
			case <-p.done:
			case <-limit:
				p.signal(syscall.SIGKILL)
				<-p.done
			}
		}
	}
}

// handOver leaves everything running and says how to use and how to end it.
func (c *cluster) handOver(w io.Writer) {
	c.watch()
	c.watched.Wait()
	var pids []string
	for _, p := range append(append([]*process{}, c.workers...), c.servers...) {
		pids = append(pids, strconv.Itoa(p.cmd.Process.Pid))
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
`, strings.Join(c.http, ","), c.bin, c.http[0], c.dir, strings.Join(pids, " "))
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

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *process) signal(s syscall.Signal) {
	if p.done != nil && !p.ended() {
		_ = p.cmd.Process.Signal(s)
	}
}

// freePorts finds loopback addresses nobody listens on, for TCP and UDP.
func freePorts(n int) ([]string, error) {
	var out []string
	var held []io.Closer
	defer func() {
		for _, h := range held {
			_ = h.Close()
		}
	}()
	for tries := 0; len(out) < n; tries++ {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		held = append(held, l)
		u, err := net.ListenPacket("udp", l.Addr().String())
		if err != nil {
			if tries > 10*n {
				return nil, err
			}
			continue
		}
		held = append(held, u)
		out = append(out, l.Addr().String())
	}
	return out, nil
}

// tail returns the end of a log file.
func tail(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-2000):])
}
