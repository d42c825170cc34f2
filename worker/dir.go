package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
)

// The worker's data directory:
//
//	worker.json                 whose directory this is; locked while a worker runs
//	attempts/NS/ID.TOKEN/       start lock: whoever makes it may start the attempt
//	    lock                    what was started, and the machine's boot
//	    item                    of a command that outlives the worker: what was dispatched
//	    process                 the command's first process, and when it started
//	    io/payload io/output    what the command reads and may write
//	    work/                   the command's directory
//	supervisor                  socket of the supervisor, for a next life of the worker
//	journal                     what the leader has not acknowledged
//	journal.broken              the latest journal in which damage was found
type dataDir struct {
	root  string
	file  *os.File // worker.json, held by flock
	owner dirOwner
}

type dirOwner struct {
	Name      string `json:"name"`
	ClusterID string `json:"cluster_id,omitempty"`
}

// startLock is the content of an attempt's lock file.
type startLock struct {
	Namespace   string    `json:"namespace"`
	ID          job.ID    `json:"id"`
	Attempt     uint32    `json:"attempt"`
	Token       job.Token `json:"token"`
	MachineBoot string    `json:"machine_boot"`
	WorkerBoot  string    `json:"worker_boot"`
}

func (l *startLock) ref() rpc.Ref {
	return rpc.Ref{Namespace: l.Namespace, ID: l.ID, Attempt: l.Attempt, Token: rpc.Token(l.Token.Bytes())}
}

// openDir takes the directory for a worker of this name, or says who has it.
func openDir(root, name string) (*dataDir, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	for _, dir := range []string{root, filepath.Join(root, "attempts")} {
		if err := os.MkdirAll(dir, dirMode()); err != nil {
			return nil, fmt.Errorf("make data directory: %w", err)
		}
	}
	f, err := os.OpenFile(filepath.Join(root, "worker.json"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open data directory: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, job.Conflict("data_dir", "is in use by another worker; give each worker a directory of its own", root)
		}
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	d := &dataDir{root: root, file: f}
	if err := d.claim(name); err != nil {
		_ = f.Close()
		return nil, err
	}
	return d, nil
}

// dirMode lets other users pass through where commands may run as them.
func dirMode() os.FileMode {
	if os.Geteuid() == 0 {
		return 0o711
	}
	return 0o700
}

// claim checks whose directory it is. An empty file is a new directory.
func (d *dataDir) claim(name string) error {
	b, err := os.ReadFile(d.file.Name())
	if err != nil {
		return fmt.Errorf("read %s: %w", d.file.Name(), err)
	}
	if len(b) == 0 {
		d.owner = dirOwner{Name: name}
		return d.writeOwner()
	}
	if err := json.Unmarshal(b, &d.owner); err != nil {
		return fmt.Errorf("read %s: %w", d.file.Name(), err)
	}
	if d.owner.Name != name {
		return job.Conflict("data_dir", fmt.Sprintf("belongs to worker %q; start that name or choose another directory", d.owner.Name), name)
	}
	return nil
}

// setCluster remembers the cluster at the first session.
func (d *dataDir) setCluster(id string) error {
	if id == "" || d.owner.ClusterID != "" {
		return nil
	}
	d.owner.ClusterID = id
	return d.writeOwner()
}

// writeOwner writes in place, since the file's own lock must stay on it.
func (d *dataDir) writeOwner() error {
	b, err := json.Marshal(d.owner)
	if err != nil {
		return fmt.Errorf("encode worker.json: %w", err)
	}
	if _, err := d.file.WriteAt(append(b, '\n'), 0); err != nil {
		return fmt.Errorf("write worker.json: %w", err)
	}
	if err := d.file.Sync(); err != nil {
		return fmt.Errorf("write worker.json: %w", err)
	}
	return nil
}

func (d *dataDir) close() error { return d.file.Close() }

// attemptDir is the directory of one attempt, which is also its start lock.
type attemptDir string

func (d *dataDir) attempt(ref rpc.Ref) attemptDir {
	return attemptDir(filepath.Join(d.root, "attempts", ref.Namespace, refName(ref)))
}

func refName(ref rpc.Ref) string { return job.ID(ref.ID).String() + "." + tokenOf(ref).String() }

func tokenOf(ref rpc.Ref) job.Token { return job.TokenOf(ref.Token) }

func (a attemptDir) lock() string    { return filepath.Join(string(a), "lock") }
func (a attemptDir) process() string { return filepath.Join(string(a), "process") }
func (a attemptDir) item() string    { return filepath.Join(string(a), "item") }
func (a attemptDir) payload() string { return filepath.Join(string(a), "io", "payload") }
func (a attemptDir) output() string  { return filepath.Join(string(a), "io", "output") }
func (a attemptDir) work() string    { return filepath.Join(string(a), "work") }

// mark is the environment entry by which a command's processes are known. The
// path is unique on this machine, since the data directory is locked.
func (a attemptDir) mark() string { return "AXD_PAYLOAD_FILE=" + a.payload() }

// errStarted tells that the attempt's start lock is taken.
var errStarted = errors.New("attempt was started already")

// take makes the start lock. It is not synced: it is needed only while its
// processes may live, thus not beyond the machine's boot.
func (a attemptDir) take(l startLock) error {
	if err := os.MkdirAll(filepath.Dir(string(a)), dirMode()); err != nil {
		return fmt.Errorf("make attempt directory: %w", err)
	}
	if err := os.Mkdir(string(a), dirMode()); err != nil {
		if errors.Is(err, os.ErrExist) {
			return errStarted
		}
		return fmt.Errorf("make attempt directory: %w", err)
	}
	b, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("encode start lock: %w", err)
	}
	if err := os.WriteFile(a.lock(), b, 0o600); err != nil {
		return fmt.Errorf("write start lock: %w", err)
	}
	return nil
}

// prepare makes the files of a command, which belong to who it runs as.
func (a attemptDir) prepare(payload []byte, who *identity) error {
	for _, dir := range []string{filepath.Dir(a.payload()), a.work()} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return fmt.Errorf("make attempt directory: %w", err)
		}
	}
	if err := os.WriteFile(a.payload(), payload, 0o600); err != nil {
		return fmt.Errorf("write payload: %w", err)
	}
	if err := os.WriteFile(a.output(), nil, 0o600); err != nil {
		return fmt.Errorf("make output file: %w", err)
	}
	if who == nil {
		return nil
	}
	for _, name := range []string{filepath.Dir(a.payload()), a.work(), a.payload(), a.output()} {
		if err := os.Chown(name, int(who.UID), int(who.GID)); err != nil {
			return fmt.Errorf("hand the attempt directory to user %s: %w", who.Name, err)
		}
	}
	return nil
}

// firstProcess is the content of an attempt's process file.
type firstProcess struct {
	process
	Started int64 `json:"started_ms,omitempty"` // by the cluster's clock, as the leader may have been told
}

// recordProcess notes the command's first process for a later life.
func (a attemptDir) recordProcess(p process, started int64) error {
	b, err := json.Marshal(firstProcess{p, started})
	if err != nil {
		return fmt.Errorf("encode process: %w", err)
	}
	if err := os.WriteFile(a.process(), b, 0o600); err != nil {
		return fmt.Errorf("record process: %w", err)
	}
	return nil
}

// readOutput reads what the command wrote into its output file. The command may
// have put anything in its place: links are not followed, and only a regular
// file counts.
func (a attemptDir) readOutput() (output []byte, note string) {
	fd, err := unix.Open(a.output(), unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, "output file: " + err.Error()
	}
	f := os.NewFile(uintptr(fd), a.output())
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, "output file: " + err.Error()
	case !info.Mode().IsRegular():
		return nil, "output file: not a regular file"
	case info.Size() > rpc.MaxOutputBytes:
		return nil, fmt.Sprintf("output of %d bytes is over the limit of %d and was not kept", info.Size(), rpc.MaxOutputBytes)
	case info.Size() == 0:
		return nil, ""
	}
	b := make([]byte, info.Size())
	n, err := f.ReadAt(b, 0)
	if n < len(b) {
		return nil, fmt.Sprintf("output file: %v", err)
	}
	return b, ""
}

// remove frees the start lock and deletes what the attempt left on disk.
func (a attemptDir) remove() error { return os.RemoveAll(string(a)) }
