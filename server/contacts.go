package server

import (
	"context"
	"time"

	"github.com/axd-project/axd/cluster"
	"github.com/axd-project/axd/rpc"
	"github.com/axd-project/axd/scheduler"
)

// contactTime is how long the leader may take to say which workers it hears of. A
// list of workers is wanted most where something is wrong, so it doesn't wait long.
const contactTime = 500 * time.Millisecond

// Liveness implements api.Backend. The leader notices first: it holds the workers'
// sessions, while gossip takes seconds to call one suspect. Gossip tells what the
// leader doesn't know: who said goodbye, and all of it where no leader answers.
func (s *Server) Liveness(ctx context.Context) func(worker string) (string, time.Time) {
	known, err := s.contacts(ctx)
	if err != nil {
		s.log.Debug("the leader did not say which workers it hears of", "error", err)
	}
	now := time.Now()
	return func(worker string) (string, time.Time) {
		state, seen := s.heardOf(worker)
		c, ok := known[worker]
		if !ok || state == "stopped" {
			return state, seen
		}
		if heard := now.Add(-c.Silent); heard.After(seen) {
			seen = heard
		}
		if c.Suspect {
			return string(cluster.Suspect), seen
		}
		return string(cluster.Alive), seen
	}
}

// heardOf is gossip's opinion of a worker.
func (s *Server) heardOf(worker string) (string, time.Time) {
	m, ok := s.gossip.Member(cluster.RoleWorker, worker)
	if !ok {
		return "lost", time.Time{}
	}
	return liveness(m), m.Seen
}

// contacts asks the leader once.
func (s *Server) contacts(ctx context.Context) (map[string]scheduler.Contact, error) {
	ctx, cancel := context.WithTimeout(ctx, contactTime)
	defer cancel()
	name, address := s.leader()
	switch name {
	case "":
		return nil, errNoLeader
	case s.cfg.Name:
		return s.sched.Contacts(ctx)
	}
	var reply rpc.ContactsReply
	if err := s.peers.Call(ctx, address, rpc.MethodContacts, rpc.Empty{}, &reply); err != nil {
		return nil, forwardError(err)
	}
	out := make(map[string]scheduler.Contact, len(reply.Workers))
	for _, c := range reply.Workers {
		out[c.Name] = scheduler.Contact{Silent: time.Duration(c.SilentMS) * time.Millisecond, Suspect: c.Suspect}
	}
	return out, nil
}

func (s *Server) onContacts(ctx context.Context) (any, error) {
	known, err := s.sched.Contacts(ctx)
	if err != nil {
		return nil, s.notLeading(err)
	}
	reply := rpc.ContactsReply{Workers: make([]rpc.Contact, 0, len(known))}
	for name, c := range known {
		reply.Workers = append(reply.Workers, rpc.Contact{Name: name, SilentMS: c.Silent.Milliseconds(), Suspect: c.Suspect})
	}
	return reply, nil
}
