package server

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/internal/mutant"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/raftnode"
)

const (
	establishRetry  = 500 * time.Millisecond // between tries to begin a term's work
	promoteInterval = time.Second
	promoteAfter    = 3 * time.Second // of being caught up
	checksumPeriod  = time.Minute
	stepTimeout     = 5 * time.Second // for one administrative step
)

// followTerms runs the leader's work while this server leads: one round per
// term, ended before the next begins.
func (s *Server) followTerms(ctx context.Context, terms <-chan raftnode.Term, lead func(ctx context.Context, term uint64)) {
	stop := func() {}
	defer func() { stop() }()
	var now raftnode.Term
	for {
		select {
		case <-ctx.Done():
			return
		case t, ok := <-terms:
			if !ok {
				return
			}
			now = t
			stop()
		case p := <-s.pauses:
			stop()
			close(p.stopped)
			select {
			case <-p.resume:
			case <-ctx.Done():
				return
			}
		}
		stop = func() {}
		if now.Leading {
			stop = startTerm(ctx, now.Number, lead)
		}
	}
}

// pause asks for the term's work to be ended, and begun anew on resume.
type pause struct {
	stopped chan struct{} // closed when nothing of it runs
	resume  chan struct{} // closed by who asked
}

// pauseTerm ends the term's work until resume is called.
func (s *Server) pauseTerm(ctx context.Context) (resume func(), err error) {
	p := pause{make(chan struct{}), make(chan struct{})}
	select {
	case s.pauses <- p:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	<-p.stopped
	return func() { close(p.resume) }, nil
}

// startTerm runs lead on its own goroutine and returns how to end it.
func startTerm(ctx context.Context, term uint64, lead func(ctx context.Context, term uint64)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		lead(ctx, term)
	}()
	return func() {
		cancel()
		<-done
	}
}

// lead does a term's work until ctx ends: barrier, clock, identity, then the
// scheduler's loop beside the cluster's housekeeping.
func (s *Server) lead(ctx context.Context, term uint64) {
	log := s.log.With("term", term)
	for {
		err := s.establish(ctx)
		if err == nil {
			break
		}
		log.Warn("taking over leadership failed; trying again", "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(establishRetry):
		}
	}
	log.Info("leading")
	s.leading.Store(true)
	s.watch.kick() // may this server lead?
	var beside sync.WaitGroup
	beside.Go(func() { s.keepHouse(ctx) })
	beside.Go(func() { s.callbacks.Run(ctx, outbox{s, term}) })
	beside.Go(func() { s.lists.Run(ctx, listsOwed{s, term}) })
	s.sched.Run(ctx, term)
	s.leading.Store(false)
	beside.Wait()
	s.clock.release()
	if !mutant.SessionsKept {
		s.sessions.closeAll()
	}
	log.Info("no longer leading")
}

// establish makes a new leader ready: all that was committed is applied, the
// clock is agreed with a quorum, and the cluster has its id.
func (s *Server) establish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	if mutant.NoBarrier {
		return s.agreeOnTime(ctx)
	}
	if err := s.node.Barrier(ctx); err != nil {
		return err
	}
	if err := s.agreeOnTime(ctx); err != nil {
		return err
	}
	if s.info().ClusterID != "" {
		return nil
	}
	id := s.clusterID() // as promised when the cluster was begun
	if id == "" {
		id = newClusterID()
	}
	res, err := s.proposeHere(ctx, fsm.Configure{ClusterID: id, FeatureLevel: fsm.FeatureLevel})
	if err != nil {
		return err
	}
	if res.Err != nil {
		return res.Err
	}
	return nil
}

func newClusterID() string { return strings.ToLower(rand.Text()) }

// keepHouse does the leader's slow work: promoting servers that caught up, and
// checksums.
func (s *Server) keepHouse(ctx context.Context) {
	tick := time.NewTicker(promoteInterval)
	defer tick.Stop()
	var summed uint64
	fit := map[string]time.Time{}
	nextSum := time.Now().Add(checksumPeriod)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.promote(ctx, fit)
		if now := time.Now(); now.After(nextSum) {
			nextSum = now.Add(checksumPeriod)
			if applied := s.node.Applied(); applied > summed+1 {
				if _, err := s.proposeHere(ctx, fsm.Checksum{}); err == nil {
					summed = s.node.Applied()
				}
			}
		}
	}
}

// promote makes voters of servers that have caught up and stayed so for a while:
// one that comes and goes would cost the quorum it becomes part of. fit says since
// when they have.
func (s *Server) promote(ctx context.Context, fit map[string]time.Time) {
	servers, err := s.node.Servers()
	if err != nil {
		return
	}
	for _, srv := range servers {
		if srv.Voter || s.node.CaughtUp(srv.Name) != nil {
			delete(fit, srv.Name)
			continue
		}
		if _, ok := fit[srv.Name]; !ok {
			fit[srv.Name] = time.Now()
		}
		if time.Since(fit[srv.Name]) < promoteAfter {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, stepTimeout)
		err := s.node.Promote(ctx, srv.Name)
		cancel()
		switch {
		case err == nil:
			s.log.Info("server caught up and votes now", "server", srv.Name)
		case !errors.Is(err, job.ErrConflict):
			s.log.Warn("promoting a server failed", "server", srv.Name, "error", err)
		}
	}
}

// onEvents is called by the apply goroutine with what was committed.
func (s *Server) onEvents(meta fsm.Meta, events []fsm.Event) {
	if len(events) == 0 || !s.leading.Load() {
		return
	}
	s.sched.Events(meta.Index, events)
	s.hintOwed(events)
	s.logTransitions(events)
}

// fatal ends the process with a clear message and its own exit code.
func (s *Server) fatal(code int, err error) {
	code = raftnode.ExitCode(code, err)
	attrs := []any{"exit_code", code, "error", err}
	if a := advice(code, s.cfg.DataDir); a != "" {
		attrs = append(attrs, "advice", a)
	}
	s.log.Error("the server must end", attrs...)
	s.cfg.Exit(code)
}
