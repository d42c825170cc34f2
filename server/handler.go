package server

import (
	"context"
	"errors"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
)

// handle answers the requests of servers and workers.
func (s *Server) handle(ctx context.Context, r *rpc.Request) (any, error) {
	if err := mayCall(r.Method, r.Conn.Peer()); err != nil {
		return nil, err
	}
	switch r.Method {
	case rpc.MethodWorkerHello:
		return s.onHello(ctx, r)
	case rpc.MethodWorkerHeartbeat:
		return s.onHeartbeat(ctx, r)
	case rpc.MethodWorkerStarted:
		return s.onStarted(r)
	case rpc.MethodWorkerFinished:
		return s.onFinished(ctx, r)
	case rpc.MethodWorkerGiveBack:
		return s.onGiveBack(ctx, r)
	case rpc.MethodWorkerDeclare:
		return s.onDeclare(r)
	case rpc.MethodWorkerDone:
		return s.onDone(ctx, r)
	case rpc.MethodPropose:
		return s.onPropose(ctx, r)
	case rpc.MethodReadIndex:
		return s.onReadIndex(ctx, r)
	case rpc.MethodTerm:
		if !s.gate.isOpen() { // its data is gone, and with it the terms it has voted in
			return nil, job.Errorf(job.CodeNoLeader, "this server is no member of the cluster yet")
		}
		return rpc.TermReply{Term: s.node.Term()}, nil
	case rpc.MethodClock:
		return s.clockReply(), nil
	case rpc.MethodSum:
		info := s.info()
		return rpc.SumReply{Index: info.SumIndex, Chain: info.SumChain}, nil
	case rpc.MethodLeader:
		name, address := s.leader()
		return rpc.LeaderReply{Name: name, Address: address}, nil
	case rpc.MethodJoin:
		return s.onJoin(ctx, r)
	case rpc.MethodForm:
		return s.onForm(r)
	case rpc.MethodTail:
		return nil, s.onTail(ctx, r)
	case rpc.MethodExplain:
		return s.onExplain(ctx, r)
	case rpc.MethodContacts:
		return s.onContacts(ctx)
	case rpc.MethodAdd:
		return s.onAdd(ctx, r)
	case rpc.MethodBelong:
		return s.onBelong(r)
	case rpc.MethodRemove:
		return s.onRemove(ctx, r)
	case rpc.MethodTransfer:
		return s.onTransfer(ctx, r)
	case rpc.MethodStatus:
		return s.status(), nil
	case rpc.MethodRestore:
		return s.onRestore(ctx, r)
	case rpc.MethodArchive:
		return nil, s.onArchive(r)
	}
	return nil, job.Errorf(job.CodeUnsupported, "this server does not know the method "+r.Method+
		"; it may run an older axd")
}

// hello is what this server says of itself when a connection opens.
func (s *Server) hello() rpc.Hello {
	return rpc.Hello{
		ClusterID: s.clusterID(), Role: rpc.RoleServer, Name: s.cfg.Name, Boot: s.boot,
		Version: s.cfg.Version,
	}
}

// encodeError carries a job.Error to the peer with its parts.
func encodeError(err error) *rpc.Error {
	var wire *rpc.Error
	if errors.As(err, &wire) {
		return wire
	}
	if e := new(job.Error); errors.As(err, &e) {
		return &rpc.Error{Code: string(e.Code), Text: e.Rule, Field: e.Field, Value: e.Value}
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &rpc.Error{Code: string(job.CodeTimeout), Text: err.Error()}
	}
	return &rpc.Error{Code: string(job.CodeInternal), Text: err.Error()}
}

// onTail streams an attempt's output from the worker's session to another server.
func (s *Server) onTail(ctx context.Context, r *rpc.Request) error {
	var m rpc.Follow
	if err := r.Decode(&m); err != nil {
		return err
	}
	ref := fsm.TaskRef{Namespace: m.Ref.Namespace, ID: m.Ref.ID}
	return s.followHere(ctx, ref, func(out rpc.Output) error { return r.Send(out) })
}

// followHere streams from the worker that is connected to this server; the worker
// ends the stream once the attempt's end is in state, and has the output of an
// ended attempt for a moment. A task without either has nothing to follow.
func (s *Server) followHere(ctx context.Context, ref fsm.TaskRef, each func(rpc.Output) error) error {
	t, err := s.localTask(ref)
	if err != nil {
		return err
	}
	token, sess := t.Token, s.sessions.byName(t.Worker)
	if !t.State.Active() {
		if token = t.LastToken; t.Attempt == 0 || !t.State.Terminal() || sess == nil {
			return nil
		}
	}
	if sess == nil {
		return job.Conflict("worker", "is not connected at the moment; try again", t.Worker)
	}
	follow := rpc.Follow{Ref: wireRef(fsm.AttemptRef{Ref: ref, Token: token}, t.Attempt)}
	err = sess.conn.Stream(ctx, rpc.MethodFollow, follow, func(decode func(any) error) error {
		var out rpc.Output
		if err := decode(&out); err != nil {
			return err
		}
		return each(out)
	})
	if err != nil {
		return forwardError(err)
	}
	return nil
}

func (s *Server) localTask(ref fsm.TaskRef) (fsm.Task, error) {
	v := s.node.View()
	defer v.Close()
	t, ok := fsm.GetTask(v, ref)
	if !ok {
		return t, job.NotFound("id", ref.ID.String())
	}
	return t, nil
}
