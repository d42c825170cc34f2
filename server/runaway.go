package server

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/axd-project/axd/fsm"
)

// How a leader finds that its own clocks run fast. It is ahead by no more than
// what they gain between two looks, and the share of the allowed skew below which
// one is not set back.
const (
	lookInterval = time.Second / 4       // between looks at the others' clocks, while this server leads
	lookTimeout  = time.Second / 4       // for each
	lookMemory   = 4 * time.Second       // a look is not compared with an older one
	rateMargin   = 50 * time.Millisecond // gained on the others between two looks: no clock that is right does
	leaveRetry   = 2 * time.Second       // after leadership could not be handed over
	fastMemory   = 2 * clockInterval     // by then a wall clock that runs fast is off
)

// agreed reports whether the wall clocks of a majority of the voters agree with a
// lead. With fewer than three voters nobody knows which is right.
func (v survey) agreed(lead, limit time.Duration) bool {
	n := 0
	for _, r := range v.clocks {
		if (r.wall - lead).Abs() <= limit {
			n++
		}
	}
	return v.voters >= clockVotes && n > v.voters/2
}

// beginning is the lead at which the clock of a new term starts; false: too few
// have answered. It is the median of the wall clocks, unless a majority doesn't
// vouch for so late a time. The state may have seen a later one, of leaders whose
// clocks ran fast: it is gone on from only where no majority of wall clocks says
// otherwise, as when they have lost their date. Else each such leader would carry the
// cluster further ahead.
func (v survey) beginning(seen, limit time.Duration) (lead time.Duration, ok bool) {
	vouched, ok := v.vouched()
	if !ok {
		return 0, false
	}
	lead, _ = v.median()
	if lead > vouched || lead < vouched-limit {
		lead = vouched
	}
	if !v.agreed(lead, limit) {
		lead = max(lead, seen)
	}
	return lead, true
}

// gained is how much this server's monotonic clock has gained on a majority of
// the voters since an earlier survey: at least so much, however long the questions
// took. The latest time that a majority vouches for goes on by their clocks, over
// steps of their dates too, so its lead falls only if this server's clock runs
// fast. Where the surveys can't be compared it is 0.
func (v survey) gained(since survey) time.Duration {
	same := slices.EqualFunc(v.clocks, since.clocks, func(a, b reading) bool { return a.server == b.server })
	before, _ := since.vouched()
	after, ok := v.vouched()
	if !ok || !same || len(v.clocks) < clockVotes || v.at-since.at > lookMemory {
		return 0
	}
	return max(before-after-v.trip()-since.trip(), 0)
}

// trip is how long the slowest question took.
func (v survey) trip() (longest time.Duration) {
	for _, r := range v.clocks {
		longest = max(longest, r.trip)
	}
	return longest
}

// lookAround compares the clocks between two surveys, only to find out early that
// this leader's run fast.
func (s *Server) lookAround(ctx context.Context) {
	asking, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	v, err := s.survey(asking, 1)
	if err != nil || ctx.Err() != nil || !s.leading.Load() {
		return
	}
	if fast := s.reinIn(v); fast != "" {
		s.leaveFast(ctx, v, fast)
	}
}

// allowance is how far ahead of what a majority vouches for the clock may be before it
// is set back. Where three clocks know who is right it is little, and nothing where this
// server's were seen to gain since the last survey; then gained is by how much.
func (v survey) allowance(last survey, limit time.Duration) (than, gained time.Duration, sure bool) {
	vouched, _ := v.vouched()
	if len(v.clocks) < clockVotes || !v.agreed(vouched, limit) {
		return clockRunaway, 0, false
	}
	if gained = v.gained(last); gained > rateMargin {
		return 0, gained, true
	}
	return max(limit/2, rateMargin) + v.trip(), 0, true // the answers may be off by so much
}

// reinIn sets the cluster's clock back where it has run ahead of what a majority
// vouches for, and tells how this leader's clocks were found to run fast; empty:
// they were not.
func (s *Server) reinIn(v survey) (fast string) {
	last := s.watch.looked
	s.watch.looked = v
	vouched, ok := v.vouched()
	if !ok {
		return ""
	}
	s.vouch.surveyed(v.attestation())
	than, gained, sure := v.allowance(last, s.cfg.MaxClockSkew)
	by := -s.clock.setBack(vouched, than)
	if by > 0 {
		s.raise(fsm.AlertClockStep, clusterSubject, fmt.Sprintf("the cluster's clock had run ahead by %s on server %s and was set back; "+
			"what was due in that time may have started as much too early", by.Round(time.Millisecond), s.cfg.Name))
		s.sched.Reset()       // it has advanced beyond now
		s.sessions.closeAll() // workers believe that the clock never goes back within a session
	}
	switch {
	case !sure, s.clock.sleep() > sleepLimit: // that the machine is wrong on how long it slept is told
		return ""
	case gained > 0:
		return fmt.Sprintf("they have gained %s on the others' in %s", gained.Round(time.Millisecond), (v.at - last.at).Round(time.Millisecond))
	case by > 0:
		return fmt.Sprintf("they have gained %s on the others'", by.Round(time.Millisecond))
	}
	return ""
}

// leaveFast hands leadership over, since this server's clocks run fast. Until
// another leads, or that has failed, nothing goes by them.
func (s *Server) leaveFast(ctx context.Context, v survey, how string) {
	w, now := &s.watch, time.Now()
	s.condition(fsm.AlertClockSkew, s.cfg.Name, true, fmt.Sprintf("the clocks of server %s run fast: %s", s.cfg.Name, how))
	s.holdVotes(true)
	w.fastUntil = now.Add(fastMemory)
	if now.Before(w.leave) {
		return
	}
	s.clock.halt(true) // the next term sets it anew
	if !s.handOver(ctx, v) {
		s.clock.halt(false)
	}
	w.leave = time.Now().Add(leaveRetry)
}
