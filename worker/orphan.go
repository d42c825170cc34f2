package worker

import (
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// A worker that dies without a word leaves commands that are to go on without it
// (on_disconnect: continue). Their supervisor keeps them, and their time-outs, until
// the worker's next life takes them over through a socket in the data directory, or
// nothing is left of them. All other commands die with the worker.

const (
	socketName  = "supervisor"
	socketEntry = "AXD_SUPERVISOR_SOCKET" // tells the supervisor which descriptor its socket has
	socketFD    = 3
)

// inheritedListener returns the socket that the worker has bound for this process,
// nil where there is none. It listens from here on, so that its peers see this
// process's number.
func inheritedListener() *net.UnixListener {
	fd, err := strconv.Atoi(os.Getenv(socketEntry))
	if err != nil {
		return nil
	}
	unix.CloseOnExec(fd)
	file := os.NewFile(uintptr(fd), socketName)
	defer file.Close()
	if unix.Listen(fd, 1) != nil {
		return nil
	}
	l, err := net.FileListener(file)
	if err != nil {
		return nil
	}
	listener, _ := l.(*net.UnixListener)
	return listener
}

// outlives tells whether a command goes on when its worker is gone.
func (s *supervisor) outlives(c *command) bool {
	return s.listener != nil && c.order.Continue && c.order.Timeout > 0 && !c.doomed
}

// ends tells whether a command must be gone.
func (s *supervisor) ends(c *command) bool { return s.closing != 0 || c.doomed }

// abandon is when the worker is gone without a word.
func (s *supervisor) abandon() {
	s.orders = nil
	if s.closing != 0 {
		return
	}
	left := len(s.kept)
	for _, c := range s.commands {
		if !s.outlives(c) {
			c.doomed = true
			continue
		}
		left++
		c.generation, c.wait = 0, false
		c.follow()
	}
	if left == 0 {
		s.close()
		return
	}
	s.abandoned, s.lease = boottime(), leaseView{}
	s.leaseEnd.Store(0) // what waits to be started no longer is
	s.out.detach()
	go s.awaitWorker()
}

// awaitWorker hands the next life of the worker to the loop.
func (s *supervisor) awaitWorker() {
	for {
		conn, err := s.listener.AcceptUnix()
		if err != nil {
			return
		}
		if peer, err := peerOf(conn); err == nil && int(peer.Uid) == os.Geteuid() {
			s.adopters <- conn
			return
		}
		_ = conn.Close()
	}
}

// peerOf tells which process is at the other end.
func peerOf(conn *net.UnixConn) (peer *unix.Ucred, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	asked := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if asked != nil {
		return nil, asked
	}
	return peer, err
}

// adopted tells the worker's next life what has outlived the one before, and obeys
// it from here on.
func (s *supervisor) adopted(conn *net.UnixConn) {
	s.abandoned = 0
	s.orders = make(chan order)
	s.out.attach()
	held := make([]heldCommand, 0, len(s.commands)+len(s.kept))
	for _, c := range s.commands {
		if !c.doomed {
			held = append(held, heldCommand{Seq: c.order.Seq, Mark: c.order.Mark, Process: c.process, Started: int64(c.startedAt)})
		}
	}
	for seq, k := range s.kept {
		held = append(held, heldCommand{Seq: seq, Mark: k.mark, Process: k.process, Started: k.report.Started})
	}
	for {
		part := held[:min(len(held), heldMost)]
		held = held[len(part):]
		s.out.add(report{Held: &heldReport{Version: heldVersion, Commands: part, More: len(held) > 0}})
		if len(held) == 0 {
			break
		}
	}
	for _, k := range s.kept {
		s.out.add(report{Exited: k.report})
	}
	go s.out.run(conn)
	go s.readOrders(conn, s.orders)
}

// keptReport is how a command ended that the worker's next life may have to be told
// again.
type keptReport struct {
	report  *exitedReport
	mark    string
	process process
	window  time.Duration // how long after its worker is gone it is of use
}

// keep remembers how a command ended until its result is safe.
func (s *supervisor) keep(c *command, r *exitedReport) {
	if s.closing == 0 && s.outlives(c) {
		s.kept[c.order.Seq] = &keptReport{r, c.order.Mark, c.process, safeWindow(time.Duration(c.order.Timeout))}
	}
}

// safeWindow is how long after it has lost contact the leader may wait for an attempt
// that goes on without it.
func safeWindow(timeout time.Duration) time.Duration { return later(timeout, timeout/2) }

// settled forgets a command. One that runs is not wanted any more.
func (s *supervisor) settled(seq uint64) {
	delete(s.kept, seq)
	if c := s.commands[seq]; c != nil {
		c.doomed = true
	}
}

// idle tells that the worker is gone and nothing is left that another life of it
// could take over.
func (s *supervisor) idle(now time.Duration) bool {
	if s.abandoned == 0 {
		return false
	}
	for seq, k := range s.kept {
		if now >= later(s.abandoned, k.window) {
			delete(s.kept, seq)
		}
	}
	return len(s.commands) == 0 && len(s.kept) == 0
}

// untilKept is when idle may answer otherwise, from now.
func (s *supervisor) untilKept(now time.Duration) time.Duration {
	nap := time.Hour
	if s.abandoned == 0 {
		return nap
	}
	for _, k := range s.kept {
		nap = min(nap, later(s.abandoned, k.window)-now)
	}
	return max(nap, 0)
}
