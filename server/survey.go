package server

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/rpc"
)

const (
	askTimeout  = time.Second // for asking one server
	askSamples  = 3           // questions to a server, of which the fastest answer counts
	clockVotes  = 3           // clocks that can overrule one: of two that differ nobody knows which
	attestAfter = 10_000      // ms; a stamp so far beyond what is attested brings an attestation along
)

// reading is what a voter says of the time.
type reading struct {
	server  string
	wall    time.Duration // its wall clock's lead, see clock
	vouched time.Duration // the lead of the latest time that it vouches for
	trip    time.Duration // that the question took: what is said is off by no more
}

// survey is what the voters said of the time when they were asked; the first
// one is this server. Who did not answer is missing.
type survey struct {
	at     time.Duration // mono
	voters int
	clocks []reading
}

// survey asks the voters for their clocks. Each is asked so many times.
func (s *Server) survey(ctx context.Context, samples int) (survey, error) {
	servers, err := s.node.Servers()
	if err != nil {
		return survey{}, err
	}
	own := reading{server: s.cfg.Name, wall: s.clock.wallLead()}
	own.vouched = max(own.wall, s.vouch.lead())
	out := survey{at: s.clock.mono(), clocks: []reading{own}}
	answers := make(chan *reading, len(servers))
	asked := 0
	for _, srv := range servers {
		if !srv.Voter {
			continue
		}
		out.voters++
		if srv.Name == s.cfg.Name {
			continue
		}
		asked++
		go func() { answers <- s.readPeer(ctx, srv.Name, srv.Address, samples) }()
	}
	for range asked {
		if r := <-answers; r != nil {
			out.clocks = append(out.clocks, *r)
		}
	}
	slices.SortFunc(out.clocks[1:], func(a, b reading) int { return strings.Compare(a.server, b.server) })
	return out, nil
}

// readPeer asks a server for its clocks; nil where it doesn't answer. Of several
// answers the fastest counts. A distance that the round trip can explain is
// taken for none, so that servers of one machine agree to the microsecond.
func (s *Server) readPeer(ctx context.Context, name, address string, samples int) *reading {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var out *reading
	var best time.Duration
	for range samples {
		own, sent := s.clock.wallLead(), s.clock.mono()
		var reply rpc.ClockReply
		if err := s.peers.Call(ctx, s.address(name, address), rpc.MethodClock, rpc.Empty{}, &reply); err != nil {
			s.log.Debug("asking a server for its clock failed", "server", name, "error", err)
			return out
		}
		trip := s.clock.mono() - sent
		if out != nil && trip >= best {
			continue
		}
		best = trip
		halfway := sent + trip/2
		out = &reading{
			server:  name,
			wall:    explained(time.Duration(reply.WallUS)*time.Microsecond-halfway, own, trip),
			vouched: explained(time.Duration(reply.VouchedUS)*time.Microsecond-halfway, own, trip),
			trip:    trip,
		}
	}
	return out
}

// explained moves a lead towards this server's own as far as the round trip
// leaves it open.
func explained(lead, own, trip time.Duration) time.Duration {
	open := trip/2 + time.Microsecond // the unit of what was said
	return lead - max(min(lead-own, open), -open)
}

// clockReply is what this server says of the time.
func (s *Server) clockReply() rpc.ClockReply {
	wall, mono := s.clock.wallLead(), s.clock.mono()
	return rpc.ClockReply{
		WallUS:    (wall + mono).Microseconds(),
		VouchedUS: (max(wall, s.vouch.lead()) + mono).Microseconds(),
	}
}

// median returns the middle of the wall clocks, of an even number the one
// nearer to this server's, so that of two the leader is followed. sure tells
// that they are enough to overrule one that is wrong.
func (v survey) median() (lead time.Duration, sure bool) {
	own := v.clocks[0].wall
	walls := make([]time.Duration, len(v.clocks))
	for i, r := range v.clocks {
		walls[i] = r.wall
	}
	slices.Sort(walls)
	lead = walls[len(walls)/2]
	if low := walls[(len(walls)-1)/2]; (low - own).Abs() < (lead - own).Abs() {
		lead = low
	}
	return lead, len(walls) >= min(v.voters, clockVotes)
}

// vouched returns the latest time that a majority of the voters vouches for.
func (v survey) vouched() (lead time.Duration, ok bool) {
	leads := make([]time.Duration, len(v.clocks))
	for i, r := range v.clocks {
		leads[i] = r.vouched
	}
	slices.SortFunc(leads, func(a, b time.Duration) int { return cmp.Compare(b, a) })
	quorum := v.voters/2 + 1
	if len(leads) < quorum {
		return 0, false
	}
	return leads[quorum-1], true
}

// attestation tells the state machine what the survey found.
func (v survey) attestation() *fsm.Attestation {
	a := &fsm.Attestation{Voters: v.voters}
	for _, r := range v.clocks {
		a.Clocks = append(a.Clocks, fsm.ClockReading{Server: r.server, At: (r.vouched + v.at).Milliseconds()})
	}
	return a
}

// vouch is what this server vouches for beside its wall clock: a time that a
// majority attested, and what has passed since by mono. So a wall clock that
// stands or fell back to 1970 doesn't hold the cluster up.
type vouch struct {
	mu       sync.Mutex
	attested int64 // in state as far as it was looked at, Unix ms
	base     time.Duration
	known    bool
	latest   *fsm.Attestation
	until    int64 // Unix ms that latest vouches for
}

const noLead = time.Duration(-1 << 62)

func (v *vouch) lead() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.known {
		return noLead
	}
	return v.base
}

// seen notes what the state holds for attested, as a lead too.
func (v *vouch) seen(attested int64, lead time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.attested = attested
	if attested != 0 && (!v.known || lead > v.base) {
		v.base, v.known = lead, true
	}
}

// surveyed keeps what the next entry that needs it is sent with.
func (v *vouch) surveyed(a *fsm.Attestation) {
	until, ok := a.Vouched()
	if !ok {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.latest, v.until = a, until
}

// needed reports whether a stamp lies so far beyond what the state holds that
// an attestation goes with it.
func (v *vouch) needed(at int64) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return at > v.attested+attestAfter
}

// allows reports whether the state will take the stamp.
func (v *vouch) allows(at int64) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return at <= max(v.attested, v.until)+fsm.MaxForward
}

// noteState looks at what the state says of the time.
func (s *Server) noteState() fsm.Info {
	info := s.info()
	s.vouch.seen(info.Attested, s.clock.lead(info.Attested))
	return info
}

// stamp implements raftnode.Config.Now: the cluster's time, or 0 where an entry
// would be refused.
func (s *Server) stamp() int64 {
	at := s.clock.stamp()
	if at != 0 && s.vouch.needed(at) {
		s.noteState() // the newest attestation may be there by now
	}
	if at == 0 || !s.vouch.allows(at) {
		s.watch.kick()
		return 0
	}
	return at
}

// attest implements raftnode.Config.Attest.
func (s *Server) attest(at int64) *fsm.Attestation {
	if !s.vouch.needed(at) {
		return nil
	}
	s.vouch.mu.Lock()
	defer s.vouch.mu.Unlock()
	return s.vouch.latest
}

// onRestored is called after the whole state was replaced.
func (s *Server) onRestored() {
	s.noteState()
	s.sched.Reset()
}
