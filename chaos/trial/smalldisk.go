package trial

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/axd-project/axd/chaos/process"
)

const (
	smallServer = "s2"
	smallSize   = "200m"
	smallWait   = 5 * time.Second
	exitFull    = 79 // of a server without room; see docs/reference/exit-codes.md
)

// errNoSmallDisk skips what needs one.
var errNoSmallDisk = errors.New("this machine lets nobody but root make a small disk: it takes user namespaces, unshare, nsenter and mount")

// smallDisk is a file system of a bounded size, in memory. It lies in a mount
// namespace of its own, which a process holds, so that it takes no root.
type smallDisk struct {
	holder  *process.Group
	pid     int
	outside string // where the directory is seen from here
}

const holdScript = `mount -t tmpfs -o size="$2" tmpfs "$1" && exec sleep 1000000`

// newSmallDisk makes one in a directory, which it makes as well.
func newSmallDisk(dir string) (*smallDisk, error) {
	for _, program := range []string{"unshare", "nsenter"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, errNoSmallDisk
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	d := &smallDisk{holder: process.NewGroup(false)}
	p := d.holder.Add(process.Command{
		Name: "disk", Path: "unshare", Args: []string{"-Urm", "sh", "-c", holdScript, "disk", dir, smallSize}, Log: dir + "-disk.log",
	})
	if err := p.Start(); err != nil {
		return d, err
	}
	d.pid = p.PID()
	d.outside = filepath.Join("/proc", strconv.Itoa(d.pid), "root", dir)
	for end := time.Now().Add(smallWait); time.Now().Before(end) && p.Running(); time.Sleep(10 * time.Millisecond) {
		if in, err := process.InMemory(d.outside); err == nil && in && !sameDisk(d.outside, dir) {
			return d, nil
		}
	}
	d.holder.Close()
	return nil, errNoSmallDisk
}

// sameDisk tells whether two directories lie on one file system.
func sameDisk(a, b string) bool {
	var x, y syscall.Stat_t
	return syscall.Stat(a, &x) != nil || syscall.Stat(b, &y) != nil || x.Dev == y.Dev
}

// wrap starts a server where the disk is seen.
func (d *smallDisk) wrap(server string) []string {
	if server != smallServer {
		return nil
	}
	return []string{"nsenter", "--target", strconv.Itoa(d.pid), "--user", "--mount", "--preserve-credentials", "--"}
}

func (d *smallDisk) filler() string { return filepath.Join(d.outside, "filler") }

// fill leaves no room.
func (d *smallDisk) fill() error {
	f, err := os.Create(d.filler())
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	for _, size := range []int{1 << 20, 4096} {
		block := make([]byte, size)
		for err = nil; err == nil; {
			_, err = f.Write(block)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			return err
		}
	}
	return nil
}

func diskFull(ctx context.Context, st *stage) error {
	return st.rounds(ctx, func(ctx context.Context) error {
		s := st.Server(smallServer)
		f := st.fault(electBound, "the disk of %s is full", s.Name())
		if err := st.small.fill(); err != nil {
			return err
		}
		if err := st.endsFull(ctx, s, "with a full disk"); err != nil {
			return err
		}
		if err := st.recovered(ctx, f); err != nil {
			return err
		}
		if err := s.Start(); err != nil {
			return err
		}
		if err := st.endsFull(ctx, s, "started on a full disk"); err != nil {
			return err
		}
		f.acted("it ended with code %d, and would not start", exitFull)
		if err := os.Remove(st.small.filler()); err != nil {
			return err
		}
		defer f.end(false)
		return st.restart(ctx, s)
	})
}

// endsFull wants a server to end for want of room.
func (st *stage) endsFull(ctx context.Context, s *process.Server, how string) error {
	select {
	case <-s.Done():
	case <-time.After(st.speed.scale(20 * time.Second)):
		return &brokenError{fmt.Errorf("server %s goes on %s", s.Name(), how)}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if code := s.ExitCode(); code != exitFull {
		return &brokenError{fmt.Errorf("server %s %s ended with code %d, not %d; the end of its log:\n%s", s.Name(), how, code, exitFull, s.Tail())}
	}
	return nil
}
