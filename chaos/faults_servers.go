package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/raftnode"
)

const (
	stormPause  = 2 * time.Second // between two transfers of leadership
	upLimit     = time.Minute     // for a server that was started to be ready
	memberLimit = 2 * time.Minute // for a server to be a voter again
)

func killServers(i *injector, f Fault) func() effect { return i.down(f, "processes killed", killed) }
func powerServers(i *injector, f Fault) func() effect {
	return i.down(f, "machines without power", lostPower)
}
func stopServers(i *injector, f Fault) func() effect { return i.down(f, "servers stopped", stopped) }

func killed(s *Server) bool    { return s.Crash(false) }
func lostPower(s *Server) bool { return s.Crash(true) }
func stopped(s *Server) bool   { up := s.now() != nil; s.Stop(); return up }

// down ends servers, and starts them again at the fault's end, in any order.
func (i *injector) down(f Fault, what string, how func(*Server) bool) func() effect {
	did := effect{0, what}
	for _, name := range f.On {
		s := i.c.Server(name)
		i.waitFor(func() bool { return s.now() != nil }) // one that ended itself comes back
		if how(s) {
			did.n++
		}
	}
	return func() effect {
		for _, n := range i.perm(len(f.On)) {
			i.c.Server(f.On[n]).Restart()
		}
		if did.n < len(f.On) {
			return effect{0, what} // one was down without it
		}
		return did
	}
}

// rolling restarts all servers as an upgrade does: one after the other is stopped,
// started and awaited, the leader last.
func rolling(i *injector, f Fault) func() effect {
	did := effect{0, "servers restarted"}
	leader := i.resolve([]string{leaderName})
	order := f.On
	if leader != nil {
		order = append(without(f.On, leader[0]), leader[0])
	}
	for _, name := range order {
		s := i.c.Server(name)
		i.waitFor(func() bool { return s.now() != nil })
		s.Stop()
		s.Restart()
		if err := i.ready(s); err != nil {
			i.c.Problem("rolling restart: %v", err)
			continue
		}
		did.n++
	}
	return func() effect {
		if did.n < len(f.On) {
			return effect{0, did.what}
		}
		return did
	}
}

// ready waits until a server serves.
func (i *injector) ready(s *Server) error {
	life := s.now()
	if life == nil {
		return fmt.Errorf("server %s has ended", s.Name)
	}
	late := time.NewTimer(upLimit)
	defer late.Stop()
	select {
	case <-life.srv.Ready():
		return nil
	case <-life.done:
		return fmt.Errorf("server %s has ended before it was ready", s.Name)
	case <-late.C:
		return fmt.Errorf("server %s is not ready %v after its start", s.Name, upLimit)
	}
}

// transfer asks until another server leads: right after other faults there may be
// none to hand over to.
func transfer(i *injector, f Fault) func() effect {
	did := effect{0, "transfers"}
	err := i.ask(func(ctx context.Context) error {
		to, err := i.operator.TransferLeadership(ctx, "")
		if err == nil && to.Leader == f.On[0] {
			return fmt.Errorf("%s leads still", to.Leader)
		}
		return err
	})
	if err == nil {
		did.n++
	}
	return func() effect { return did }
}

func transferStorm(i *injector, f Fault) func() effect {
	did := effect{0, "transfers"}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for end := time.Now().Add(f.For); time.Now().Before(end) || did.n == 0; time.Sleep(stormPause) {
			if i.ask(func(ctx context.Context) error { _, err := i.operator.TransferLeadership(ctx, ""); return err }) != nil {
				return
			}
			did.n++
		}
	}()
	return func() effect { <-done; return did }
}

// lostDisk has a server come back without its data: it joins as a new one.
func lostDisk(i *injector, f Fault) func() effect {
	s := i.c.Server(f.On[0])
	committed := i.applied(s)
	was := s.Crash(true)
	s.Replace(committed)
	return func() effect {
		did := effect{0, "servers that joined anew"}
		s.Restart()
		if was && i.voter(s) {
			did.n++
		}
		return did
	}
}

// replace removes a server, whose process ends by itself, and lets it join anew.
func replace(i *injector, f Fault) func() effect {
	s := i.c.Server(f.On[0])
	did := effect{0, "servers removed and added"}
	committed := i.applied(s)
	s.Doom(raftnode.ExitRemoved)
	err := i.ask(func(ctx context.Context) error {
		err := i.operator.RemoveServer(ctx, s.Name, false)
		if codeOf(err) == job.CodeNotFound {
			return nil // an earlier call was carried out without an answer
		}
		return err
	})
	ended := err == nil && i.waitFor(s.Doomed)
	if !ended {
		i.c.Problem("server %s was removed and did not end: %v", s.Name, err)
	}
	s.Doom(0)
	if !ended {
		return func() effect { return did }
	}
	s.Replace(committed)
	return func() effect {
		s.Restart()
		if i.voter(s) {
			did.n++
		}
		return did
	}
}

// applied is up to where a server holds what was committed.
func (i *injector) applied(s *Server) (index uint64) {
	i.waitFor(func() bool { return s.View(func(r fsm.Reader) { index = fsm.ReadInfo(r).Applied }) })
	return index
}

// voter waits until a server that was started serves, and the leader counts its vote.
// Before it serves the leader may know an earlier life of it.
func (i *injector) voter(s *Server) bool {
	if err := i.ready(s); err != nil {
		i.c.Problem("%v", err)
		return false
	}
	for end := time.Now().Add(memberLimit); time.Now().Before(end); time.Sleep(lookAgain) {
		leader := i.c.Leader()
		if leader == nil {
			continue
		}
		life := leader.now()
		if life == nil {
			continue
		}
		info, err := life.srv.Cluster(i.c.ctx)
		if err != nil {
			continue
		}
		for _, is := range info.Servers {
			if is.Name == s.Name && is.Voter {
				return true
			}
		}
	}
	i.c.Problem("server %s does not vote %v after it was started", s.Name, memberLimit)
	return false
}
