package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/axd-project/axd/cluster"
	"github.com/axd-project/axd/internal/mutant"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
)

const (
	dialTimeout  = 2 * time.Second        // to connect, and again for the session's hello
	retryMin     = 50 * time.Millisecond  // between two rounds of dials
	retryMax     = time.Second            // ditto
	logEvery     = 20                     // failures in a row that are logged once
	maxRedirects = 3                      // from server to server, before a pause
	takenTime    = 15 * time.Second       // a worker's name may be taken by its own earlier life's connection
	minHeartbeat = 20 * time.Millisecond  // whatever the leader says
	minLease     = 100 * time.Millisecond // ditto
)

// session is one connection to the leader, once it has welcomed the worker.
type session struct {
	w         *Worker
	conn      *rpc.Conn
	ttl       time.Duration
	heartbeat time.Duration
	sending   sync.WaitGroup // of owed results
	room      chan struct{}  // one place per send in flight
}

// terms remembers the highest term seen: a deposed leader's messages may come
// after those of its successor.
type terms struct {
	mu      sync.Mutex
	highest uint64
}

// see tells whether a term is not behind, and remembers it.
func (t *terms) see(term uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if term < t.highest && !mutant.OldTerm {
		return false
	}
	t.highest = term
	return true
}

// keepSession finds the leader and keeps a session with it until ctx ends. It
// fails when another worker of the name stays connected.
func (w *Worker) keepSession(ctx context.Context) error {
	pause, hint, redirects, failures := time.Duration(0), "", 0, 0
	var takenSince time.Time
	for ctx.Err() == nil {
		began := time.Now()
		next, err := w.tryServers(ctx, hint)
		if err != nil && next != "" && redirects < maxRedirects {
			hint = next
			redirects++
			continue
		}
		hint, redirects = "", 0
		switch taken := nameTaken(err); {
		case taken == nil:
			takenSince = time.Time{}
		case takenSince.IsZero():
			takenSince = time.Now()
		case time.Since(takenSince) > takenTime:
			return taken
		}
		if err == nil && time.Since(began) > retryMax {
			pause, failures = 0, 0 // a session has ended: the next leader may be there already
			continue
		}
		pause = min(max(2*pause, retryMin), retryMax)
		if err != nil && ctx.Err() == nil {
			if failures%logEvery == 0 {
				w.log.Warn("no session with a leader", "error", err)
			}
			failures++
		}
		w.awaitServers(ctx, jitter(pause))
	}
	return nil
}

// nameTaken returns the leader's answer that another worker of the name is
// connected, else nil.
func nameTaken(err error) error {
	var answer *rpc.Error
	if !errors.As(err, &answer) || answer.Code != string(job.CodeConflict) || answer.Field != "name" {
		return nil
	}
	return &job.Error{Code: job.CodeConflict, Field: answer.Field, Rule: answer.Text, Value: answer.Value}
}

// awaitServers pauses, but not longer than until gossip knows something new.
func (w *Worker) awaitServers(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.news:
	case <-ctx.Done():
	}
}

// jitter draws from the second half of a pause, so that workers don't come in step.
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d/2 + rand.N(d/2+1)
}

func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// tryServers asks servers in turn, the hinted one alone, until one has been the
// leader of a session that then ended. next is a leader that a server named.
func (w *Worker) tryServers(ctx context.Context, hint string) (next string, err error) {
	addresses := []string{hint}
	if hint == "" {
		addresses = w.servers()
	}
	if len(addresses) == 0 {
		return "", errors.New("no server is known yet")
	}
	rand.Shuffle(len(addresses), func(i, j int) { addresses[i], addresses[j] = addresses[j], addresses[i] })
	var failures []error
	for _, address := range addresses {
		err := w.serve(ctx, address)
		if err == nil || ctx.Err() != nil {
			return "", nil
		}
		var answer *rpc.Error
		if errors.As(err, &answer) && answer.Leader != "" && answer.Leader != address {
			return answer.Leader, err
		}
		err = fmt.Errorf("%s: %w", address, err)
		if nameTaken(err) != nil { // only the leader judges names
			return "", err
		}
		failures = append(failures, err)
	}
	return "", errors.Join(failures...)
}

// servers returns a fresh list of addresses to dial.
func (w *Worker) servers() []string {
	if w.cfg.Servers != nil {
		return append([]string(nil), w.cfg.Servers()...)
	}
	var addresses []string
	for _, m := range w.cluster.Members() {
		if m.Role == cluster.RoleServer && m.RPC != "" && m.Liveness != cluster.Left {
			addresses = append(addresses, m.RPC)
		}
	}
	return addresses
}

func (w *Worker) dial(ctx context.Context, address string) (net.Conn, error) {
	if w.cfg.Dial != nil {
		return w.cfg.Dial(ctx, address)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", address)
}

// serve opens a session with one server and keeps it until it ends. An error
// means that there was no session.
func (w *Worker) serve(ctx context.Context, address string) error {
	dialCtx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	nc, err := w.dial(dialCtx, address)
	if err != nil {
		return err
	}
	s := &session{w: w, room: make(chan struct{}, maxSending)}
	self := rpc.Hello{Role: string(cluster.RoleWorker), Name: w.cfg.Name, Boot: w.boot, Version: w.cfg.Version, ClusterID: w.clusterID()}
	ready := make(chan struct{})
	s.conn, err = rpc.Dial(dialCtx, nc, self, func(ctx context.Context, r *rpc.Request) (any, error) {
		<-ready // the leader may send before its welcome is read
		return s.handle(ctx, r)
	}, rpc.WithLogger(w.log))
	if err != nil {
		return err
	}
	defer s.conn.Wait()
	defer s.conn.Close()
	sent, welcome, err := s.hello(ctx)
	if err == nil && !w.terms.see(welcome.Term) {
		err = fmt.Errorf("server %s is of an earlier term than one seen before", s.conn.Peer().Name)
	}
	if err != nil {
		close(ready)
		_ = s.conn.Close()
		return err
	}
	w.opened(s, sent, welcome)
	close(ready)
	s.run(ctx)
	return nil
}

func (w *Worker) clusterID() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clusterName
}

func (w *Worker) priorities() (out []uint8) {
	for _, p := range w.cfg.Priorities {
		out = append(out, uint8(p))
	}
	return out
}

// hello declares the worker and what it holds.
func (s *session) hello(ctx context.Context) (sent time.Duration, welcome rpc.WorkerWelcome, err error) {
	w := s.w
	hello := rpc.WorkerHello{
		Name: w.cfg.Name, Boot: w.boot, Address: w.address(), Slots: w.cfg.Slots, Labels: w.cfg.Labels,
		Version: w.cfg.Version, Kinds: w.kinds(), Held: w.table.held(), Priorities: w.priorities(),
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	sent = w.cfg.Clock()
	err = s.conn.Call(ctx, rpc.MethodWorkerHello, hello, &welcome)
	return sent, welcome, err
}

// address is for people: where the worker's gossip listens.
func (w *Worker) address() string {
	if w.cluster != nil {
		if m, ok := w.cluster.Member(cluster.RoleWorker, w.cfg.Name); ok {
			return m.Gossip
		}
	}
	host, err := hostname()
	if err != nil {
		return ""
	}
	return host
}

// opened takes over what a welcome says.
func (w *Worker) opened(s *session, sent time.Duration, welcome rpc.WorkerWelcome) {
	s.ttl = max(time.Duration(welcome.LeaseMS)*time.Millisecond, minLease)
	s.heartbeat = min(max(time.Duration(welcome.HeartbeatMS)*time.Millisecond, minHeartbeat), s.ttl/4)
	received := w.cfg.Clock()
	if w.clock.welcomed(welcome.NowUS, sent, received) {
		w.log.Warn("the cluster's clock was far ahead and has been set back: what is armed waits for it")
	} else {
		w.table.pinStarts(&w.clock)
	}
	w.clock.reset()
	w.observe(welcome.NowUS, received)
	if welcome.Lease {
		w.renewed(sent, s.ttl)
	}
	peer := s.conn.Peer()
	w.mu.Lock()
	w.session = s
	if w.clusterName == "" && peer.ClusterID != "" {
		w.clusterName = peer.ClusterID
		if w.dir != nil {
			if err := w.dir.setCluster(peer.ClusterID); err != nil {
				w.log.Error("the cluster's id could not be written to the data directory", "error", err)
			}
		}
	}
	w.mu.Unlock()
	w.log.Info("session with the leader", "leader", peer.Name, "address", s.conn.RemoteAddr(), "term", welcome.Term)
}

// observe takes a stamp of the cluster's clock.
func (w *Worker) observe(nowUS int64, received time.Duration) {
	if w.clock.observe(nowUS, received) {
		w.setAlarm()
	}
}

// renewed extends the lease, counted from when the answered request was sent.
func (w *Worker) renewed(sent, ttl time.Duration) {
	if mutant.LeaseFromAnswer {
		sent = w.cfg.Clock()
	}
	if until, extended := w.lease.renew(sent, ttl); extended && w.super != nil {
		w.super.renew(renewOrder{Until: int64(until), TTL: int64(ttl)})
	}
}

// run keeps the session: heartbeats in this goroutine, what is owed in another.
func (s *session) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { _ = s.conn.Close() })
	defer stop()
	var delivery sync.WaitGroup
	delivery.Go(func() { s.deliver(ctx) })
	delivery.Go(func() { s.declare(ctx) })
	s.notifyStarted(s.w.table.starts())
	err := s.beat(ctx)
	if ctx.Err() == nil {
		s.w.log.Warn("session with the leader ended", "leader", s.conn.Peer().Name, "error", err)
	}
	s.w.mu.Lock()
	if s.w.session == s {
		s.w.session = nil
	}
	s.w.mu.Unlock()
	_ = s.conn.Close()
	cancel()
	delivery.Wait()
}

// beat sends heartbeats until one fails. Each is answered only by a leader that
// has confirmed that it leads.
func (s *session) beat(ctx context.Context) error {
	ticker := time.NewTicker(s.heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-s.conn.Done():
			return s.conn.Err()
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		if err := s.beatOnce(ctx); err != nil {
			return err
		}
	}
}

func (s *session) beatOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.ttl/2)
	defer cancel()
	counts := s.w.table.counts()
	sent := s.w.cfg.Clock()
	var reply rpc.HeartbeatReply
	err := s.conn.Call(ctx, rpc.MethodWorkerHeartbeat, rpc.Heartbeat{Free: counts.Free, Running: counts.Running}, &reply)
	if err != nil {
		return err
	}
	if !s.w.terms.see(reply.Term) {
		return errors.New("the leader answers with an earlier term than one seen before")
	}
	received := s.w.cfg.Clock()
	if s.w.clock.answered(reply.NowUS, sent, received) {
		s.w.log.Warn("the leader has set the cluster's clock back")
	}
	s.w.observe(reply.NowUS, received)
	s.w.renewed(sent, s.ttl)
	return nil
}

// handle answers the leader.
func (s *session) handle(ctx context.Context, r *rpc.Request) (any, error) {
	switch r.Method {
	case rpc.MethodDispatch:
		received := s.w.cfg.Clock()
		var d rpc.Dispatch
		if err := r.Decode(&d); err != nil {
			return nil, err
		}
		if !s.w.terms.see(d.Term) {
			s.w.log.Warn("dispatch of a deposed leader dropped", "term", d.Term)
			return nil, nil
		}
		s.w.observe(d.NowUS, received)
		now := s.w.clock.at(received)
		for i := range d.Items {
			s.w.dispatch(&d.Items[i], now)
		}
		return nil, nil
	case rpc.MethodKill:
		var k rpc.Kill
		if err := r.Decode(&k); err != nil {
			return nil, err
		}
		s.w.kill(k)
		return nil, nil
	case rpc.MethodRevoke:
		var m rpc.Revoke
		if err := r.Decode(&m); err != nil {
			return nil, err
		}
		s.w.revoke(m.Refs)
		return nil, nil
	case rpc.MethodFollow:
		return nil, s.w.follow(ctx, r)
	}
	return nil, &rpc.Error{Code: string(job.CodeUnsupported), Text: "a worker does not answer " + r.Method}
}
