package server

import (
	"context"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/rpc"
)

// onDone answers an attempt that asks what its task has recorded as done, or records
// it. What it is told holds at a moment after it asked.
func (s *Server) onDone(ctx context.Context, r *rpc.Request) (any, error) {
	var m rpc.Done
	if err := r.Decode(&m); err != nil {
		return nil, err
	}
	if _, err := s.sessionOf(r); err != nil {
		return nil, err
	}
	ref := attemptRef(m.Ref)
	if !m.Record {
		return s.askDone(ctx, ref, m.Name)
	}
	res, err := s.proposeHere(ctx, fsm.RecordDone{AttemptRef: ref, Name: m.Name, Value: m.Value})
	switch {
	case err != nil:
		return nil, s.notLeading(err)
	case res.Err != nil:
		return nil, res.Err
	}
	return doneReply(res.Done), nil
}

func (s *Server) askDone(ctx context.Context, ref fsm.AttemptRef, name string) (any, error) {
	if err := s.node.ReadBarrier(ctx); err != nil {
		return nil, s.notLeading(err)
	}
	v := s.node.View()
	defer v.Close()
	d, err := fsm.CheckDone(v, ref, name)
	if err != nil {
		return nil, err
	}
	return doneReply(d), nil
}

func doneReply(d *fsm.Done) rpc.DoneReply {
	if d == nil {
		return rpc.DoneReply{}
	}
	return rpc.DoneReply{Done: true, Value: d.Value, Attempt: d.Attempt}
}
