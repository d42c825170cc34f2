package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/raftnode"
	"github.com/axd-project/axd/server"
)

func slowDisk(i *injector, f Fault) func() effect {
	d := i.c.Server(f.On[0]).Disk()
	before := d.Slowed()
	d.Slow(f.By)
	return func() effect {
		i.waitFor(func() bool { return d.Slowed() > before })
		d.Slow(0)
		return effect{d.Slowed() - before, "writes slowed"}
	}
}

func diskStall(i *injector, f Fault) func() effect {
	return i.doom(f, raftnode.ExitLogStalled, (*Disk).Stall)
}

func diskError(i *injector, f Fault) func() effect {
	return i.doom(f, raftnode.ExitLogFailed, func(d *Disk) { d.Fail(syscall.EIO, nil) })
}

func diskFull(i *injector, f Fault) func() effect {
	full := func(d *Disk) { d.Fail(syscall.ENOSPC, syscall.ENOSPC) }
	end := i.doom(f, raftnode.ExitDiskFull, full)
	s := i.c.Server(f.On[0])
	return func() effect {
		if s.now() != nil { // it was in need of a snapshot, which a server without room refuses
			failed := s.Disk().Failed()
			end()
			return effect{failed, "writes refused"}
		}
		full(s.Disk())
		refused := i.refuses(s, raftnode.ExitDiskFull)
		s.Disk().Fail(nil, nil)
		did := end()
		did.n += refused
		return did
	}
}

// doom breaks a server's disk, so that the process ends with an exit code, and
// starts it at the fault's end on what the disk holds.
func (i *injector) doom(f Fault, code int, strike func(*Disk)) func() effect {
	s := i.c.Server(f.On[0])
	i.waitFor(func() bool { return s.now() != nil })
	s.Doom(code)
	var struck *Disk
	ended := i.waitFor(func() bool {
		if d := s.Disk(); d != struck && !s.Doomed() { // one that ended for another reason has another one
			strike(d)
			struck = d
		}
		return s.Doomed()
	})
	return func() effect {
		s.Doom(0)
		did := effect{0, fmt.Sprintf("ends or refusals with exit code %d", code)}
		if ended {
			did.n++
		} else {
			s.Disk().Fail(nil, nil)
			s.Disk().Resume()
		}
		s.Restart()
		return did
	}
}

// refuses starts a server that must refuse with an exit code, and counts it.
func (i *injector) refuses(s *Server, code int) int {
	s.Doom(code)
	defer s.Doom(0)
	err := s.Start()
	if err == nil {
		i.c.Problem("server %s starts where exit code %d is due", s.Name, code)
		return 0
	}
	if is := server.ExitCode(err); is != code {
		i.c.Problem("server %s refuses to start with exit code %d, and %d is due: %v", s.Name, is, code, err)
		return 0
	}
	i.c.note("server %s refuses to start: %v", s.Name, err)
	return 1
}

func tornTail(i *injector, f Fault) func() effect {
	return i.damage(f, true, (*Disk).Tear)
}

func bitFlip(i *injector, f Fault) func() effect {
	return i.damage(f, false, func(d *Disk) bool { return d.Flip(i.c.rand()) })
}

// damage changes the log of a server that is down. It must not start with that, so
// it is replaced by an empty one, which joins.
func (i *injector) damage(f Fault, power bool, change func(*Disk) bool) func() effect {
	s := i.c.Server(f.On[0])
	committed := i.applied(s)
	did := effect{0, "damaged logs refused"}
	if s.Crash(power) && change(s.Disk()) {
		did.n = i.refuses(s, raftnode.ExitCorruptLog)
	}
	if s.now() == nil {
		s.Replace(committed)
	}
	return func() effect {
		s.Restart()
		if !i.voter(s) {
			return effect{0, did.what}
		}
		return did
	}
}

func snapshotSilent(i *injector, f Fault) func() effect {
	return i.interrupt(f, func(_, _ *Server) bool { return true })
}

func snapshotKilled(i *injector, f Fault) func() effect {
	return i.interrupt(f, func(sender, _ *Server) bool { return sender.Crash(false) })
}

func snapshotTorn(i *injector, f Fault) func() effect {
	return i.interrupt(f, func(_, receiver *Server) bool { return receiver.Crash(true) })
}

// interrupt cuts a follower off until the leader has no more the entries that it
// lacks, and does something in the middle of the snapshot that it is sent then.
func (i *injector) interrupt(f Fault, strike func(sender, receiver *Server) bool) func() effect {
	servers, _ := i.c.hosts()
	leader := i.resolve([]string{leaderName})
	name := f.On[0]
	if leader != nil && leader[0] == name {
		name = i.some(without(servers, name))[0]
	}
	receiver := i.c.Server(name)
	i.waitFor(func() bool { return i.caughtUp(receiver) }) // or one may be under way since an earlier fault
	what := "snapshots interrupted"
	heal := i.cut(both([]string{name}, without(servers, name)))
	sender := i.outrun(receiver)
	if sender == nil {
		return func() effect { heal(); return effect{0, what + ", since the leader's log was not compacted"} }
	}
	begun := make(chan struct{})
	var once sync.Once
	d := receiver.Disk()
	d.OnFile(func(path string) {
		if strings.Contains(path, receivedPath) {
			once.Do(func() {
				i.c.Net.Cut(sender.Name, name) // what is under way stays there
				close(begun)
			})
		}
	})
	heal()
	did := effect{0, what}
	late := time.NewTimer(memberLimit)
	defer late.Stop()
	select {
	case <-begun:
		if strike(sender, receiver) {
			did.n++
		}
	case <-late.C:
		did.what += ", since none was sent"
		once.Do(func() { i.c.Net.Cut(sender.Name, name) }) // what the end heals
	}
	return func() effect {
		d.OnFile(nil)
		i.c.Net.Heal(sender.Name, name)
		sender.Restart()
		receiver.Restart()
		return did
	}
}

// caughtUp tells whether a server has all but what is on its way.
func (i *injector) caughtUp(s *Server) bool {
	leader := i.c.Leader()
	if leader == nil {
		return false
	}
	_, all := leader.Disk().logBounds()
	_, last := s.Disk().logBounds()
	return last+underWay > all
}

// receivedPath is in the names of files of a snapshot that is being received.
const receivedPath = ".tmp/state/"

// underWay bounds the entries that a cut has caught on their way.
const underWay = 128

// outrun gives the cluster work until its leader has compacted what a server lacks.
func (i *injector) outrun(behind *Server) (leader *Server) {
	pad := strings.Repeat("x", 4<<10)
	payload, _ := json.Marshal(map[string]any{"run_ms": 1, "pad": pad}) // plain values
	for end := time.Now().Add(memberLimit); time.Now().Before(end); time.Sleep(lookAgain) {
		if leader := i.c.Leader(); leader != nil && leader != behind {
			first, _ := leader.Disk().logBounds()
			if _, last := behind.Disk().logBounds(); first > last+underWay {
				return leader
			}
		}
		ctx, cancel := context.WithTimeout(i.c.ctx, callLimit)
		_, _ = i.operator.Submit(ctx, client.SubmitRequest{Job: plainJob, Payload: payload})
		cancel()
	}
	return nil
}
