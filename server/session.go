package server

import (
	"context"
	"errors"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
	"github.com/axd-project/axd/scheduler"
)

const (
	sessionQueue     = 1024            // messages waiting for one worker's connection
	sessionSend      = 5 * time.Second // for the connection to take one message
	heartbeatEvery   = time.Second
	dispatchMaxBytes = 1 << 20 // of payloads and executors in one dispatch frame
)

// session carries the loop's messages to one worker. Its methods never block:
// a queue that is full closes the connection, and the worker declares itself
// anew.
type session struct {
	conn  *rpc.Conn
	queue chan message
	now   func() int64 // see clock.told
	name  string
	term  uint64 // in which it was attached
	boot  string
	// address is for people: where the worker says it is.
	address string
}

type message struct {
	method string
	body   any
}

func newSession(conn *rpc.Conn, h *rpc.WorkerHello, now func() int64) *session {
	return &session{
		conn: conn, queue: make(chan message, sessionQueue), now: now, name: h.Name, boot: h.Boot, address: h.Address,
	}
}

// send writes queued messages until the connection ends.
func (s *session) send() {
	for {
		select {
		case <-s.conn.Done():
			return
		case m := <-s.queue:
			if d, ok := m.body.(rpc.Dispatch); ok { // the nearer to the wire, the better the worker knows the clock
				d.NowUS = s.now()
				m.body = d
			}
			ctx, cancel := context.WithTimeout(context.Background(), sessionSend)
			err := s.conn.Notify(ctx, m.method, m.body)
			cancel()
			if err != nil {
				_ = s.conn.Close()
				return
			}
		}
	}
}

func (s *session) put(method string, body any) {
	select {
	case s.queue <- message{method, body}:
	default:
		_ = s.conn.Close()
	}
}

// Gone implements scheduler.Session.
func (s *session) Gone() <-chan struct{} { return s.conn.Done() }

// Dispatch implements scheduler.Session.
func (s *session) Dispatch(term uint64, items []scheduler.Dispatch) {
	d := rpc.Dispatch{Term: term}
	size := 0
	executors := map[jobVersion][]byte{}
	for i := range items {
		executor, err := encodeExecutor(&items[i], executors)
		if err != nil {
			continue // an executor that encodes to nothing: validation keeps it out of state
		}
		item := dispatchItem(&items[i], executor)
		if size > 0 && size+len(item.Payload)+len(item.Executor) > dispatchMaxBytes {
			s.put(rpc.MethodDispatch, d)
			d, size = rpc.Dispatch{Term: term}, 0
		}
		d.Items = append(d.Items, item)
		size += len(item.Payload) + len(item.Executor)
	}
	if len(d.Items) > 0 {
		s.put(rpc.MethodDispatch, d)
	}
}

// jobVersion names what most items of a dispatch have in common.
type jobVersion struct {
	namespace, job string
	version        uint64
}

// encodeExecutor encodes an item's executor; a job's only once.
func encodeExecutor(d *scheduler.Dispatch, known map[jobVersion][]byte) ([]byte, error) {
	if d.Task.Job == "" {
		return msgpack.Marshal(d.Executor)
	}
	key := jobVersion{d.Task.Namespace, d.Task.Job, d.JobVersion}
	b, ok := known[key]
	if !ok {
		var err error
		if b, err = msgpack.Marshal(d.Executor); err != nil {
			return nil, err
		}
		known[key] = b
	}
	return b, nil
}

func dispatchItem(d *scheduler.Dispatch, executor []byte) rpc.DispatchItem {
	t := &d.Task
	var origin *rpc.Origin
	if !t.Run.IsZero() || d.Schedule != "" {
		origin = &rpc.Origin{Run: t.Run, Step: t.Step, Schedule: d.Schedule, NominalMS: d.Nominal}
	}
	return rpc.DispatchItem{
		Ref:          wireRef(fsm.AttemptRef{Ref: t.Ref(), Token: t.Token}, t.Attempt),
		Job:          t.Job,
		JobVersion:   d.JobVersion,
		Executor:     executor,
		Payload:      d.Payload,
		DueMS:        t.Due,
		TimeoutMS:    d.Policy.TimeoutOrDefault().Milliseconds(),
		EndByMS:      t.EndBy,
		HeartbeatMS:  d.Policy.HeartbeatTimeoutOrDefault().Milliseconds(),
		GraceMS:      d.Policy.GraceOrDefault().Milliseconds(),
		SuccessCodes: d.Policy.SuccessCodes,
		Continue:     d.Policy.OnDisconnect == job.DisconnectContinue,
		MaxRetries:   d.Policy.RetryOrDefault().Max(),
		Lesser:       t.Policy.Priority != job.High,
		MostLesser:   d.MostLesser,
		Origin:       origin,
	}
}

// Kill implements scheduler.Session.
func (s *session) Kill(ref fsm.AttemptRef, attempt uint32, reason scheduler.KillReason) {
	s.put(rpc.MethodKill, rpc.Kill{Ref: wireRef(ref, attempt), Reason: string(reason)})
}

// Revoke implements scheduler.Session.
func (s *session) Revoke(attempts []scheduler.Held) {
	m := rpc.Revoke{Refs: make([]rpc.Ref, len(attempts))}
	for i, a := range attempts {
		m.Refs[i] = wireRef(a.AttemptRef, a.Attempt)
	}
	s.put(rpc.MethodRevoke, m)
}

func wireRef(r fsm.AttemptRef, attempt uint32) rpc.Ref {
	return rpc.Ref{Namespace: r.Ref.Namespace, ID: r.Ref.ID, Attempt: attempt, Token: r.Token.Bytes()}
}

func attemptRef(r rpc.Ref) fsm.AttemptRef {
	return fsm.AttemptRef{Ref: fsm.TaskRef{Namespace: r.Namespace, ID: r.ID}, Token: job.TokenOf(r.Token)}
}

// onHello opens a worker's session.
func (s *Server) onHello(ctx context.Context, r *rpc.Request) (any, error) {
	var h rpc.WorkerHello
	if err := r.Decode(&h); err != nil {
		return nil, err
	}
	if err := job.ValidateName("name", h.Name); err != nil {
		return nil, err
	}
	if _, err := s.node.ConfirmLeadership(ctx); err != nil {
		return nil, s.notLeading(err)
	}
	hello := scheduler.Hello{
		Worker: fsm.RegisterWorker{
			Name: h.Name, Boot: h.Boot, Address: h.Address, Slots: h.Slots, Labels: h.Labels, Version: h.Version,
		},
		Offers: h.Kinds,
		Held:   heldBy(h.Held),
	}
	for _, p := range h.Priorities {
		hello.Worker.Priorities = append(hello.Worker.Priorities, job.Priority(p))
	}
	sess := newSession(r.Conn, &h, s.clock.told)
	ends := s.sessions.ended()
	term, err := s.sched.Attach(ctx, sess, hello)
	if err != nil {
		if ctx.Err() != nil { // the loop may yet attach it: nobody would send what it queues
			_ = r.Conn.Close()
		}
		s.sched.Detach(sess.name, sess)
		return nil, s.notLeading(err)
	}
	sess.term = term
	if !s.sessions.put(sess, ends) {
		_ = r.Conn.Close() // the loop may hold it, and what it queues goes nowhere
		s.sched.Detach(sess.name, sess)
		return nil, s.notLeading(job.Errorf(job.CodeNoLeader, "the session was overtaken; say hello again"))
	}
	s.sessions.running.Go(sess.send)
	s.sessions.running.Go(func() { s.watchSession(sess) })
	return rpc.WorkerWelcome{
		Term: term, LeaseMS: s.cfg.LeaseTTL.Milliseconds(), HeartbeatMS: heartbeatEvery.Milliseconds(),
		Lease: true, NowUS: s.clock.told(),
	}, nil
}

func (s *Server) watchSession(sess *session) {
	<-sess.conn.Done()
	s.sessions.remove(sess)
	s.sched.Detach(sess.name, sess)
}

// sessionOf returns the session that a request's connection has opened.
func (s *Server) sessionOf(r *rpc.Request) (*session, error) {
	if sess := s.sessions.byConn(r.Conn); sess != nil {
		return sess, nil
	}
	return nil, job.Errorf(job.CodeNoLeader, "no session on this connection; say hello first")
}

// onHeartbeat renews a lease, once leadership is confirmed after the heartbeat
// came: a deposed leader must not keep a worker running.
func (s *Server) onHeartbeat(ctx context.Context, r *rpc.Request) (any, error) {
	var hb rpc.Heartbeat
	if err := r.Decode(&hb); err != nil {
		return nil, err
	}
	sess, err := s.sessionOf(r)
	if err != nil {
		return nil, err
	}
	term, err := s.node.ConfirmLeadership(ctx)
	if err != nil {
		return nil, s.notLeading(err)
	}
	if term != sess.term { // the loop of this term has never heard of the session
		return nil, s.notLeading(job.Errorf(job.CodeNoLeader, "the session belongs to an earlier term; say hello again"))
	}
	if !s.sched.Renew(sess.name, sess.boot) {
		return nil, s.notLeading(job.Errorf(job.CodeNoLeader, "the lease has ended; say hello again"))
	}
	s.sched.Heartbeat(sess.name, hb.Free)
	return rpc.HeartbeatReply{Term: term, NowUS: s.clock.told()}, nil
}

// onGiveBack returns attempts that the worker did not start, or had to end when it
// stopped.
func (s *Server) onGiveBack(ctx context.Context, r *rpc.Request) (any, error) {
	var m rpc.GiveBack
	if err := r.Decode(&m); err != nil {
		return nil, err
	}
	sess, err := s.sessionOf(r)
	if err != nil {
		return nil, err
	}
	cmd := fsm.GiveBack{Reason: m.Reason}
	for _, ref := range m.Refs {
		cmd.Attempts = append(cmd.Attempts, attemptRef(ref))
	}
	s.sched.Room(sess.name, m.Free)
	if _, err := s.proposeHere(ctx, cmd); err != nil {
		return nil, s.notLeading(err)
	}
	return rpc.Empty{}, nil
}

// notLeading adds where the leader is to an error that says this server isn't.
func (s *Server) notLeading(err error) error {
	if !errors.Is(err, job.ErrNoLeader) {
		return err
	}
	out := &rpc.Error{Code: string(job.CodeNoLeader), Text: err.Error()}
	if name, address := s.leader(); name != "" && name != s.cfg.Name {
		out.Leader = address
	}
	return out
}
