package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/axd-project/axd/api"
	"github.com/axd-project/axd/cluster"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/notify"
	"github.com/axd-project/axd/raftnode"
	"github.com/axd-project/axd/rpc"
	"github.com/axd-project/axd/scheduler"
	"github.com/axd-project/axd/store"
)

const (
	dialTimeout   = 2 * time.Second
	leaveTimeout  = 3 * time.Second
	httpDrain     = 2 * time.Second // for requests to finish when the server stops
	readyInterval = 50 * time.Millisecond
)

// Server is one axd server.
type Server struct {
	cfg  Config
	log  *slog.Logger
	boot string // random, once per process

	dir       *dataDir
	rpc       net.Listener
	mux       *rpc.Mux
	gate      *gate
	http      net.Listener
	peers     *rpc.Peers
	home      *store.Home
	node      *raftnode.Node
	gossip    Membership
	sched     *scheduler.Scheduler
	callbacks *notify.Sender
	lists     *notify.Sender // requests for them
	secrets   *secretBox     // nil: this server has no key
	clock     *clock
	vouch     vouch
	watch     clockWatch
	alerts    alerts
	sessions  sessions

	formMu   sync.Mutex                     // guards what dir says of cluster and promise
	dialled  sync.Map                       // server's name → address at which Raft's dial last succeeded
	cluster  atomic.Pointer[string]         // the cluster's id; nil: not yet known
	foreign  atomic.Pointer[cluster.Member] // a server of another cluster; nil: none was seen
	leading  atomic.Bool
	diskFull atomic.Bool
	ready    chan struct{}
	failed   chan error // what ends Run with an error

	pauses  chan pause // of the term's work
	restore sync.Mutex // held while an archive is being restored through this server
	offered atomic.Pointer[offer]
}

// New checks the configuration and takes what must not be shared: the data
// directory and the listeners. Run must follow.
func New(cfg Config) (*Server, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, log: cfg.Logger.With("server", cfg.Name), boot: rand.Text(), clock: newClock(cfg.Host),
		ready: make(chan struct{}), failed: make(chan error, 8),
		pauses: make(chan pause),
	}
	if err := s.open(); err != nil {
		s.release()
		return nil, err
	}
	return s, nil
}

// open takes the parts in the order in which they depend on each other.
func (s *Server) open() (err error) {
	if path := s.cfg.SecretKeyFile; path != "" {
		if s.secrets, err = readSecretKey(path); err != nil {
			return err
		}
	}
	if s.dir, err = openDataDir(s.cfg.Host.FS, s.cfg.DataDir, s.cfg.Name); err != nil {
		return err
	}
	if err := s.sweepArchives(); err != nil {
		return err
	}
	if err := s.checkRoom(); err != nil {
		return err
	}
	if id := s.dir.id.ClusterID; id != "" {
		s.setClusterID(id)
	} else if f := s.dir.id.Forming; f != nil && f.Servers[0] != s.cfg.Name {
		s.setClusterID(f.ClusterID)
	}
	if s.http, err = s.cfg.Host.Listen(s.cfg.HTTP); err != nil {
		return listenError("the API", "--http", err)
	}
	if s.rpc, err = s.cfg.Host.Listen(s.cfg.RPC); err != nil {
		return listenError("Raft and RPC", "--rpc", err)
	}
	s.cfg.RPC = s.rpc.Addr().String()
	s.mux = rpc.NewMux(s.rpc)
	s.gate = newGate(s.mux.Raft())
	s.peers = rpc.NewPeers(s.dial, s.hello, s.handle, s.rpcOptions()...)
	if s.home, err = s.openHome(); err != nil {
		return err
	}
	s.sched = scheduler.New(scheduler.Config{
		Log: asyncLog{s}, State: stateView{s}, Logger: s.log, Now: s.clock.Now, Mono: s.cfg.Host.Mono,
		LeaseTTL: s.cfg.LeaseTTL, Retention: s.cfg.Retention, Horizon: 2*s.cfg.electionTimeout() + time.Second,
	})
	s.callbacks, s.lists = s.newCallbacks(), s.newLists()
	if s.gossip, err = s.startGossip(); err != nil {
		return err
	}
	if err = s.openRaft(); err != nil {
		return err
	}
	s.watch.begin(s)
	if f := s.dir.id.Forming; f != nil && s.node.HasState() {
		s.setClusterID(f.ClusterID)
	}
	return nil
}

func listenError(what, flag string, err error) error {
	next := "choose another address"
	if errors.Is(err, syscall.EADDRINUSE) {
		next = "stop what listens there, or " + next
	}
	return fmt.Errorf("listening for %s (%s): %w; %s", what, flag, err, next)
}

// openHome opens the state. A server that was part of a cluster must find it:
// an empty state beside an old log would be filled from a wrong start.
func (s *Server) openHome() (*store.Home, error) {
	home, err := store.OpenHome(s.cfg.Host.FS, filepath.Join(s.cfg.DataDir, "state"), store.Options{
		Create: s.dir.id.ClusterID == "",
		Logger: s.log,
		Fatal:  func(err error) { s.fatal(raftnode.ExitStateFailed, err) },
	})
	if err != nil {
		code := raftnode.ExitCode(raftnode.ExitStateFailed, err)
		return nil, &raftnode.StartError{Code: code, Err: fmt.Errorf("%w; %s", err, advice(code, s.cfg.DataDir))}
	}
	return home, nil
}

func (s *Server) openRaft() error {
	log, err := s.cfg.Host.RaftLog()
	if err != nil {
		return &raftnode.StartError{Code: raftnode.ExitLogFailed, Err: fmt.Errorf("opening Raft's log: %w", err)}
	}
	cfg := s.raftConfig()
	cfg.Log = log
	s.node, err = raftnode.Open(cfg)
	return err
}

func (s *Server) raftConfig() raftnode.Config {
	return raftnode.Config{
		Name: s.cfg.Name, Address: s.cfg.advertiseRPC(), DataDir: s.cfg.DataDir, Logger: s.log, Home: s.home,
		Listener: s.gate, Dial: s.dialRaft, Resolve: s.resolve, Peers: peerCalls{s},
		Now: s.stamp, Attest: s.attest, Events: s.onEvents, Restored: s.onRestored, Fatal: s.fatal,
		ElectionTimeout: s.cfg.electionTimeout(),
		SnapshotBytes:   s.cfg.SnapshotBytes, TrailingBytes: s.cfg.TrailingBytes,
	}
}

func (s *Server) startGossip() (Membership, error) {
	return s.cfg.Host.Gossip(cluster.Config{
		Self: cluster.Member{
			Role: cluster.RoleServer, Name: s.cfg.Name, Boot: s.boot, ClusterID: s.clusterID(),
			RPC: s.cfg.advertiseRPC(), HTTP: s.http.Addr().String(), Version: s.cfg.Version,
		},
		Bind: s.cfg.Gossip, Advertise: s.cfg.AdvertiseGossip, Join: s.cfg.Join, Logger: s.log, Foreign: s.onForeign,
	})
}

// fail ends Run with an error; only the first few matter.
func (s *Server) fail(err error) {
	select {
	case s.failed <- err:
	default:
	}
}

// Run serves until ctx ends, then leaves: it hands leadership over, lets
// requests finish, says goodbye to gossip and closes what it opened.
func (s *Server) Run(ctx context.Context) error {
	defer s.release()
	work, stop := context.WithCancel(context.Background())
	defer stop()
	requests, endRequests := context.WithCancel(work)
	defer endRequests()
	web := &http.Server{
		Handler:           api.New(s.apiConfig()),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return requests },
	}
	var group sync.WaitGroup
	run := func(name string, fn func() error) {
		group.Go(func() {
			if err := fn(); err != nil {
				s.fail(fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	run("rpc", func() error {
		return ended(work, s.mux.Serve(work, s.hello, nil, s.handle, s.rpcOptions()...))
	})
	run("leading", func() error { s.followTerms(work, s.node.Terms(), s.lead); return nil })
	run("forming the cluster", func() error { return s.form(work) })
	run("recording the cluster", func() error { return s.watchCluster(work) })
	run("joining", func() error { return s.watchForeign(work) })
	run("waiting for readiness", func() error { s.awaitReady(work); return nil })
	run("watching the clock", func() error { s.watchClock(work); return nil })
	run("raising alerts", func() error { s.sendAlerts(work); return nil })
	run("watching the disk", func() error { s.watchDisk(work); return nil })
	run("comparing states", func() error { s.compareSums(work); return nil })
	run("http", func() error {
		if err := web.Serve(s.http); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	s.gossip.Rejoin(s.gossipAddresses)

	err := s.awaitEnd(ctx)
	if err == nil {
		s.leave()
	}
	drain, cancel := context.WithTimeout(context.Background(), httpDrain)
	defer cancel()
	_ = web.Shutdown(drain)
	endRequests() // those that follow a task's output would go on
	_ = web.Close()
	stop()
	group.Wait()
	return err
}

// awaitEnd returns nil when the server is asked to stop, or why it must.
func (s *Server) awaitEnd(ctx context.Context) error {
	conflict := s.gossip.Conflict()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-s.failed:
			return err
		case err := <-conflict:
			if !s.isReady() {
				return job.Conflict("name", err.Error(), s.cfg.Name)
			}
			conflict = nil // the other one is the newcomer, and is told the same
			s.log.Error("another server goes by this one's name", "error", err)
		case <-s.node.Removed():
			return s.errRemoved()
		}
	}
}

func (s *Server) isReady() bool {
	select {
	case <-s.ready:
		return true
	default:
		return false
	}
}

// ended hides the error of a listener that was closed on purpose.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// leave hands leadership over, so that the others need no election.
func (s *Server) leave() {
	s.log.Info("stopping")
	if !s.leading.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	if servers, err := s.node.Servers(); err != nil || len(servers) < 2 {
		return
	}
	if err := s.node.Transfer(ctx, ""); err != nil {
		s.log.Warn("handing leadership over failed; the others will elect", "error", err)
		return
	}
	to, _ := s.node.Leader()
	s.log.Info("leadership handed over", "to", to)
}

// release closes what open took, last taken first. It serves a failed New too.
func (s *Server) release() {
	if s.gossip != nil {
		ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
		_ = s.gossip.Leave(ctx)
		cancel()
	}
	if s.node != nil {
		if err := s.node.Close(); err != nil {
			s.log.Warn("closing Raft", "error", err)
		}
	}
	if s.peers != nil {
		_ = s.peers.Close()
	}
	if s.rpc != nil {
		_ = s.rpc.Close()
	}
	s.sessions.running.Wait() // their connections are closed
	if s.http != nil {
		_ = s.http.Close()
	}
	if s.home != nil {
		if err := s.home.Close(); err != nil {
			s.log.Warn("closing the state", "error", err)
		}
	}
	if s.dir != nil {
		s.dir.close()
	}
}

// Ready is closed once the server has served its first linearizable read.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// HTTPAddr returns the API's address, the port resolved.
func (s *Server) HTTPAddr() string { return s.http.Addr().String() }

// GossipAddr returns the address for others to join at.
func (s *Server) GossipAddr() string { return s.gossip.Self().Gossip }

// RPCAddr returns the address of Raft and RPC, the port resolved.
func (s *Server) RPCAddr() string { return s.cfg.RPC }

// Name returns the server's name.
func (s *Server) Name() string { return s.cfg.Name }

func (s *Server) awaitReady(ctx context.Context) {
	for ctx.Err() == nil {
		step, cancel := context.WithTimeout(ctx, stepTimeout)
		err := s.node.ReadBarrier(step)
		cancel()
		if err == nil && s.clusterID() != "" {
			close(s.ready)
			s.log.Info("ready", "http", s.HTTPAddr(), "rpc", s.cfg.RPC, "gossip", s.GossipAddr())
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(readyInterval):
		}
	}
}

func (s *Server) clusterID() string {
	if p := s.cluster.Load(); p != nil {
		return *p
	}
	return ""
}

func (s *Server) setClusterID(id string) { s.cluster.Store(&id) }

func (s *Server) info() fsm.Info {
	v := s.node.View()
	defer v.Close()
	return fsm.ReadInfo(v)
}

func (s *Server) rpcOptions() []rpc.Option {
	return []rpc.Option{rpc.WithErrorEncoder(encodeError), rpc.WithLogger(s.log)}
}

func (s *Server) dial(ctx context.Context, address string) (net.Conn, error) {
	return s.cfg.Host.Dial(ctx, address)
}

// dialRaft opens one of Raft's connections, after rpc has made sure that the
// named server of this cluster answers there: Raft itself would speak to anyone.
func (s *Server) dialRaft(ctx context.Context, name, address string) (net.Conn, error) {
	peer, err := s.peers.Conn(ctx, address)
	if err != nil {
		return nil, err
	}
	answers := peer.Peer()
	if answers.Name != name {
		return nil, fmt.Errorf("server %s was expected at %s, but %s answers", name, address, answers.Name)
	}
	if answers.ClusterID == "" && s.clusterID() != "" {
		_ = peer.Close() // the next hello may tell more
		return nil, fmt.Errorf("server %s at %s is not part of the cluster (yet)", name, address)
	}
	c, err := s.dial(ctx, address)
	if err != nil {
		return nil, err
	}
	s.dialled.Store(name, address)
	return rpc.DialRaft(c, s.hello())
}

// resolve finds a server's present address by its name.
func (s *Server) resolve(name string) (string, bool) {
	m, ok := s.gossip.Member(cluster.RoleServer, name)
	return m.RPC, ok && m.RPC != ""
}

func (s *Server) address(name, hint string) string {
	if a, ok := s.resolve(name); ok {
		return a
	}
	return hint
}

// gossipAddresses are where gossip last saw the other servers of Raft's
// configuration.
func (s *Server) gossipAddresses() []string {
	servers, err := s.node.Servers()
	if err != nil {
		return nil
	}
	var out []string
	for _, srv := range servers {
		if m, ok := s.gossip.Member(cluster.RoleServer, srv.Name); ok && srv.Name != s.cfg.Name {
			out = append(out, m.Gossip)
		}
	}
	return out
}

func (s *Server) apiConfig() api.Config {
	return api.Config{
		Backend: s, Logger: s.log, Version: cmp.Or(s.cfg.Version, "dev"), Addresses: []string{s.HTTPAddr()},
		AllowedHosts: s.cfg.AllowedHosts,
	}
}

// asyncLog gives the scheduler its way to the log.
type asyncLog struct{ s *Server }

// ProposeAsync implements scheduler.Log.
func (l asyncLog) ProposeAsync(c fsm.Command, done func(fsm.Result, error)) {
	l.s.proposeAsync(c, done)
}

// stateView gives the scheduler its view of the state.
type stateView struct{ s *Server }

// Read implements scheduler.State.
func (v stateView) Read() (fsm.Reader, func()) {
	view := v.s.node.View()
	return view, view.Close
}
