package server

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/axd-project/axd/fsm"
)

// The rhythm and the bounds of watching the clocks.
const (
	watchInterval  = time.Second      // between looks at this server's own clocks
	clockInterval  = 2 * time.Second  // between surveys of all clocks
	unknownRetry   = time.Second / 4  // as long as no survey told whether this server may stand,
	unknownFor     = 30 * time.Second // for so long
	transferRetry  = 15 * time.Second // after leadership could not be handed over
	holdTimeouts   = 5                // election time-outs without leader after which votes are no longer held back
	skewHysteresis = 0.8              // a clock agrees again below this share of the limit
	// slewLimit is how far behind the state a majority of wall clocks may be and
	// still be followed. Further back they have lost their date.
	slewLimit = 24 * time.Hour
)

// clockFloor is a date that lies in the past: a wall clock before it is one that
// nobody has set.
var clockFloor = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// clockWatch is what watchClock remembers. Only its goroutine uses what no lock
// guards. Its rhythm is Go's own clock's: the ones it watches may stand still.
type clockWatch struct {
	kicks      chan struct{}
	quickUntil time.Time     // surveys are frequent until then, unless one told something
	wall       time.Duration // the wall clock's lead at the last look
	own        time.Time     // when this server's own clocks are looked at again
	survey     time.Time     // when the next one is due
	looked     survey        // the latest one, see reinIn
	transfer   time.Time     // leadership is not handed over again before
	leave      time.Time     // nor since these clocks run fast
	fastUntil  time.Time     // they do, as far as is known
	leaderless time.Time     // since when no leader is known; zero: there is one
	held       bool
	known      bool            // a survey told whether this server may stand
	odd        map[string]bool // whose wall clocks were too far off

	mu      sync.Mutex
	offsets map[string]time.Duration // of the others' wall clocks from this server's
}

// begin must come before anything else is asked of the watch, and before Raft
// can have won an election.
func (w *clockWatch) begin(s *Server) {
	w.kicks = make(chan struct{}, 1)
	w.odd = map[string]bool{}
	w.wall, w.quickUntil = s.clock.wallLead(), time.Now().Add(unknownFor)
	s.noteState()
	s.holdVotes(s.absurd(w.wall))
}

// kick asks for a survey at once.
func (w *clockWatch) kick() {
	select {
	case w.kicks <- struct{}{}:
	default:
	}
}

// ClockOffsets implements api.Backend.
func (s *Server) ClockOffsets() map[string]time.Duration {
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	return s.watch.offsets
}

// watchClock watches this server's clocks and compares them with the others'
// until ctx ends: while it leads it keeps the cluster's clock near theirs, and
// beside them it judges whether it may lead at all.
func (s *Server) watchClock(ctx context.Context) {
	w := &s.watch
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.kicks:
			if s.leading.Load() {
				w.own, w.survey = time.Time{}, time.Time{}
			}
		case <-timer.C:
		}
		if now := time.Now(); !now.Before(w.own) {
			w.own = now.Add(watchInterval)
			s.noteState()
			s.lookAtWall()
		}
		s.lookAtSleep(ctx)
		next := watchInterval
		switch {
		case !time.Now().Before(w.survey):
			s.compareClocks(ctx)
		case s.leading.Load():
			s.lookAround(ctx)
		}
		if s.leading.Load() {
			next = lookInterval
		}
		if !w.known && time.Now().Before(w.quickUntil) {
			next, w.survey = unknownRetry, time.Time{}
		}
		timer.Reset(next)
	}
}

// lookAtWall tells when the wall clock jumped.
func (s *Server) lookAtWall() {
	lead := s.clock.wallLead()
	by := lead - s.watch.wall
	s.watch.wall = lead
	if by.Abs() > clockStep {
		s.watch.survey = time.Time{}
		s.raise(fsm.AlertClockStep, s.cfg.Name, fmt.Sprintf("the wall clock of server %s jumped by %s; what is due is judged "+
			"by the cluster's clock, which does not jump with it", s.cfg.Name, by.Round(time.Millisecond)))
	}
}

// lookAtSleep tells when the machine was suspended. A leader stamps nothing
// until it knows that it leads still, and has asked for the time.
func (s *Server) lookAtSleep(ctx context.Context) {
	slept := s.clock.sleep()
	if slept <= sleepLimit {
		return
	}
	s.raise(fsm.AlertSuspend, s.cfg.Name, fmt.Sprintf("the machine of server %s was suspended for %s",
		s.cfg.Name, slept.Round(time.Millisecond)))
	s.watch.survey = time.Time{}
	if s.leading.Load() {
		ctx, cancel := context.WithTimeout(ctx, stepTimeout)
		defer cancel()
		if _, err := s.node.ConfirmLeadership(ctx); err != nil && s.leading.Load() {
			s.log.Warn("leadership could not be confirmed after a suspend; trying again", "error", err)
			return
		}
		s.compareClocks(ctx)
	}
	s.clock.woken()
}

// compareClocks surveys the clocks and acts on what was found.
func (s *Server) compareClocks(ctx context.Context) {
	w := &s.watch
	leading := s.leading.Load()
	samples := 1
	if leading {
		samples = askSamples
	}
	v, err := s.survey(ctx, samples)
	if err != nil || ctx.Err() != nil {
		return
	}
	w.survey = time.Now().Add(clockInterval)
	w.noteOffsets(v)
	if lead, sure := v.median(); sure {
		s.clock.hear(lead)
	}
	own := v.clocks[0].wall
	absurd := s.absurd(own)
	s.condition(fsm.AlertClockAbsurd, s.cfg.Name, absurd, fmt.Sprintf("the wall clock of server %s says %s, which can't be",
		s.cfg.Name, time.Unix(0, int64(own+v.at)).UTC().Format(time.DateTime)))
	if !leading {
		s.judgeClock(v)
		return
	}
	w.leaderless, w.known = time.Time{}, true
	if fast := s.reinIn(v); fast != "" {
		s.leaveFast(ctx, v, fast)
	}
	s.steer(v)
	s.compareWalls(ctx, v)
}

func (w *clockWatch) noteOffsets(v survey) {
	offsets := map[string]time.Duration{}
	for _, r := range v.clocks[1:] {
		offsets[r.server] = r.wall - v.clocks[0].wall
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.offsets = offsets
}

// agreeOnTime sets the clock for a new term.
func (s *Server) agreeOnTime(ctx context.Context) error {
	info := s.noteState()
	v, err := s.survey(ctx, askSamples)
	if err != nil {
		return err
	}
	s.vouch.surveyed(v.attestation())
	lead, ok := v.beginning(s.clock.lead(info.Clock), s.cfg.MaxClockSkew)
	if !ok {
		return errNoQuorum
	}
	s.clock.woken()
	s.clock.anchor(lead)
	return nil
}

// steer keeps the cluster's clock near the servers' median.
func (s *Server) steer(v survey) {
	vouched, ok := v.vouched()
	if !ok {
		return
	}
	ahead := s.clock.aheadOf(vouched)
	s.condition(fsm.AlertClockSkew, clusterSubject, ahead > s.cfg.MaxClockSkew, fmt.Sprintf("the cluster's clock is %s ahead of what a "+
		"majority of the servers vouches for, since the boot clock of server %s jumped; it loses that at 1.8 s an hour, and until then tasks start "+
		"as much too early", ahead.Round(time.Millisecond), s.cfg.Name))
	lead, sure := v.median()
	if !sure || lead < s.clock.lead(s.info().Clock)-slewLimit {
		return
	}
	if by := s.clock.correct(min(lead, vouched)); by > clockStep {
		s.raise(fsm.AlertClockStep, clusterSubject, fmt.Sprintf("the cluster's clock stepped forward by %s to the servers' median",
			by.Round(time.Millisecond)))
	}
}

// compareWalls alerts about wall clocks that are off, and hands leadership over
// when this server's is. Two that differ are told, no more.
func (s *Server) compareWalls(ctx context.Context, v survey) {
	skewed := false
	for i, r := range v.clocks {
		off, against := v.off(i), "the servers' median"
		if len(v.clocks) < clockVotes {
			if i == 0 {
				continue
			}
			off, against = r.wall-v.clocks[0].wall, "that of server "+s.cfg.Name+"; of two nobody knows which is right"
		}
		odd := s.watch.isOdd(r.server, off, s.cfg.MaxClockSkew)
		if i == 0 {
			skewed = odd || s.watch.fast()
			if !odd && skewed {
				continue // leaveFast has told
			}
		}
		s.condition(fsm.AlertClockSkew, r.server, odd, fmt.Sprintf("the wall clock of server %s is off by %s from %s; "+
			"check that its time is synchronised", r.server, off.Round(time.Millisecond), against))
	}
	s.holdVotes(skewed)
	if skewed && !time.Now().Before(s.watch.transfer) {
		s.handOver(ctx, v)
	}
}

// isOdd reports whether a clock is too far off. One that was is so until it is
// clearly no longer.
func (w *clockWatch) isOdd(server string, off, limit time.Duration) bool {
	if w.odd[server] {
		limit = time.Duration(float64(limit) * skewHysteresis)
	}
	w.odd[server] = off.Abs() > limit
	return w.odd[server]
}

// handOver gives leadership to the server whose clock is nearest the median. If
// that fails this server goes on: the cluster's clock is right all the same.
func (s *Server) handOver(ctx context.Context, v survey) (done bool) {
	s.watch.transfer = time.Now().Add(transferRetry)
	to := v.nearest()
	s.log.Warn("handing leadership over, since the clock is wrong", "to", to, "off", v.off(0))
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	if err := s.node.Transfer(ctx, to); err != nil {
		s.log.Warn("handing leadership over failed; this server goes on leading by the servers' median", "error", err)
		return false
	}
	return true
}

// fast reports whether this server's clocks were found to run fast just now.
func (w *clockWatch) fast() bool { return time.Now().Before(w.fastUntil) }

// judgeClock decides whether a server that doesn't lead may stand for election.
func (s *Server) judgeClock(v survey) {
	w := &s.watch
	hold, known := v.mayNotLead(s.cfg.MaxClockSkew, s.absurd)
	if known {
		w.known = true
	} else {
		hold = w.held
	}
	hold = hold || w.fast()
	now := time.Now()
	switch name, _ := s.node.Leader(); {
	case name != "":
		w.leaderless = time.Time{}
	case w.leaderless.IsZero():
		w.leaderless = now
	case now.Sub(w.leaderless) > holdTimeouts*s.cfg.electionTimeout():
		hold = false // better a leader with a wrong date than none
	}
	s.holdVotes(hold)
}

// holdVotes keeps this server from standing for election, or lets it again.
func (s *Server) holdVotes(on bool) {
	if s.watch.held == on {
		return
	}
	s.watch.held = on
	s.node.HoldVotes(on)
	if on {
		s.log.Warn("this server does not stand for election until its clock agrees with the others'")
	} else {
		s.log.Info("this server stands for election again")
	}
}

func (s *Server) absurd(wall time.Duration) bool {
	return s.clock.absurd(wall, s.info(), s.cfg.MaxClockSkew)
}

// absurd reports whether a wall clock's lead can't be right: before this program
// was written, or behind what a majority has attested. The state may have seen a
// later time, of leaders whose clocks ran fast.
func (c *clock) absurd(wall time.Duration, info fsm.Info, limit time.Duration) bool {
	return wall < c.lead(clockFloor.UnixMilli()) || wall < c.lead(info.Attested)-limit
}

// off is how far a wall clock is from the median.
func (v survey) off(i int) time.Duration {
	lead, _ := v.median()
	return v.clocks[i].wall - lead
}

// nearest names the other server whose wall clock is nearest the median.
func (v survey) nearest() string {
	best := 1
	for i := 2; i < len(v.clocks); i++ {
		if v.off(i).Abs() < v.off(best).Abs() {
			best = i
		}
	}
	return v.clocks[best].server
}

// mayNotLead reports whether the server that made the survey must leave
// leadership to others, where the answers tell. Three clocks do: who is far from
// their median must not lead. Of two that differ only an absurd one is known not
// to; and where there are no more than two voters, both may.
func (v survey) mayNotLead(limit time.Duration, absurd func(time.Duration) bool) (hold, known bool) {
	switch {
	case v.voters == 0:
		return false, false
	case v.voters < clockVotes:
		return false, true
	case len(v.clocks) >= clockVotes:
		return v.off(0).Abs() > limit, true
	case len(v.clocks) < 2:
		return false, false
	}
	own, other := v.clocks[0].wall, v.clocks[1].wall
	switch {
	case (own-other).Abs() <= limit || !absurd(own) && absurd(other):
		return false, true
	case absurd(own) && !absurd(other):
		return true, true
	}
	return false, false
}
