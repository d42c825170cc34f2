package raftnode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testElection = 400 * time.Millisecond
	testLimit    = time.Minute // for what must happen at all
)

// cluster is a few replicas in one process, over loopback TCP.
type cluster struct {
	t       testing.TB
	members map[string]*member
	order   []string
	adjust  func(*Config)
	wrap    func(name string, b LogBackend) LogBackend

	logs  map[string]LogBackend // in memory; nil: raft.db
	wires *wires                // in memory, for bubbles; nil: loopback TCP

	mu    sync.Mutex
	cut   map[[2]string]bool // no connection between the two, in this direction
	conns map[net.Conn][2]string
}

// member is one server across its lives.
type member struct {
	*Node                         // nil while it is down
	live     atomic.Pointer[Node] // the same, for its peers
	c        *cluster
	name     string
	dir      string
	fs       vfs.FS
	home     *store.Home
	address  atomic.Value // string
	restored atomic.Int32
	events   atomic.Int32
	fatal    chan fatalCall
}

type fatalCall struct {
	code int
	err  error
}

func newCluster(t testing.TB, names ...string) *cluster {
	c := &cluster{t: t, members: map[string]*member{}, order: names, cut: map[[2]string]bool{}, conns: map[net.Conn][2]string{}}
	for _, name := range names {
		c.members[name] = &member{c: c, name: name, dir: t.TempDir(), fs: vfs.NewMem(), fatal: make(chan fatalCall, 1)}
	}
	t.Cleanup(func() {
		for _, m := range c.members {
			m.stop()
		}
	})
	return c
}

// startAll starts every member and bootstraps the first one.
func (c *cluster) startAll() {
	c.t.Helper()
	var servers []Server
	for _, name := range c.order {
		m := c.members[name]
		m.start()
		servers = append(servers, Server{Name: name, Address: m.address.Load().(string), Voter: true})
	}
	if err := c.members[c.order[0]].Bootstrap(servers); err != nil {
		c.t.Fatal(err)
	}
}

func (m *member) listen() net.Listener {
	if m.c.wires != nil {
		return m.c.wires.listen(m.name)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		m.c.t.Fatal(err)
	}
	return ln
}

func (m *member) config() Config {
	ln := m.listen()
	m.address.Store(ln.Addr().String())
	cfg := Config{
		Name: m.name, Address: ln.Addr().String(), DataDir: m.dir, Home: m.home, Listener: ln,
		Dial: m.dial, Peers: peers{m}, Resolve: m.c.resolve,
		Logger:          slog.New(slog.NewTextHandler(m.logTo(), &slog.HandlerOptions{Level: slog.LevelDebug})),
		Now:             func() int64 { return time.Now().UnixMilli() },
		Events:          func(_ fsm.Meta, ev []fsm.Event) { m.events.Add(int32(len(ev))) },
		Restored:        func() { m.restored.Add(1) },
		Fatal:           func(code int, err error) { m.fatal <- fatalCall{code, err} },
		ElectionTimeout: testElection,
	}
	if m.c.logs != nil {
		cfg.Log = m.c.logs[m.name]
	}
	if m.c.adjust != nil {
		m.c.adjust(&cfg)
	}
	return cfg
}

// logTo writes a server's log to stderr when AXD_TEST_LOG is set.
func (m *member) logTo() *os.File {
	if os.Getenv("AXD_TEST_LOG") != "" {
		return os.Stderr
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		m.c.t.Fatal(err)
	}
	m.c.t.Cleanup(func() { _ = null.Close() })
	return null
}

func (m *member) open() error {
	var err error
	m.home, err = store.OpenHome(m.fs, "state", store.Options{Create: true, MemTableBytes: 1 << 20})
	if err != nil {
		return err
	}
	cfg := m.config()
	node, err := open(cfg, fsm.NewMachine(), func(b LogBackend) LogBackend {
		if m.c.wrap != nil {
			return m.c.wrap(m.name, b)
		}
		return b
	})
	if err != nil {
		return errors.Join(err, cfg.Listener.Close(), m.home.Close())
	}
	m.Node = node
	m.live.Store(node)
	return nil
}

func (m *member) start() {
	m.c.t.Helper()
	if err := m.open(); err != nil {
		m.c.t.Fatal(err)
	}
}

// wipe gives a stopped member an empty disk.
func (m *member) wipe() { m.dir, m.fs = m.c.t.TempDir(), vfs.NewMem() }

func (m *member) stop() {
	m.c.t.Helper()
	if m.Node == nil {
		return
	}
	m.live.Store(nil)
	if err := errors.Join(m.Node.Close(), m.home.Close()); err != nil {
		m.c.t.Errorf("close %s: %v", m.name, err)
	}
	m.Node = nil
}

func (c *cluster) resolve(name string) (string, bool) {
	m := c.members[name]
	if m == nil {
		return "", false
	}
	a, ok := m.address.Load().(string)
	return a, ok
}

func (m *member) dial(ctx context.Context, name, address string) (net.Conn, error) {
	if m.c.isCut(m.name, name) {
		return nil, errors.New("cut off")
	}
	var d net.Dialer
	var nc net.Conn
	var err error
	if m.c.wires != nil {
		nc, err = m.c.wires.dial(ctx, m.name, name, address)
	} else {
		nc, err = d.DialContext(ctx, "tcp", address)
	}
	if err != nil {
		return nil, err
	}
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	m.c.conns[nc] = [2]string{m.name, name}
	return nc, nil
}

// peers asks other members, as rpc would.
type peers struct{ m *member }

func (p peers) find(name string) (*Node, error) {
	if o := p.m.c.members[name]; o != nil && !p.m.c.isCut(p.m.name, name) && !p.m.c.isCut(name, p.m.name) &&
		!p.m.c.wires.isMute(p.m.name) && !p.m.c.wires.isMute(name) {
		if n := o.live.Load(); n != nil {
			return n, nil
		}
	}
	return nil, errors.New("unreachable")
}

func (p peers) Term(_ context.Context, name, _ string) (uint64, error) {
	n, err := p.find(name)
	if err != nil {
		return 0, err
	}
	return n.Term(), nil
}

func (p peers) ReadIndex(ctx context.Context, name, _ string) (uint64, error) {
	n, err := p.find(name)
	if err != nil {
		return 0, err
	}
	return n.ReadIndex(ctx)
}

func (c *cluster) isCut(from, to string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut[[2]string{from, to}]
}

// partition cuts a member off from all others; heal undoes every cut.
func (c *cluster) partition(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for other := range c.members {
		if other != name {
			c.cut[[2]string{name, other}] = true
			c.cut[[2]string{other, name}] = true
		}
	}
	for nc, ends := range c.conns {
		if ends[0] == name || ends[1] == name {
			_ = nc.Close()
			delete(c.conns, nc)
		}
	}
}

func (c *cluster) heal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.cut)
}

// leader waits for a leader among the members that run and aren't in except.
func (c *cluster) leader(except ...string) *member {
	c.t.Helper()
	var found *member
	c.until("a leader", func() bool {
		for _, m := range c.members {
			if m.Node == nil || strings.Contains(strings.Join(except, " "), m.name) {
				continue
			}
			ctx, cancel := context.WithTimeout(context.Background(), testElection)
			_, err := m.ConfirmLeadership(ctx)
			cancel()
			if err == nil {
				found = m
				return true
			}
		}
		return false
	})
	return found
}

// others returns the running members but one.
func (c *cluster) others(not *member) []*member {
	var list []*member
	for _, name := range c.order {
		if m := c.members[name]; m != not && m.Node != nil {
			list = append(list, m)
		}
	}
	return list
}

func (c *cluster) until(what string, ok func() bool) {
	c.t.Helper()
	for end := time.Now().Add(testLimit); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return
		}
	}
	c.t.Fatalf("%s: not within %v", what, testLimit)
}

// encode makes a command that creates one task.
func encode(t testing.TB, key string, payload int) []byte {
	t.Helper()
	b, err := fsm.EncodeCommand(&fsm.Submit{Namespace: job.DefaultNamespace, Tasks: []job.TaskSpec{{
		Executor:       job.Executor{Handler: "h"},
		Payload:        []byte(`"` + strings.Repeat("x", payload) + `"`),
		IdempotencyKey: key,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// submit commits one task on a leader and returns its id.
func (m *member) submit(key string, payload int) (job.ID, error) {
	ctx, cancel := context.WithTimeout(context.Background(), testLimit)
	defer cancel()
	r, err := m.Propose(ctx, encode(m.c.t, key, payload))
	if err != nil {
		return job.ID{}, err
	}
	if r.Err != nil {
		return job.ID{}, r.Err
	}
	if r.Tasks[0].Err != nil {
		return job.ID{}, r.Tasks[0].Err
	}
	return r.Tasks[0].Task.Ref().ID, nil
}

// mustSubmit commits n tasks, whoever leads, and returns their ids.
func (c *cluster) mustSubmit(prefix string, n, payload int) []job.ID {
	c.t.Helper()
	var ids []job.ID
	for i := range n {
		key := fmt.Sprintf("%s-%d", prefix, i)
		c.until("submit "+key, func() bool {
			id, err := c.leader().submit(key, payload)
			if err == nil {
				ids = append(ids, id)
			}
			return err == nil
		})
	}
	return ids
}

// has reports whether a member's state holds all of these tasks.
func (m *member) has(ids []job.ID) bool {
	v := m.View()
	defer v.Close()
	for _, id := range ids {
		if _, ok := fsm.GetTask(v, fsm.TaskRef{Namespace: job.DefaultNamespace, ID: id}); !ok {
			return false
		}
	}
	return true
}

func (m *member) hash() uint64 {
	v := m.View()
	defer v.Close()
	return fsm.StateHash(v)
}

// converged waits until all running members hold the same state.
func (c *cluster) converged() {
	c.t.Helper()
	c.until("equal states", func() bool {
		var want *member
		for _, m := range c.members {
			if m.Node == nil {
				continue
			}
			if want == nil {
				want = m
			}
			if m.Applied() != want.Applied() || m.hash() != want.hash() {
				return false
			}
		}
		return true
	})
}

// diedWith waits for a member's Fatal.
func (m *member) diedWith(code int, text string) {
	m.c.t.Helper()
	select {
	case f := <-m.fatal:
		if f.code != code || !strings.Contains(f.err.Error(), text) {
			m.c.t.Fatalf("fatal with %d %v, want %d and %q", f.code, f.err, code, text)
		}
	case <-time.After(testLimit):
		m.c.t.Fatalf("the process did not end with %d", code)
	}
}
