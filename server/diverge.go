package server

import (
	"context"
	"fmt"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/raftnode"
	"github.com/axd-project/axd/rpc"
)

const compareInterval = 20 * time.Second

// compareSums compares this server's hash chain with the others' until ctx
// ends. All keep the chain that the newest checksum entry found, so servers
// compare the same moment although they are at different entries.
func (s *Server) compareSums(ctx context.Context) {
	tick := time.NewTicker(compareInterval)
	defer tick.Stop()
	var compared uint64
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		own := s.info()
		if own.SumIndex == compared {
			continue
		}
		others := s.askSums(ctx, own.SumIndex)
		if len(others) == 0 {
			continue
		}
		compared = own.SumIndex
		if err := s.judge(own.SumIndex, own.SumChain, others); err != nil {
			s.fatal(raftnode.ExitDiverged, err)
			return
		}
	}
}

// askSums returns the chains of the other servers that are at the same checksum.
func (s *Server) askSums(ctx context.Context, index uint64) map[string]uint64 {
	servers, err := s.node.Servers()
	if err != nil || index == 0 {
		return nil
	}
	out := map[string]uint64{}
	for _, srv := range servers {
		if srv.Name == s.cfg.Name {
			continue
		}
		var reply rpc.SumReply
		ask, cancel := context.WithTimeout(ctx, askTimeout)
		err := s.peers.Call(ask, s.address(srv.Name, srv.Address), rpc.MethodSum, rpc.Empty{}, &reply)
		cancel()
		if err == nil && reply.Index == index {
			out[srv.Name] = reply.Chain
		}
	}
	return out
}

// judge returns why this server must end: two others agree against it, and more
// than agree with it. A mere difference is told and left to people, since either
// side may be right.
func (s *Server) judge(index, own uint64, others map[string]uint64) error {
	votes := map[uint64]int{own: 1}
	for name, chain := range others {
		votes[chain]++
		if chain != own {
			s.log.Error("two servers hold different states", "other", name, "index", index,
				"own_chain", fmt.Sprintf("%016x", own), "other_chain", fmt.Sprintf("%016x", chain))
			s.raise(fsm.AlertDiverged, name, fmt.Sprintf("servers %s and %s hold different states at log index %d",
				s.cfg.Name, name, index))
		}
	}
	for chain, n := range votes {
		if chain != own && n >= 2 && n > votes[own] {
			return fmt.Errorf("the state at log index %d differs from that of %d other servers (%016x, they hold %016x); "+
				"stop this server, empty its data directory %s and start it again: it joins anew and gets the state from "+
				"the leader", index, n, own, chain, s.cfg.DataDir)
		}
	}
	return nil
}
