package worker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/axd-project/axd/internal/timeslice"
)

const (
	maxCommands   = 4096                   // at one time; the worker's slots are far below
	supervisorTic = 100 * time.Millisecond // longest nap with commands: Go's timers stop in suspend
	lastKill      = 5 * time.Second        // for everything to be gone after the worker has died
)

// SupervisorMain is the supervisor process: it owns the process groups and the
// lease, and speaks with the worker over its standard input and output. It ends
// when the worker is gone, after it killed every command, but for those that go on
// without one (see abandon); ctx ends it too, and all of them. Its command line must pass args unread, since the supervisor starts
// itself again to limit a command's memory. It takes over the handling of
// signals and children, so it must be a process of its own.
func SupervisorMain(ctx context.Context, args []string) int {
	if len(args) > 0 && args[0] == limitFlag {
		return becomeLimited(args[1:])
	}
	if len(args) > 0 {
		fmt.Fprintf(os.Stderr, "axd: the supervisor takes no arguments (got %q)\n", args[0])
		return 2
	}
	return supervise(ctx, openCgroups())
}

func supervise(ctx context.Context, groups *cgroups) int {
	defer groups.close()
	timeslice.Shorten() // what it starts and kills is to start and die on time
	// Orphans of commands come to this process instead of to init.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintf(os.Stderr, "axd: supervisor: become the reaper of orphans: %v\n", err)
		return 1
	}
	// A terminal's ctrl-C and a service manager's TERM are the worker's to judge.
	// SIGPIPE would kill this process before the commands of a dead worker.
	// They are caught, not ignored: what is ignored stays so in a command.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGPIPE)
	defer signal.Stop(caught)
	s := newSupervisor(groups)
	s.listener = inheritedListener()
	go s.out.run(os.Stdout)
	go s.readOrders(os.Stdin, s.orders)
	go s.startCommands()
	s.loop(ctx)
	return 0
}

// supervisor's loop owns all fields but the channels, the outbox and leaseEnd.
// Its goroutines end with the process.
type supervisor struct {
	orders chan order    // closed when the worker is gone
	starts chan *command // to the starting thread
	events chan event
	child  chan os.Signal
	out    *outbox

	leaseEnd atomic.Int64 // read by the starting thread right before it starts

	cgroups  *cgroups
	lease    leaseView
	commands map[uint64]*command
	byPID    map[int]*command
	starting int
	closing  time.Duration // when the end of all began; 0: it has not

	listener  *net.UnixListener // where the worker's next life comes; nil: nowhere
	adopters  chan *net.UnixConn
	abandoned time.Duration          // when the worker was gone without a word; 0: it is there
	kept      map[uint64]*keptReport // of ended commands, until their result is settled
}

// event is what a goroutine of the supervisor tells its loop: a command was
// started or refused, or one of its streams has ended.
type event struct {
	started *command
	forked  forked
	err     error // why it was not started
	ended   *command
}

var errLeaseEnded = errors.New("the lease has ended")

func newSupervisor(groups *cgroups) *supervisor {
	s := &supervisor{
		orders:   make(chan order),
		starts:   make(chan *command, maxCommands),
		events:   make(chan event, 64),
		child:    make(chan os.Signal, 1),
		out:      newOutbox(),
		cgroups:  groups,
		commands: map[uint64]*command{},
		byPID:    map[int]*command{},
		adopters: make(chan *net.UnixConn),
		kept:     map[uint64]*keptReport{},
	}
	signal.Notify(s.child, unix.SIGCHLD)
	return s
}

func (s *supervisor) readOrders(from io.Reader, orders chan<- order) {
	defer close(orders)
	in := bufio.NewReader(from)
	for {
		var o order
		if err := readFrame(in, &o); err != nil {
			return // the worker is gone, or sends nonsense: the same to the commands
		}
		orders <- o
	}
}

// startCommands starts commands on one thread that lives as long as the
// process, since each command is killed when the thread that made it ends. It
// is apart from the loop: a directory on a dead file server may block it, and
// that must not keep a lease from ending.
func (s *supervisor) startCommands() {
	runtime.LockOSThread()
	for c := range s.starts {
		e := event{started: c, err: errLeaseEnded}
		if int64(boottime()) < s.leaseEnd.Load() {
			e.forked, e.err = fork(&c.order, c.group, s.out) // neither changes any more
		}
		s.events <- e
	}
}

func (s *supervisor) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	done := ctx.Done()
	for {
		select {
		case o, ok := <-s.orders:
			switch {
			case !ok:
				s.abandon()
			case o.End:
				s.close()
			default:
				s.obey(o)
			}
		case conn := <-s.adopters:
			s.adopted(conn)
		case <-done:
			done = nil
			s.close()
		case e := <-s.events:
			s.take(e)
		case <-s.child:
		case <-timer.C:
		}
		s.reap()
		now := boottime()
		nap := s.advance(now)
		if s.closing != 0 && (len(s.commands) == 0 || now > s.closing+lastKill) || s.idle(now) {
			return
		}
		timer.Reset(min(nap, s.untilKept(now)))
	}
}

// close begins the end of all commands.
func (s *supervisor) close() {
	if s.closing == 0 {
		s.closing = boottime()
		s.leaseEnd.Store(0) // what waits to be started no longer is
		if s.listener != nil {
			_ = s.listener.Close()
		}
	}
}

func (s *supervisor) obey(o order) {
	switch {
	case o.Renew != nil:
		s.lease = leaseView{until: max(s.lease.until, time.Duration(o.Renew.Until)), ttl: time.Duration(o.Renew.TTL)}
		s.leaseEnd.Store(int64(s.lease.until))
		s.out.add(report{Alive: true})
	case o.Start != nil:
		c := &command{order: *o.Start, generation: o.Start.Generation}
		s.commands[c.order.Seq] = c
		if s.starting == maxCommands || len(c.order.Argv) == 0 {
			s.forget(c, c.refusal(errors.New("too many commands at one time, or an empty command")))
			return
		}
		c.group, c.note = s.cgroups.create(c.order.Seq, c.order.Limits)
		s.starting++
		s.starts <- c
	case o.Kill != nil:
		if c := s.commands[o.Kill.Seq]; c != nil {
			s.kill(c, o.Kill, boottime())
		}
	case o.Follow != nil:
		if c := s.commands[o.Follow.Seq]; c != nil {
			c.generation, c.wait = o.Follow.Generation, o.Follow.Wait
			c.follow()
		}
	case o.Took != nil:
		if c := s.commands[o.Took.Seq]; c != nil && c.pid != 0 {
			for i, stream := range c.streams {
				stream.took(o.Took.Generation, o.Took.Taken[i])
			}
		}
	case o.Settle != nil:
		s.settled(o.Settle.Seq)
	}
}

// take learns that a command was started, or that a stream of it has ended.
func (s *supervisor) take(e event) {
	if c := e.ended; c != nil {
		c.reading--
		return
	}
	c := e.started
	s.starting--
	if e.err != nil {
		if errors.Is(e.err, errLeaseEnded) {
			c.reason = stopLease
		}
		s.forget(c, c.refusal(e.err))
		return
	}
	c.pid, c.process, c.startedAt = e.forked.PID, e.forked.process, e.forked.at
	c.feed, c.streams, c.pulse = e.forked.feed, e.forked.streams, e.forked.pulse
	s.byPID[c.pid] = c
	c.reading = len(c.streams)
	c.follow()
	for _, stream := range c.streams {
		go func() {
			stream.pump()
			s.events <- event{ended: c}
		}()
	}
	if c.feed != nil {
		go c.feed.write(c.order.Stdin)
	}
	s.out.add(report{Started: &startedReport{Seq: c.order.Seq, Process: c.process, At: int64(c.startedAt), Note: c.note}})
	if c.reason != stopNone { // killed while it was being started
		s.terminate(c, c.reason, boottime())
	}
}

// kill begins the end of a command, or hurries one that has begun.
func (s *supervisor) kill(c *command, k *killOrder, now time.Duration) {
	c.hurried = c.hurried || k.Hurry
	if c.reason == stopNone && c.exitedAt == 0 {
		s.terminate(c, k.Reason, now)
	}
	if k.Hurry && c.killAt != 0 {
		c.killAt = min(c.killAt, now+c.grace())
	}
}

// terminate sends TERM and sets when KILL follows.
func (s *supervisor) terminate(c *command, reason stopReason, now time.Duration) {
	c.reason = reason
	if c.pid == 0 {
		return // take does it once the command runs
	}
	c.killAt = now + c.grace()
	c.signal(unix.SIGTERM, c.tree(s.byPID, false))
}

// forget reports a command's end.
func (s *supervisor) forget(c *command, r *exitedReport) {
	if c.pid != 0 {
		c.closePipes()
	}
	c.group.close()
	delete(s.commands, c.order.Seq)
	delete(s.byPID, c.pid)
	s.keep(c, r)
	s.out.add(report{Exited: r})
}

// reap collects what has ended: the commands, and the orphans that came here.
func (s *supervisor) reap() {
	for pid, c := range s.byPID {
		s.wait(pid, c)
		s.wait(-pid, c)
	}
	if s.starting > 0 {
		return // the starting thread waits for a child that could not exec
	}
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if c := s.byPID[pid]; c != nil {
			c.ended(status)
		}
	}
}

// wait reaps one process, or the members of one group, of a command.
func (s *supervisor) wait(which int, c *command) {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(which, &status, unix.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if pid == c.pid {
			c.ended(status)
		}
	}
}

// advance does what is due to each command and tells how long to nap.
func (s *supervisor) advance(now time.Duration) time.Duration {
	if len(s.commands) == 0 {
		return time.Hour
	}
	nap := supervisorTic
	for _, c := range s.byPID {
		if c.exitedAt != 0 {
			nap = min(nap, s.settle(c, now))
			continue
		}
		if s.ends(c) {
			c.reason, c.killAt = stopGone, now
		}
		switch act, reason := c.decide(now, s.lease); act {
		case actTerm:
			s.terminate(c, reason, now)
		case actKill:
			if c.reason == stopNone {
				c.reason = reason
			}
			if now >= c.nextLook {
				c.signal(unix.SIGKILL, c.tree(s.byPID, false))
				c.nextLook = now + killRepeat
			}
			nap = min(nap, killRepeat)
			continue
		case actNothing:
		}
		nap = min(nap, max(c.next(s.lease)-now, 0))
	}
	return nap
}

// settle waits, after a command's first process has ended, for the rest: what
// it left running gets TERM, then KILL, and the pipes must come to their end.
// Only then is the end reported, so that a next attempt never overlaps. It
// returns when to look again.
func (s *supervisor) settle(c *command, now time.Duration) time.Duration {
	if now < c.nextLook && c.reading > 0 {
		return c.nextLook - now
	}
	alone := len(s.byPID) == 1 && s.starting == 0
	outside := c.left(s.byPID, alone)
	alive := len(outside) > 0 || groupAlive(c.pid)
	if !alive && c.reading == 0 {
		s.forget(c, c.report(false))
		return supervisorTic
	}
	c.nextLook = now + leftoverPause
	switch {
	case s.ends(c):
		c.signal(unix.SIGKILL, outside)
	case c.killAt == 0:
		c.killAt = now + min(c.grace(), leftoverGrace)
		if alive {
			c.signal(unix.SIGTERM, outside)
		}
	case now >= max(c.killAt, c.exitedAt)+leftoverLimit:
		c.closePipes()
		s.forget(c, c.report(alive))
	case now >= c.killAt:
		c.signal(unix.SIGKILL, outside)
	}
	return leftoverPause
}
