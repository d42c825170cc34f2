package server

import (
	"context"
	"maps"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
	"github.com/axd-project/axd/scheduler"
)

// The limits of what is assigned as it is submitted.
const (
	maxNow      = 1000    // tasks of one submit
	maxNowKinds = 8       // kinds of them, by what they need of a worker
	maxNowBytes = 1 << 20 // of the submit's encoding
)

// wantedNow says what those tasks of a submit need that may start at once, so that
// the leader can place them without decoding the command.
func wantedNow(c fsm.Command, now int64) []rpc.Wanted {
	submit, ok := c.(fsm.Submit)
	if !ok {
		return nil
	}
	var wanted []rpc.Wanted
	n := 0
	for i := range submit.Tasks {
		t := &submit.Tasks[i]
		if t.Delay > 0 || t.Due > now || n == maxNow || t.Route != nil || t.Concurrency != nil || t.Rate != nil {
			continue
		}
		n++
		w := wantedKind(&wanted, submit.Namespace, t)
		if w != nil {
			w.Tasks = append(w.Tasks, i)
		}
	}
	return wanted
}

// wantedKind finds or adds the kind of a task; nil: there are too many.
func wantedKind(wanted *[]rpc.Wanted, namespace string, t *job.TaskSpec) *rpc.Wanted {
	offer := t.Offer()
	for i := range *wanted {
		w := &(*wanted)[i]
		if w.Job == t.Job && w.Offer == offer && w.Priority == uint8(t.Priority) && maps.Equal(w.Selector, t.Selector) {
			return w
		}
	}
	if len(*wanted) == maxNowKinds {
		return nil
	}
	*wanted = append(*wanted, rpc.Wanted{
		Namespace: namespace, Job: t.Job, Offer: offer, Selector: t.Selector, Priority: uint8(t.Priority),
	})
	return &(*wanted)[len(*wanted)-1]
}

// proposePlaced commits a command on this server, which must lead. Where it is a
// submit whose tasks find free slots, the same entry assigns them.
func (s *Server) proposePlaced(ctx context.Context, command []byte, now []rpc.Wanted) (fsm.Result, error) {
	if len(now) == 0 || len(now) > maxNowKinds || len(command) > maxNowBytes {
		return s.node.Propose(ctx, command)
	}
	wanted := make([]scheduler.Wanted, len(now))
	for i, w := range now {
		wanted[i] = scheduler.Wanted{
			Namespace: w.Namespace, Job: w.Job, Offer: w.Offer, Selector: w.Selector, Priority: job.Priority(w.Priority), Tasks: w.Tasks,
		}
	}
	placed := s.sched.Place(wanted)
	if placed == nil {
		return s.node.Propose(ctx, command)
	}
	defer s.sched.Release(placed)
	b, err := fsm.EncodeCommand(placed.Command(command))
	if err != nil {
		return fsm.Result{}, err
	}
	return s.node.Propose(ctx, b)
}
