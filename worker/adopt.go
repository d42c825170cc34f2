package worker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/vmihailenco/msgpack/v5"
	"golang.org/x/sys/unix"

	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
)

const (
	adoptTime  = 3 * time.Second // for a supervisor of an earlier life to say what it holds
	socketMode = 0o600
)

// outlivingItem is what a next life of the worker needs to know of a command that
// goes on without it.
type outlivingItem struct {
	Item    rpc.DispatchItem // without payload and executor
	Timeout time.Duration    // see timeLimit
	Total   bool
}

// writeItem keeps it beside the start lock.
func (a attemptDir) writeItem(item *outlivingItem) error {
	item.Item.Payload, item.Item.Executor = nil, nil
	b, err := msgpack.Marshal(item)
	if err != nil {
		return fmt.Errorf("encode attempt: %w", err)
	}
	if err := os.WriteFile(a.item(), b, 0o600); err != nil {
		return fmt.Errorf("record attempt: %w", err)
	}
	return nil
}

// readItem returns nil where there is none, or none that is whole.
func (a attemptDir) readItem() *outlivingItem {
	b, err := os.ReadFile(a.item())
	item := new(outlivingItem)
	if err != nil || msgpack.Unmarshal(b, item) != nil {
		return nil
	}
	return item
}

// bindSocket makes the socket by which a next life of the worker finds a supervisor,
// which is to listen on it.
func bindSocket(dir string) (*os.File, error) {
	path, done, err := socketPath(dir)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	file := os.NewFile(uintptr(fd), socketName)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return nil, errors.Join(os.NewSyscallError("bind", err), file.Close())
	}
	if err := os.Chmod(path, socketMode); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// socketPath names the socket by way of its directory's descriptor: the path of a
// socket has at most 107 bytes.
func socketPath(dir string) (path string, done func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return "", nil, err
	}
	return filepath.Join("/proc/self/fd", strconv.Itoa(int(f.Fd())), socketName), func() { _ = f.Close() }, nil
}

// pastSupervisor is the supervisor that an earlier life of the worker has left, with
// what it holds. nil: there is none.
type pastSupervisor struct {
	conn *net.UnixConn
	in   *bufio.Reader
	self process
	held []heldCommand
}

// findSupervisor asks for what outlived the worker's earlier life. A supervisor that
// doesn't answer, or not in words that are understood, is killed with its commands.
func findSupervisor(dir string, log *slog.Logger) *pastSupervisor {
	path, done, err := socketPath(dir)
	if err != nil {
		return nil
	}
	defer done()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil // nobody listens
	}
	p := &pastSupervisor{conn: conn, in: bufio.NewReader(conn)}
	if peer, err := peerOf(conn); err == nil {
		if s, ok := readStat(int(peer.Pid)); ok {
			p.self = s.process
		}
	}
	if err := p.hear(); errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) { // it has just ended
		_ = conn.Close()
		return nil
	} else if err != nil {
		log.Error("the supervisor of an earlier life of this worker is killed with its commands", "error", err)
		_ = conn.Close()
		if p.self.lives() {
			_ = unix.Kill(p.self.PID, unix.SIGKILL)
		}
		return nil
	}
	return p
}

// hear reads what the supervisor holds.
func (p *pastSupervisor) hear() error {
	if err := p.conn.SetReadDeadline(time.Now().Add(adoptTime)); err != nil {
		return err
	}
	for {
		var r report
		if err := readFrame(p.in, &r); err != nil {
			return fmt.Errorf("it does not say what it holds: %w", err)
		}
		if r.Held == nil || r.Held.Version != heldVersion {
			return errors.New("it is of another version of axd")
		}
		p.held = append(p.held, r.Held.Commands...)
		if !r.Held.More {
			return p.conn.SetReadDeadline(time.Time{})
		}
	}
}

// marks are those of the commands that it holds.
func (p *pastSupervisor) marks() map[string]bool {
	if p == nil {
		return nil
	}
	marks := make(map[string]bool, len(p.held))
	for i := range p.held {
		marks[p.held[i].Mark] = true
	}
	return marks
}

// leave goes without having taken anything over.
func (p *pastSupervisor) leave() {
	if p != nil {
		_ = p.conn.Close()
	}
}

// adoption is how an attempt of an earlier life goes on.
type adoption struct {
	link  *link
	s     *supervised
	first firstProcess
	at    time.Duration // of its start; 0: not yet
}

// adopt takes the supervisor of an earlier life over, and prepares the attempts that
// go on. What else the supervisor holds is not wanted.
func (w *Worker) adopt(past *pastSupervisor, goesOn []leftAttempt) {
	if len(goesOn) == 0 {
		past.leave()
		return
	}
	byMark := make(map[string]*leftAttempt, len(goesOn))
	for i := range goesOn {
		byMark[goesOn[i].dir.mark()] = &goesOn[i]
	}
	l := newLink(w.log)
	l.self = past.self
	var unwanted []uint64
	for i := range past.held {
		c := &past.held[i]
		l.seq = max(l.seq, c.Seq)
		left := byMark[c.Mark]
		if left == nil {
			unwanted = append(unwanted, c.Seq)
			continue
		}
		a := w.adoptedAttempt(left)
		s := &supervised{seq: c.Seq, started: make(chan startedReport, 1), exited: make(chan exitedReport, 1), chunk: a.hub.chunk}
		l.waiting[s.seq] = s
		a.adopted = &adoption{link: l, s: s, first: firstProcess{c.Process, left.first.Started}, at: time.Duration(c.Started)}
		w.adopted = append(w.adopted, a)
	}
	l.run(past.conn, past.in)
	w.super.adopt(l)
	for _, seq := range unwanted {
		l.settle(seq)
	}
}

func (w *Worker) adoptedAttempt(left *leftAttempt) *attempt {
	a := &attempt{
		item: left.item.Item, executor: job.Executor{Exec: &job.Exec{}}, dir: left.dir,
		limit: timeLimit{left.item.Timeout, left.item.Total}, hub: newHub(&w.heads),
	}
	a.item.Ref = left.lock.ref()
	a.hub.resumed()
	a.ctx, a.cancel = context.WithCancelCause(context.Background())
	return a
}

// resume goes on with what was adopted.
func (w *Worker) resume() {
	for _, a := range w.adopted {
		w.log.Info("a command of this worker's earlier life goes on", refAttrs(a.item.Ref, a.item.Job)...)
		w.table.resume(a)
		if d := a.adopted; d.at != 0 {
			a.began = d.at
			w.begun(a, d.at)
			if d.first.Started != 0 {
				w.table.startedBefore(a, d.first.Started)
			}
		}
		go w.runAttempt(a)
	}
	w.adopted = nil
}

// goOn follows a command of an earlier life to its end.
func (w *Worker) goOn(a *attempt) ended {
	d := a.adopted
	return w.awaitCommand(a, d.link, d.s, d.first.process)
}
