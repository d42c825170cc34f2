package trial

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/axd-project/axd/chaos/process"
	"github.com/axd-project/axd/chaos/proxy"
	"github.com/axd-project/axd/client"
)

const (
	servers     = 3
	workers     = 2
	workerSlots = 6
	leaseTTL    = 4 * time.Second // four election time-outs, the least there is
	formTime    = 30 * time.Second
)

// stage is one scenario's cluster with all that is around it.
type stage struct {
	*process.Cluster
	scenario *Scenario
	cfg      *Options
	dir      string
	clocks   string // the directory of files that turn processes' clocks; empty: none
	speed    speed
	rng      *rand.Rand
	net      *proxy.Network
	attempts *attempts
	sink     *sink
	load     *load
	watch    *watch
	began    time.Time
	until    time.Time // when trouble ends, at the earliest
	before   []Holding // as the load began
	after    []Holding // when nothing was left to do

	small   *smallDisk // nil without
	workers []*process.Worker
	names   map[*process.Worker]string // in the network

	mu     sync.Mutex
	faults []*Fault
	broken []string // promises, as the scenario itself saw them
}

// newStage makes the cluster; nothing runs yet.
func newStage(cfg *Options, s *Scenario, dir string, seed uint64) (st *stage, err error) {
	st = &stage{
		scenario: s, cfg: cfg, dir: dir, speed: cfg.speed, net: proxy.New(),
		rng: rand.New(rand.NewPCG(seed, 0)), names: map[*process.Worker]string{},
	}
	defer func() {
		if err != nil {
			st.close()
		}
	}()
	conf := process.Config{
		Bin: cfg.Bin, Dir: dir, Servers: servers, Forwarded: true,
		ServerArgs: []string{"--lease-ttl", leaseTTL.String(), "--callback-allow", "127.0.0.0/8"},
	}
	if s.Clocks {
		st.clocks = filepath.Join(dir, "clocks")
		if err := os.Mkdir(st.clocks, 0o700); err != nil {
			return st, err
		}
		conf.ServerEnv = []string{"AXD_CHAOS_CLOCK=" + st.clocks}
	}
	if s.smallDisk {
		if st.small, err = newSmallDisk(filepath.Join(dir, smallServer)); err != nil {
			return st, err
		}
		conf.Wrap = st.small.wrap
	}
	if st.Cluster, err = process.New(conf); err != nil {
		return st, err
	}
	if st.small != nil {
		srv := st.Server(smallServer)
		srv.DataDir = st.small.outside
	}
	for _, srv := range st.Servers {
		if err := st.wire(srv); err != nil {
			return st, err
		}
	}
	for i := range workers {
		name := "w" + strconv.Itoa(i+1)
		if _, err := st.worker(name, name); err != nil {
			return st, err
		}
	}
	if st.attempts, err = newAttempts(dir); err != nil {
		return st, err
	}
	if st.sink, err = newSink(); err != nil {
		return st, err
	}
	st.load, err = newLoad(st)
	return st, err
}

// wire adds a server to the network.
func (st *stage) wire(s *process.Server) error {
	return st.net.Add(proxy.Node{
		Name: s.Name(), PID: running(s.Process), RPC: s.RPC, Gossip: s.Gossip, PublicRPC: s.PublicRPC, PublicGossip: s.PublicGossip,
	})
}

// worker adds a worker's process, called node in the network.
func (st *stage) worker(name, node string) (*process.Worker, error) {
	w, err := st.ForwardedWorker(name, node, workerSlots, "--drain-time", "3s", "--label", "node="+node)
	if err != nil {
		return nil, err
	}
	st.workers, st.names[w] = append(st.workers, w), node
	return w, st.net.Add(proxy.Node{Name: node, PID: running(w.Process), Gossip: w.Gossip, PublicGossip: w.PublicGossip})
}

func running(p *process.Process) func() int {
	return func() int {
		if !p.Running() {
			return 0
		}
		return p.PID()
	}
}

// start brings all up, and the load on its way.
func (st *stage) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, st.speed.scale(formTime))
	defer cancel()
	if err := st.StartServers(ctx); err != nil {
		return err
	}
	for _, w := range st.workers {
		if err := w.Start(); err != nil {
			return err
		}
	}
	if err := st.AwaitWorkers(ctx, len(st.workers)); err != nil {
		return err
	}
	st.began = time.Now()
	st.watch = newWatch(st)
	return st.load.start(ctx)
}

// close ends everything; all of it may be called twice.
func (st *stage) close() {
	if st.load != nil {
		st.load.abandon()
	}
	if st.watch != nil {
		st.watch.stop()
	}
	if st.Cluster != nil {
		st.Cluster.Close()
	}
	if st.small != nil {
		st.small.holder.Close()
	}
	st.net.Close()
	if st.sink != nil {
		st.sink.close()
	}
	if st.attempts != nil {
		st.attempts.close()
	}
	if st.load != nil {
		st.load.close()
	}
}

// tell says to whoever watches what happens.
func (st *stage) tell(format string, args ...any) {
	st.cfg.tell(st.scenario.Name, fmt.Sprintf(format, args...), false)
}

// violated notes a promise that the scenario itself saw broken.
func (st *stage) violated(format string, args ...any) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.broken = append(st.broken, fmt.Sprintf(format, args...))
}

// rest lets the load go on for a while.
func (st *stage) rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// between draws a time.
func (st *stage) between(least, most time.Duration) time.Duration {
	return least + time.Duration(st.rng.Int64N(int64(most-least)+1))
}

// The load goes on for so long before and after each fault.
const (
	restBefore = 1 * time.Second
	restAfter  = 1500 * time.Millisecond
)

// rounds makes the same trouble once, and again while there is time for one more.
func (st *stage) rounds(ctx context.Context, once func(ctx context.Context) error) error {
	for took := time.Duration(0); took == 0 || time.Now().Add(took).Before(st.until); {
		began := time.Now()
		if err := st.rest(ctx, restBefore); err != nil {
			return err
		}
		if err := once(ctx); err != nil {
			return err
		}
		if err := st.rest(ctx, restAfter); err != nil {
			return err
		}
		took = time.Since(began)
	}
	return nil
}

// recovered waits until writes are accepted again after a fault, and notes how
// long that took. That it takes too long is found by who judges.
func (st *stage) recovered(ctx context.Context, f *Fault) error {
	r := f.get()
	limit := max(3*r.Bound, 10*time.Second)
	for end, last := r.since.Add(limit), false; !last; {
		last = !time.Now().Before(end)
		if at, ok := st.watch.acceptedSince(r.since); ok {
			f.set(func(r *FaultRecord) { r.Recovered, r.Recovery = true, at.Sub(r.since) })
			return nil
		}
		if err := st.rest(ctx, probeEvery/4); err != nil {
			return err
		}
	}
	f.set(func(r *FaultRecord) { r.Recovery = limit })
	return nil
}

// others returns the servers beside one.
func (st *stage) others(s *process.Server) []*process.Server {
	var out []*process.Server
	for _, o := range st.Servers {
		if o != s {
			out = append(out, o)
		}
	}
	return out
}

// leader waits for a leader.
func (st *stage) leader(ctx context.Context) (*process.Server, error) {
	wait, cancel := context.WithTimeoutCause(ctx, st.speed.scale(formTime), errors.New("no server leads"))
	defer cancel()
	leader, err := st.AwaitLeader(wait)
	return leader, promised(ctx, err)
}

// follower returns one that does not lead.
func (st *stage) follower(ctx context.Context) (leader, follower *process.Server, err error) {
	leader, err = st.leader(ctx)
	if err != nil {
		return nil, nil, err
	}
	rest := st.others(leader)
	return leader, rest[st.rng.IntN(len(rest))], nil
}

// restart starts a server that has ended, and waits until it is ready.
func (st *stage) restart(ctx context.Context, s *process.Server) error {
	if err := s.Start(); err != nil {
		return err
	}
	return st.ready(ctx, s)
}

func (st *stage) ready(ctx context.Context, s *process.Server) error {
	wait, cancel := context.WithTimeout(ctx, st.speed.scale(formTime))
	defer cancel()
	return promised(ctx, st.AwaitReady(wait, s))
}

// promised makes an error of what the cluster promised a broken promise, unless the
// trial itself was ended.
func promised(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	return &brokenError{err}
}

// client makes one that asks a single server once.
func clientOf(address string) (*client.Client, error) {
	return client.New(client.Config{Addresses: []string{address}, RetryTime: -1})
}
