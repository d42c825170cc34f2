package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/axd-project/axd/client"
)

const (
	poll      = 10 * time.Millisecond // between two questions whether something is ready
	probeTime = time.Second           // for one server to answer one of them
)

// Config describes a cluster.
type Config struct {
	Bin      string // the axd binary, or its name in PATH
	Dir      string // data directories and logs; must exist
	Servers  int    // default 3
	Detached bool   // the processes outlive this one
	// Forwarded gives servers and workers a second set of addresses, which they
	// advertise; somebody has to pass on what arrives there.
	Forwarded bool

	ServerArgs []string // flags of every server beside those that join them
	ServerEnv  []string // KEY=VALUE of every server
	// Wrap says with what words the program of a server is started, put before it.
	// Optional.
	Wrap func(server string) []string
}

// Server is one server's process and where it listens.
type Server struct {
	*Process
	HTTP, RPC, Gossip string
	DataDir           string
	// Where others reach RPC and Gossip: there, unless the cluster is forwarded.
	PublicRPC, PublicGossip string
}

// Worker is a worker's process and where its gossip is.
type Worker struct {
	*Process
	Gossip, PublicGossip string
	DataDir              string
}

// Cluster is servers of one cluster and what runs beside them.
type Cluster struct {
	*Group
	Servers []*Server
	cfg     Config
	probe   http.Client
}

// New chooses ports and directories. Nothing runs yet.
func New(cfg Config) (*Cluster, error) {
	if cfg.Servers == 0 {
		cfg.Servers = 3
	}
	c := &Cluster{
		Group: NewGroup(cfg.Detached), cfg: cfg,
		probe: http.Client{Timeout: probeTime, Transport: &http.Transport{DisableKeepAlives: true}},
	}
	for range cfg.Servers {
		s, err := c.place("s" + strconv.Itoa(len(c.Servers)+1))
		if err != nil {
			return nil, err
		}
		c.Servers = append(c.Servers, s)
	}
	for i, s := range c.Servers {
		c.serve(s, "s"+strconv.Itoa(i+1), "--bootstrap-expect", strconv.Itoa(cfg.Servers))
	}
	return c, nil
}

// place chooses a server's addresses.
func (c *Cluster) place(name string) (*Server, error) {
	ports, err := FreePorts(5)
	if err != nil {
		return nil, err
	}
	s := &Server{HTTP: ports[0], RPC: ports[1], Gossip: ports[2], DataDir: filepath.Join(c.cfg.Dir, name)}
	s.PublicRPC, s.PublicGossip = s.RPC, s.Gossip
	if c.cfg.Forwarded {
		s.PublicRPC, s.PublicGossip = ports[3], ports[4]
	}
	return s, nil
}

// serve makes a server's process.
func (c *Cluster) serve(s *Server, name string, args ...string) {
	args = append([]string{
		"server", "--name", name, "--data-dir", s.DataDir, "--http", s.HTTP, "--rpc", s.RPC, "--gossip", s.Gossip,
		"--join", c.Join(),
	}, args...)
	if c.cfg.Forwarded {
		args = append(args, "--advertise-rpc", s.PublicRPC, "--advertise-gossip", s.PublicGossip)
	}
	program := []string{c.cfg.Bin}
	if c.cfg.Wrap != nil {
		program = append(c.cfg.Wrap(name), program...)
	}
	s.Process = c.run(name, program, append(args, c.cfg.ServerArgs...), c.cfg.ServerEnv)
}

// Grow makes one more server, not yet started, which joins those that are there.
func (c *Cluster) Grow(name string) (*Server, error) {
	s, err := c.place(name)
	if err != nil {
		return nil, err
	}
	c.serve(s, name)
	c.Servers = append(c.Servers, s)
	return s, nil
}

// Run makes a process of the cluster's binary, not yet started. Its log is a
// file of its name.
func (c *Cluster) Run(name string, args, env []string) *Process {
	return c.run(name, []string{c.cfg.Bin}, args, env)
}

func (c *Cluster) run(name string, program, args, env []string) *Process {
	return c.Add(Command{
		Name: name, Path: program[0], Args: append(slices.Clone(program[1:]), args...), Env: env, Log: filepath.Join(c.cfg.Dir, name+".log"),
	})
}

// Worker makes an ordinary worker that joins the cluster, not yet started.
func (c *Cluster) Worker(name string, slots int, args ...string) *Process {
	return c.Run(name, append([]string{
		"worker", "--name", name, "--data-dir", filepath.Join(c.cfg.Dir, name), "--gossip", "127.0.0.1:0",
		"--join", c.Join(), "--slots", strconv.Itoa(slots),
	}, args...), nil)
}

// ForwardedWorker is Worker in a forwarded cluster. A second process of one name
// needs a directory of another.
func (c *Cluster) ForwardedWorker(name, dir string, slots int, args ...string) (*Worker, error) {
	ports, err := FreePorts(2)
	if err != nil {
		return nil, err
	}
	w := &Worker{Gossip: ports[0], PublicGossip: ports[1], DataDir: filepath.Join(c.cfg.Dir, dir)}
	w.Process = c.Run(dir, append([]string{
		"worker", "--name", name, "--data-dir", w.DataDir, "--gossip", w.Gossip, "--advertise-gossip", w.PublicGossip,
		"--join", c.Join(), "--slots", strconv.Itoa(slots),
	}, args...), nil)
	return w, nil
}

// Join lists the servers' gossip addresses, as --join takes them.
func (c *Cluster) Join() string {
	var all []string
	for _, s := range c.Servers {
		all = append(all, cmp.Or(s.PublicGossip, s.Gossip))
	}
	return strings.Join(all, ",")
}

// HTTP lists the servers' API addresses.
func (c *Cluster) HTTP() []string {
	var all []string
	for _, s := range c.Servers {
		all = append(all, s.HTTP)
	}
	return all
}

// Server returns the server of a name; nil where there is none.
func (c *Cluster) Server(name string) *Server {
	for _, s := range c.Servers {
		if s.Name() == name {
			return s
		}
	}
	return nil
}

// StartServers starts all servers and waits until each is ready.
func (c *Cluster) StartServers(ctx context.Context) error {
	for _, s := range c.Servers {
		if err := s.Start(); err != nil {
			return err
		}
	}
	for _, s := range c.Servers {
		if err := c.AwaitReady(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// AwaitReady waits until a server knows a leader and has caught up with it. It
// fails when the server ends.
func (c *Cluster) AwaitReady(ctx context.Context, s *Server) error {
	return c.await(ctx, s.Name()+" is ready", s.Process, func() error { return c.ready(ctx, s.HTTP) })
}

// await asks until done says nil.
func (c *Cluster) await(ctx context.Context, what string, p *Process, done func() error) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		err := done()
		switch {
		case err == nil:
			return nil
		case p != nil && !p.Running():
			return fmt.Errorf("%s ended with code %d; the end of its log:\n%s", p.Name(), p.ExitCode(), p.Tail())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waited in vain until %s: %w (last: %w)", what, context.Cause(ctx), err)
		}
	}
}

func (c *Cluster) ready(ctx context.Context, address string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := c.probe.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 500))
		return fmt.Errorf("%s: %s", resp.Status, text)
	}
	return nil
}

// AwaitWorkers waits until so many workers are alive.
func (c *Cluster) AwaitWorkers(ctx context.Context, n int) error {
	cl, err := c.Client(client.Config{})
	if err != nil {
		return err
	}
	defer cl.Close()
	return c.await(ctx, strconv.Itoa(n)+" workers are alive", nil, func() error {
		got, err := cl.Cluster(ctx)
		if err != nil {
			return err
		}
		alive := 0
		for _, w := range got.Workers {
			if w.State == "alive" {
				alive++
			}
		}
		if alive < n {
			return fmt.Errorf("%d of %d workers are alive", alive, n)
		}
		return nil
	})
}

// Client makes a client of all servers; cfg says the rest.
func (c *Cluster) Client(cfg client.Config) (*client.Client, error) {
	cfg.Addresses = c.HTTP()
	return client.New(cfg)
}

// Leadership is who leads, by those that answer.
type Leadership struct {
	Term   uint64
	Leader string // the server's name; empty: none known in the highest term
}

// Leadership asks every running server what it believes, and goes with the
// highest term.
func (c *Cluster) Leadership(ctx context.Context) Leadership {
	var l Leadership
	for _, s := range c.Servers {
		if !s.Running() {
			continue
		}
		got, err := c.ask(ctx, s.HTTP)
		if err == nil && (got.Term > l.Term || got.Term == l.Term && l.Leader == "") {
			l = Leadership{Term: got.Term, Leader: got.Leader}
		}
	}
	return l
}

func (c *Cluster) ask(ctx context.Context, address string) (client.Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	cl, err := client.New(client.Config{Addresses: []string{address}, Stale: true, RetryTime: -1, HTTPClient: &c.probe})
	if err != nil {
		return client.Cluster{}, err
	}
	return cl.Cluster(ctx)
}

// AwaitLeader waits until one of the running servers leads, and returns it.
func (c *Cluster) AwaitLeader(ctx context.Context) (*Server, error) {
	var leader *Server
	err := c.await(ctx, "a server leads", nil, func() error {
		l := c.Leadership(ctx)
		if leader = c.Server(l.Leader); leader == nil || !leader.Running() {
			return errors.New("no server leads")
		}
		return nil
	})
	return leader, err
}

// DiskUsage is the most that a server's data directory takes on disk, in bytes.
func (c *Cluster) DiskUsage() (int64, error) {
	var most int64
	for _, s := range c.Servers {
		n, err := DiskUsage(s.DataDir)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return 0, err
		}
		most = max(most, n)
	}
	return most, nil
}
