package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/axd-project/axd/cluster"
	"github.com/axd-project/axd/raftnode"
	"github.com/axd-project/axd/server"
)

// Server is a place for one server's processes, one after the other: its name,
// disk and clock outlive them.
type Server struct {
	Name string

	c   *Cluster
	rng *rand.Rand

	mu     sync.Mutex
	disk   *Disk
	offset time.Duration // of the wall clock from true time
	step   time.Duration // besides, by another fault
	rate   float64       // at which the offset grows besides: 0, or -1 for a clock that stands still
	since  time.Time     // of rate
	reads  int           // of the wall clock
	gain   time.Duration // by which all clocks of the process are ahead, its monotonic one too
	haste  float64       // at which that grows
	hasty  time.Time     // since when
	life   *serverLife   // nil while down
	fate   int           // the exit code with which a fault will end the process; 0: with none
	met    bool          // it has
}

// serverLife is one process of a server.
type serverLife struct {
	s      *Server
	srv    *server.Server
	port   *Port
	member *Member
	cancel context.CancelFunc
	done   chan struct{} // closed when nothing of the process is left
	err    error         // of Run, once done
	gone   bool          // crashed; guarded by s.mu
	ending bool          // exit was called; ditto
}

const (
	snapshotBytes = 96 << 10 // small, so that snapshots and their installs happen often
	trailingBytes = 12 << 10
	restartPause  = time.Second // of a server that ended itself
)

// Start runs a new process on what the disk holds. Its error has the exit code with
// which the process would have ended.
func (s *Server) Start() error {
	s.mu.Lock()
	disk := s.disk
	s.gain, s.haste = 0, 0 // what clocks have gained ends with the process
	s.mu.Unlock()
	life := &serverLife{s: s, port: s.c.Net.Open(s.Name), done: make(chan struct{})}
	var join []string
	for _, other := range s.c.Servers {
		join = append(join, other.Name+":7482")
	}
	srv, err := server.New(server.Config{
		Name: s.Name, DataDir: "/axd", HTTP: s.Name + ":7480", RPC: s.Name + ":7481", Gossip: s.Name + ":7482",
		Join: join, BootstrapExpect: len(s.c.Servers), Insecure: true,
		Version: "sim", Logger: s.c.log, Exit: life.exit,
		SnapshotBytes: snapshotBytes, TrailingBytes: trailingBytes,
		Host: server.Host{
			Listen: life.port.Listen, Dial: life.port.Dial, Callbacks: life.callbacks(), FS: disk.FS(), RaftLog: disk.RaftLog,
			Wall: s.wall, Mono: s.mono,
			Gossip: func(cfg cluster.Config) (server.Membership, error) {
				life.member = s.c.Gossip.Join(s.Name, cfg.Self)
				return life.member, nil
			},
		},
	})
	if err != nil {
		life.port.Close(false)
		return fmt.Errorf("start server %s: %w", s.Name, err)
	}
	var ctx context.Context
	ctx, life.cancel = context.WithCancel(context.Background())
	life.srv = srv
	s.mu.Lock()
	s.life = life
	s.mu.Unlock()
	s.c.tasks.Go(func() {
		life.err = srv.Run(ctx)
		life.port.Close(false)
		life.ended(ctx)
		close(life.done) // who waits for it may start the next process
	})
	return nil
}

// callbacks is the process's way to the receiver of callbacks.
func (l *serverLife) callbacks() http.RoundTripper {
	return &http.Transport{
		DialContext:     func(ctx context.Context, _, address string) (net.Conn, error) { return l.port.Dial(ctx, address) },
		IdleConnTimeout: 20 * time.Second,
	}
}

// ended judges the end of a process that nobody asked for.
func (l *serverLife) ended(ctx context.Context) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	switch {
	case l.gone:
	case l.err != nil && l.s.fated(server.ExitCode(l.err)):
		l.s.c.note("server %s ended: %v", l.s.Name, l.err)
	case l.err != nil:
		l.s.c.Problem("server %s ended: %v", l.s.Name, l.err)
	case ctx.Err() == nil:
		l.s.c.Problem("server %s ended unasked", l.s.Name)
	}
	if l.s.life == l {
		l.s.life = nil
	}
}

// expectedExits are the codes with which a server may end itself: after a
// snapshot into a conflicting log, and when a transfer of leadership got stuck.
var expectedExits = []int{raftnode.ExitReseed, raftnode.ExitStuck}

// expectedError names the messages of log lines at error level that belong to
// faults: the first announces an exit, whose code is judged by itself.
func expectedError(message string) bool {
	return message == "the server must end" || strings.HasPrefix(message, "raft: ")
}

// exit stands in for the end of the process: it loses its network at once, and
// another process starts soon.
func (l *serverLife) exit(code int) {
	l.s.mu.Lock()
	again := l.ending || l.gone
	l.ending = true
	fated := !again && l.s.fated(code)
	l.s.mu.Unlock()
	if again {
		return // a process ends once
	}
	l.s.c.exited(l.s.Name, code)
	if !fated && !slices.Contains(expectedExits, code) {
		l.s.c.Problem("server %s ended itself with code %d", l.s.Name, code)
	}
	l.s.c.tasks.Go(func() {
		if !l.s.crash(l, false) || fated || !pause(l.s.c.ctx, restartPause) {
			return // the fault starts it again
		}
		l.s.Restart()
	})
}

// Doom says that the process is about to end with an exit code, and is not to be
// started again; 0 takes it back.
func (s *Server) Doom(code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fate, s.met = code, false
}

// Doomed reports whether the process has ended as Doom said.
func (s *Server) Doomed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.met && s.life == nil
}

// fated reports whether a process was to end with a code; the caller holds mu.
func (s *Server) fated(code int) bool {
	is := s.fate != 0 && s.fate == code
	s.met = s.met || is
	return is
}

// Replace gives a server that is down an empty disk.
func (s *Server) Replace(committed uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.disk = s.disk.Wiped(committed)
}

// wall is the server's own wall clock.
func (s *Server) wall() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	now := time.Now()
	off := s.offset + s.step + s.gained(now)
	if s.rate != 0 {
		off += time.Duration(s.rate * float64(now.Sub(s.since)))
	}
	return now.Add(off)
}

// SetClock puts the server's wall clock off true time. It returns how often the
// clock was read until then.
func (s *Server) SetClock(offset time.Duration) (reads int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset, s.rate = offset, 0
	return s.reads
}

// StepClock puts the server's wall clock off by a step, whatever else is wrong with it;
// 0 takes that back. It returns how often the clock was read until then.
func (s *Server) StepClock(by time.Duration) (reads int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.step = by
	return s.reads
}

// TurnClock lets the server's wall clock gain from now on: at a rate of 1 it runs
// twice as fast, at -1 it stands still.
func (s *Server) TurnClock(rate float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rate, s.since = rate, time.Now()
}

// HurryClocks puts all clocks of the server's process forward, and lets them gain from
// now on, as long as it lives: at a rate of 1 they run twice as fast.
func (s *Server) HurryClocks(by time.Duration, rate float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.gain, s.haste, s.hasty = s.gained(now)+by, rate, now
}

// gained is what they have; the caller holds mu.
func (s *Server) gained(now time.Time) time.Duration {
	return s.gain + time.Duration(s.haste*float64(now.Sub(s.hasty)))
}

// mono is the server's own monotonic clock.
func (s *Server) mono() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.c.Age() + s.gained(time.Now())
}

func (s *Server) clockReads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

// Disk returns the server's present disk.
func (s *Server) Disk() *Disk {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.disk
}

// now returns the running process.
func (s *Server) now() *serverLife {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.life
}

// Crash ends the process at once, with kill -9 or, if power is set, by a loss of
// power: then what was not synced may be gone, and the peers aren't told. It
// reports whether there was a process.
func (s *Server) Crash(power bool) bool {
	life := s.now()
	return life != nil && s.crash(life, power)
}

// crash cuts the process off, first from the network and then from its disk, so
// that whatever it goes on to do in its memory reaches nobody; and ends it in
// the background.
func (s *Server) crash(life *serverLife, power bool) bool {
	life.port.Close(power)
	s.mu.Lock()
	if s.life != life {
		s.mu.Unlock()
		return false
	}
	life.gone = true
	s.life = nil
	keep := 100 // the kernel writes what a killed process has written
	if power {
		keep = s.rng.IntN(2) * s.rng.IntN(100)
	}
	s.disk = s.disk.Crash(s.rng, keep)
	s.mu.Unlock()
	s.c.Gossip.Lose(life.member)
	life.cancel()
	return true
}

// Restart starts the server unless it runs.
func (s *Server) Restart() {
	if s.now() != nil {
		return
	}
	if err := s.Start(); err != nil {
		s.c.Problem("%v", err)
	}
}

// Stop asks the process to end and waits for it. It reports nothing if there is
// none.
func (s *Server) Stop() {
	life := s.now()
	if life == nil {
		return
	}
	life.cancel()
	<-life.done
}
