package server

import (
	"context"
	"fmt"
	"strings"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/axd-project/axd/api"
	"github.com/axd-project/axd/cluster"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
)

// Explain implements api.Backend. It asks once: where no leader answers, that is
// the first reason.
func (s *Server) Explain(ctx context.Context, ref fsm.TaskRef) (api.Explained, error) {
	name, address := s.leader()
	switch name {
	case "":
		return api.Explained{}, s.leaderless()
	case s.cfg.Name:
		return s.explainHere(ctx, ref)
	}
	var reply rpc.ExplainReply
	if err := s.peers.Call(ctx, address, rpc.MethodExplain, rpc.Explain{Namespace: ref.Namespace, ID: ref.ID}, &reply); err != nil {
		return api.Explained{}, forwardError(err)
	}
	out := api.Explained{Version: reply.Version}
	if err := msgpack.Unmarshal(reply.Reasons, &out.Reasons); err != nil {
		return out, fmt.Errorf("read the leader's reasons: %w", err)
	}
	return out, nil
}

// explainHere answers from this server's memory, which must lead.
func (s *Server) explainHere(ctx context.Context, ref fsm.TaskRef) (api.Explained, error) {
	e, err := s.sched.Explain(ctx, ref)
	if err != nil {
		return api.Explained{}, err
	}
	if s.diskFull.Load() {
		e.Reasons = append(e.Reasons, job.Reason{
			Code: job.ReasonDiskFull,
			Text: "The disk of the leader, " + s.cfg.Name + ", is nearly full: new tasks are refused. Those that were accepted go on.",
			Next: "Free some space on that disk, or shorten --retention.",
		})
	}
	return api.Explained{Version: e.Version, Reasons: e.Reasons}, nil
}

func (s *Server) onExplain(ctx context.Context, r *rpc.Request) (any, error) {
	var m rpc.Explain
	if err := r.Decode(&m); err != nil {
		return nil, err
	}
	e, err := s.explainHere(ctx, fsm.TaskRef{Namespace: m.Namespace, ID: m.ID})
	if err != nil {
		return nil, s.notLeading(err)
	}
	reasons, err := msgpack.Marshal(e.Reasons)
	if err != nil {
		return nil, err
	}
	return rpc.ExplainReply{Version: e.Version, Reasons: reasons}, nil
}

// leaderless says why no server leads, as far as gossip tells: with too few voters
// alive none can.
func (s *Server) leaderless() error {
	servers, err := s.node.Servers()
	if err != nil {
		return errNoLeader
	}
	voters := 0
	var silent []string
	for _, srv := range servers {
		if !srv.Voter {
			continue
		}
		voters++
		if m, ok := s.gossip.Member(cluster.RoleServer, srv.Name); srv.Name != s.cfg.Name && (!ok || m.Liveness != cluster.Alive) {
			silent = append(silent, srv.Name)
		}
	}
	if voters-len(silent) > voters/2 {
		return errNoLeader
	}
	return api.NoQuorum(fmt.Sprintf("%d of %d voting servers answer, which is no quorum: %s can't be reached",
		voters-len(silent), voters, strings.Join(silent, ", ")))
}
