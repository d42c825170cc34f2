package worker

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	orderQueue    = 4 * MaxSlots    // orders that wait for the supervisor to read
	hangFloor     = 2 * time.Second // a supervisor that owes an answer for less is only slow
	respawnPause  = time.Second     // between two starts of the supervisor
	supervisorEnd = 8 * time.Second // for it to end after its pipe was closed: lastKill and some
	// leaseLook is between two looks at a supervisor after the lease's end. Two that
	// find it silent condemn it, which is well within the leader's patience of 2s.
	leaseLook = 500 * time.Millisecond
)

// errSupervisor tells that no supervisor runs, or that it does not answer.
var errSupervisor = errors.New("the supervisor is not running")

// supervisors keeps one supervisor running. A supervisor that dies takes its
// commands with it, and the next command gets a new one.
type supervisors struct {
	argv  []string
	log   *slog.Logger
	lease func() renewOrder // as it stands, for a new supervisor
	clock func() time.Duration
	dir   string // has the socket by which a next life finds the supervisor

	mu      sync.Mutex
	current *link
	last    time.Time // of the latest start
	closed  bool
}

// get returns the running supervisor, or starts one.
func (s *supervisors) get() (*link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil && !s.current.dead() {
		return s.current, nil
	}
	switch {
	case s.closed:
		return nil, errSupervisor
	case time.Since(s.last) < respawnPause:
		return nil, fmt.Errorf("%w: it ended a moment ago", errSupervisor)
	}
	s.last = time.Now()
	l, err := spawn(s.argv, s.dir, s.log)
	if err != nil {
		return nil, err
	}
	s.take(l)
	return l, nil
}

// take makes a supervisor the one that gets commands.
func (s *supervisors) take(l *link) {
	l.send(order{Renew: new(s.lease())})
	l.wg.Go(func() { s.guard(l) })
	s.current = l
}

// adopt takes over the supervisor that an earlier life of the worker has left.
func (s *supervisors) adopt(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.take(l)
}

// guard sees to it that a supervisor which hangs doesn't outlast the lease with its
// commands. While the lease is renewed, renew finds that out; without a leader
// nobody else would.
func (s *supervisors) guard(l *link) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-l.gone:
			return
		case <-timer.C:
		}
		lease := s.lease()
		left := time.Duration(lease.Until) - s.clock()
		if left <= 0 && l.holds() {
			if l.hangs(leaseLook * 4 / 5) {
				l.condemn("the lease has ended and the supervisor does not answer: it is killed with its commands")
				return
			}
			l.send(order{Renew: &lease}) // it renews nothing, but is answered
		}
		timer.Reset(max(left, leaseLook))
	}
}

// renew tells the supervisor of the lease. One that has not confirmed an
// earlier renewal for half a lease hangs and can't guard the lease: it is
// killed, and its commands with it. It takes two looks, since a worker that was
// stopped itself finds answers that it has not read.
func (s *supervisors) renew(r renewOrder) {
	s.mu.Lock()
	l := s.current
	s.mu.Unlock()
	if l == nil || l.dead() {
		return
	}
	if l.hangs(max(time.Duration(r.TTL)/2, hangFloor)) {
		l.condemn("the supervisor does not answer and is killed with its commands")
		return
	}
	l.send(order{Renew: &r})
}

// close ends the supervisor and waits for it. With leave set it goes on instead with
// what outlives a worker.
func (s *supervisors) close(leave bool) {
	s.mu.Lock()
	s.closed = true
	l := s.current
	s.mu.Unlock()
	if l != nil {
		l.close(leave)
	}
}

// link speaks with one supervisor process.
type link struct {
	cmd    *exec.Cmd // nil: an earlier life of the worker has started it
	self   process   // where cmd is nil
	log    *slog.Logger
	orders chan order
	gone   chan struct{} // closed when the process has ended
	wg     sync.WaitGroup

	condemned sync.Once

	mu       sync.Mutex
	seq      uint64
	waiting  map[uint64]*supervised
	unheard  time.Time // when the first renewal without an answer was sent
	inflight int       // renewals without an answer
	strikes  int       // looks in a row that found it silent
	closing  bool
	leaving  bool // it is left to a next life of the worker
}

// supervised is one command that the supervisor holds for the worker.
type supervised struct {
	seq     uint64
	started chan startedReport // room for one
	exited  chan exitedReport  // room for one; filled exactly once
	chunk   func(chunkReport)  // must not block
}

// spawn starts a supervisor. Without a directory for its socket no command outlives
// the worker.
func spawn(argv []string, dir string, log *slog.Logger) (*link, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stderr = os.Stderr
	if dir != "" {
		socket, err := bindSocket(dir)
		if err != nil {
			log.Warn("no socket for the supervisor: commands that are to go on without the worker (on_disconnect: continue) end with it",
				"error", err)
		} else {
			defer socket.Close()
			cmd.ExtraFiles = []*os.File{socket} // socketFD
			cmd.Env = append(os.Environ(), socketEntry+"="+strconv.Itoa(socketFD))
		}
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start the supervisor: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start the supervisor: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the supervisor: %w", err)
	}
	l := newLink(log)
	l.cmd = cmd
	l.run(in, bufio.NewReader(out))
	return l, nil
}

func newLink(log *slog.Logger) *link {
	return &link{
		log: log, orders: make(chan order, orderQueue), gone: make(chan struct{}), waiting: map[uint64]*supervised{},
	}
}

func (l *link) run(in io.WriteCloser, out *bufio.Reader) {
	l.wg.Go(func() { l.write(in) })
	l.wg.Go(func() { l.read(out) })
}

func (l *link) dead() bool {
	select {
	case <-l.gone:
		return true
	default:
		return false
	}
}

// start hands a command over. Its end comes on exited, also when the supervisor dies.
func (l *link) start(o startOrder, chunk func(chunkReport)) (*supervised, error) {
	s := &supervised{started: make(chan startedReport, 1), exited: make(chan exitedReport, 1), chunk: chunk}
	l.mu.Lock()
	if l.closing || l.dead() {
		l.mu.Unlock()
		return nil, errSupervisor
	}
	l.seq++
	s.seq = l.seq
	l.waiting[s.seq] = s
	l.mu.Unlock()
	o.Seq = s.seq
	l.send(order{Start: &o})
	return s, nil
}

func (l *link) stop(s *supervised, reason stopReason, hurry bool) {
	l.send(order{Kill: &killOrder{Seq: s.seq, Reason: reason, Hurry: hurry}})
}

// settle tells that the command's result is safe, or that it is not wanted.
func (l *link) settle(seq uint64) { l.send(order{Settle: &settleOrder{Seq: seq}}) }

func (l *link) follow(s *supervised, generation uint64, wait bool) {
	l.send(order{Follow: &followOrder{Seq: s.seq, Generation: generation, Wait: wait}})
}

func (l *link) took(s *supervised, generation uint64, taken [2]int64) {
	l.send(order{Took: &tookOrder{Seq: s.seq, Generation: generation, Taken: taken}})
}

// commandOutput is the source of one command's output.
type commandOutput struct {
	link *link
	s    *supervised
}

func (c commandOutput) follow(generation uint64, wait bool) { c.link.follow(c.s, generation, wait) }

func (c commandOutput) took(generation uint64, taken [2]int64) { c.link.took(c.s, generation, taken) }

// send never blocks: a supervisor that leaves so much unread hangs.
func (l *link) send(o order) {
	if o.Renew != nil {
		l.mu.Lock()
		if l.inflight == 0 {
			l.unheard = time.Now()
		}
		l.inflight++
		l.mu.Unlock()
	}
	select {
	case l.orders <- o:
	case <-l.gone:
	default:
		l.condemn("the supervisor reads nothing and is killed with its commands")
	}
}

// holds tells whether a command is in the supervisor's hands.
func (l *link) holds() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting) > 0
}

// hangs tells whether two looks in a row found that the supervisor has owed an
// answer for longer than limit.
func (l *link) hangs(limit time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inflight == 0 || time.Since(l.unheard) <= limit {
		return false
	}
	l.strikes++
	return l.strikes > 1
}

// condemn kills a supervisor that is of no use, saying why once.
func (l *link) condemn(why string) {
	l.condemned.Do(func() {
		l.log.Error(why)
		l.kill()
	})
}

func (l *link) kill() {
	if l.cmd != nil {
		_ = l.cmd.Process.Kill()
	} else if l.self.lives() {
		_ = unix.Kill(l.self.PID, unix.SIGKILL)
	}
}

// wait waits for the end of the supervisor, which has closed its pipe.
func (l *link) wait() error {
	if l.cmd != nil {
		return l.cmd.Wait()
	}
	for end := boottime() + supervisorEnd; l.self.lives() && boottime() < end; time.Sleep(killPause) {
	}
	return nil
}

// close ends the supervisor, which ends whatever it still runs; with leave set it
// keeps what outlives the worker.
func (l *link) close(leave bool) {
	l.mu.Lock()
	l.closing, l.leaving = true, leave
	l.mu.Unlock()
	if !leave {
		late := time.AfterFunc(supervisorEnd, l.kill)
		defer late.Stop()
	}
	select {
	case l.orders <- order{End: !leave}: // the writer's sign to close the pipe
	case <-l.gone:
	}
	l.wg.Wait()
}

func (l *link) write(in io.WriteCloser) {
	defer in.Close()
	w := bufio.NewWriter(in)
	for {
		select {
		case o := <-l.orders:
			if o == (order{}) {
				return
			}
			if o.End {
				_ = writeFrame(w, o)
				return
			}
			if err := writeFrame(w, o); err != nil {
				l.refuse(o, err)
			}
		case <-l.gone:
			return
		}
	}
}

// refuse ends a command whose order could not be written.
func (l *link) refuse(o order, err error) {
	if o.Start == nil {
		return
	}
	if s := l.take(o.Start.Seq); s != nil {
		s.exited <- exitedReport{Seq: s.seq, Error: "hand the command to the supervisor: " + err.Error()}
	}
}

func (l *link) take(seq uint64) *supervised {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.waiting[seq]
	delete(l.waiting, seq)
	return s
}

// read passes reports on until the supervisor is gone; then everything it held
// has ended with it.
func (l *link) read(in *bufio.Reader) {
	for {
		var r report
		if err := readFrame(in, &r); err != nil {
			break
		}
		l.pass(r)
	}
	l.mu.Lock()
	leaving := l.leaving
	l.mu.Unlock()
	var err error
	if !leaving {
		l.kill() // a supervisor that sends nonsense, or closed its pipe, is of no use
		err = l.wait()
	}
	l.mu.Lock()
	rest, closing := l.waiting, l.closing
	l.waiting = map[uint64]*supervised{}
	close(l.gone) // under the lock: start refuses, or what it added is in rest
	l.mu.Unlock()
	if !closing {
		l.log.Error("the supervisor ended", "error", err, "attempts", len(rest))
	}
	for _, s := range rest {
		s.exited <- exitedReport{Seq: s.seq, Reason: stopGone, Error: "the supervisor ended while the attempt ran"}
	}
}

func (l *link) pass(r report) {
	switch {
	case r.Alive:
		l.mu.Lock()
		l.inflight--
		l.unheard, l.strikes = time.Now(), 0
		l.mu.Unlock()
	case r.Started != nil:
		if s := l.find(r.Started.Seq); s != nil {
			s.started <- *r.Started
		}
	case r.Chunk != nil:
		if s := l.find(r.Chunk.Seq); s != nil {
			s.chunk(*r.Chunk)
		}
	case r.Exited != nil:
		if s := l.take(r.Exited.Seq); s != nil {
			s.exited <- *r.Exited
		}
	}
}

func (l *link) find(seq uint64) *supervised {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting[seq]
}
