package server

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/raftnode"
)

// sizedDisk is a disk that says how full it is.
type sizedDisk struct {
	vfs.FS
	percentFree atomic.Uint64
}

func (d *sizedDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	free := d.percentFree.Load()
	return vfs.DiskUsage{TotalBytes: 100 << 30, AvailBytes: free << 30, UsedBytes: (100 - free) << 30}, nil
}

// A nearly full disk refuses what would fill it, with a code of its own, and takes
// tasks again once there is room.
func TestANearlyFullDiskTakesNothingNew(t *testing.T) {
	t.Parallel()
	disk := &sizedDisk{FS: vfs.Default}
	disk.percentFree.Store(4)
	n := start(t, Config{Name: "s1", DataDir: filepath.Join(t.TempDir(), "s1"), Gossip: freeAddress(t), Host: Host{FS: disk}})
	n.await(t)
	c := clientOf(t, n)
	_, err := c.Submit(t.Context(), client.SubmitRequest{Executor: job.Executor{Handler: "h"}})
	var told *client.Error
	if !errors.As(err, &told) || told.Code != job.CodeDiskFull || !strings.Contains(told.Error(), "less than 5 %") {
		t.Fatalf("with 4 %% free a submit gave %v", err)
	}
	if _, err := c.Tasks(t.Context(), client.TaskQuery{}); err != nil {
		t.Errorf("with 4 %% free a read gave %v", err)
	}
	disk.percentFree.Store(8)
	alerted := func() string { // and what to do
		alerts, err := c.Alerts(t.Context(), "", 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range alerts.Alerts {
			if a.Kind == fsm.AlertDiskLow {
				return a.Text
			}
		}
		return ""
	}
	for end := time.Now().Add(within); alerted() == "" && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
	}
	if text := alerted(); !strings.Contains(text, "shorten --retention") || !strings.Contains(text, "enlarge the disk") {
		t.Errorf("the alert says %q", text)
	}
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if _, err = c.Submit(t.Context(), client.SubmitRequest{Executor: job.Executor{Handler: "h"}}); err == nil {
			return
		}
	}
	t.Errorf("with 8 %% free a submit gave %v", err)
}

// Whichever write of the start finds the disk full, the server says so and ends by
// the code of a full disk; with room again it starts on the same directory.
func TestAFullDiskAtStartIsSaid(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "s1")
	var left atomic.Int64
	var full atomic.Bool
	disk := errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		grows := op.Kind == errorfs.OpCreate || op.Kind == errorfs.OpFileWrite
		if full.Load() && grows && left.Add(-1) < 0 {
			return &wrapped{syscall.ENOSPC}
		}
		return nil
	}))
	open := func() (*Server, error) {
		return New(Config{
			Name: "s1", DataDir: dir, HTTP: "127.0.0.1:0", RPC: "127.0.0.1:0", Gossip: "127.0.0.1:0", Logger: testLog(t),
			Host: Host{FS: disk}, Exit: func(code int) { panic(fmt.Sprint("exit code ", code)) },
		})
	}
	full.Store(true)
	for _, writes := range []int64{0, 1, 2, 4, 6} {
		left.Store(writes)
		s, err := open()
		if err == nil {
			s.release()
			t.Fatalf("with room for %d writes the server starts", writes)
		}
		if ExitCode(err) != raftnode.ExitDiskFull || !strings.Contains(err.Error(), "no space left on device") {
			t.Errorf("with room for %d writes: exit code %d, %v", writes, ExitCode(err), err)
		}
	}
	full.Store(false)
	s, err := open()
	if err != nil {
		t.Fatal(err)
	}
	s.release()
}

// A server that ended since its disk was full is started again and finds it as
// full: it says so before it opens, and so writes to, its state.
func TestAFullDiskIsSaidBeforeTheStateIsOpened(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "s1")
	var writes atomic.Int64
	disk := &sizedDisk{FS: errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileWrite && strings.Contains(op.Path, "state") {
			writes.Add(1)
		}
		return nil
	}))}
	_, err := New(Config{
		Name: "s1", DataDir: dir, HTTP: "127.0.0.1:0", RPC: "127.0.0.1:0", Gossip: "127.0.0.1:0", Logger: testLog(t),
		Host: Host{FS: disk},
	})
	if ExitCode(err) != raftnode.ExitDiskFull || !strings.Contains(err.Error(), "has 0 MiB free") {
		t.Errorf("exit code %d, %v", ExitCode(err), err)
	}
	if writes.Load() > 0 {
		t.Errorf("the state was written %d times", writes.Load())
	}
}

// wrapped is an error that says what failed, as the os package's do.
type wrapped struct{ err error }

func (w *wrapped) Error() string { return "write a file: " + w.err.Error() }
func (w *wrapped) Unwrap() error { return w.err }

// The end of a server names its code and what to do next.
func TestTheEndSaysWhatToDo(t *testing.T) {
	for _, tt := range []struct {
		code int
		err  error
		want int
		text string
	}{
		{raftnode.ExitStateFailed, errors.New("corrupt data"), raftnode.ExitStateFailed, "move its data directory /d away"},
		{raftnode.ExitStateFailed, &wrapped{syscall.ENOSPC}, raftnode.ExitDiskFull, "free some space on the disk of /d"},
		{raftnode.ExitLogStalled, errors.New("the disk has stalled"), raftnode.ExitLogStalled, "look at the disk"},
		{raftnode.ExitUnknownVerb, errors.New("written by a newer axd"), raftnode.ExitUnknownVerb, "newer build"},
	} {
		var log bytes.Buffer
		var code int
		s := &Server{cfg: Config{DataDir: "/d", Exit: func(c int) { code = c }}, log: slog.New(slog.NewTextHandler(&log, nil))}
		s.fatal(tt.code, tt.err)
		if code != tt.want || !strings.Contains(log.String(), tt.text) || !strings.Contains(log.String(), fmt.Sprint("exit_code=", tt.want)) {
			t.Errorf("%v: exit code %d and %q", tt.err, code, log.String())
		}
	}
}

// Whoever sees a server end by a code must find it.
func TestEveryExitCodeIsDocumented(t *testing.T) {
	doc, err := os.ReadFile("../docs/reference/exit-codes.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("../raftnode/node.go")
	if err != nil {
		t.Fatal(err)
	}
	codes := regexp.MustCompile(`(?m)^\tExit\w+ += (\d+) //`).FindAllStringSubmatch(string(source), -1)
	if len(codes) < 10 {
		t.Fatalf("only %d codes were found", len(codes))
	}
	for _, c := range codes {
		if !strings.Contains(string(doc), "\n| "+c[1]+" | ") {
			t.Errorf("docs/reference/exit-codes.md lacks code %s", c[1])
		}
	}
}
