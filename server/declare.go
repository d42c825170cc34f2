package server

import (
	"github.com/axd-project/axd/rpc"
	"github.com/axd-project/axd/scheduler"
)

// onDeclare hands what a worker holds to the leader's patrol.
func (s *Server) onDeclare(r *rpc.Request) (any, error) {
	var m rpc.Declare
	if err := r.Decode(&m); err != nil {
		return nil, err
	}
	sess, err := s.sessionOf(r)
	if err != nil {
		return nil, err
	}
	s.sched.Declare(sess.name, sess, heldBy(m.Held))
	return rpc.Empty{}, nil
}

// heldBy reads what a worker declares.
func heldBy(wire []rpc.Held) []scheduler.Held {
	held := make([]scheduler.Held, len(wire))
	for i, h := range wire {
		held[i] = scheduler.Held{AttemptRef: attemptRef(h.Ref), Attempt: h.Ref.Attempt, Finished: h.Finished}
	}
	return held
}
