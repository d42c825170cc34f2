package worker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/axd-project/axd/internal/timeslice"
)

// The exit codes that shells give a command that can't be run.
const (
	codeNotExecutable = 126
	codeNotFound      = 127
)

// startError is a command that could not be run; code is the exit code that a
// shell would give, 0 when it has none for the cause.
type startError struct {
	code int
	text string
}

func (e *startError) Error() string { return e.text }

// forked is a command's first process, as the starting thread hands it to the
// supervisor's loop.
type forked struct {
	process
	at      time.Duration
	feed    *stdinFeed
	streams [2]*stream
	pulse   *pulse
}

// fork starts a command in a session and process group of its own. It must run
// on the supervisor's starting thread, whose end would kill the command
// (PR_SET_PDEATHSIG belongs to the thread).
func fork(o *startOrder, group cgroup, out *outbox) (f forked, err error) {
	path, err := lookPath(o.Argv[0], o.Env, o.Dir)
	if err != nil {
		return f, err
	}
	stdin, feed, err := openStdin(o.Stdin)
	if err != nil {
		return f, err
	}
	defer stdin.Close()
	outR, outW, err := os.Pipe()
	if err != nil {
		return f, errors.Join(err, feed.Close())
	}
	defer outW.Close()
	errR, errW, err := os.Pipe()
	if err != nil {
		return f, errors.Join(err, feed.Close(), outR.Close())
	}
	defer errW.Close()
	beats, pulse, err := openPulse(time.Duration(o.Pulse))
	if err != nil {
		return f, errors.Join(err, feed.Close(), outR.Close(), errR.Close())
	}
	defer beats.Close()

	argv := o.Argv
	if o.Limits.Memory > 0 && !group.limitsMemory() {
		path, argv = limitedCommand(o.Limits.Memory, path, argv)
	}
	attr := &syscall.ProcAttr{
		Dir: o.Dir, Env: o.Env,
		Files: []uintptr{stdin.Fd(), outW.Fd(), errW.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	}
	if beats != nil {
		attr.Files = append(attr.Files, beats.Fd()) // heartbeatFD
	}
	if who := o.Identity; who != nil {
		attr.Sys.Credential = &syscall.Credential{Uid: who.UID, Gid: who.GID, Groups: who.Groups}
	}
	group.join(attr.Sys)
	var pid int
	timeslice.Usual(func() { pid, err = syscall.ForkExec(path, argv, attr) })
	if err != nil {
		return f, errors.Join(explainStart(err, path, o.Dir), feed.Close(), outR.Close(), errR.Close(), pulse.close())
	}
	f = forked{
		process: process{PID: pid}, at: boottime(), feed: feed, pulse: pulse,
		streams: [2]*stream{newStream(o.Seq, false, outR, out), newStream(o.Seq, true, errR, out)},
	}
	pulse.begin(f.at)
	if s, ok := readStat(pid); ok {
		f.process = s.process
	}
	return f, nil
}

// openStdin returns what the command reads, and the end to write into it.
func openStdin(input []byte) (stdin *os.File, feed *stdinFeed, err error) {
	if len(input) == 0 {
		stdin, err = os.Open(os.DevNull)
		return stdin, nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	return r, &stdinFeed{w}, nil
}

// stdinFeed writes a command's input; nil when there is none.
type stdinFeed struct{ pipe *os.File }

// write gives the command its input. A command need not read it, so an error
// is no news; Close unblocks it.
func (f *stdinFeed) write(b []byte) {
	_, _ = f.pipe.Write(b)
	_ = f.pipe.Close()
}

// Close ends the writing. Closing twice does no harm.
func (f *stdinFeed) Close() error {
	if f == nil {
		return nil
	}
	if err := f.pipe.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// lookPath finds the command as a shell started with this environment would.
func lookPath(name string, env []string, dir string) (string, error) {
	if strings.ContainsRune(name, '/') {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, nil // exec tells what is wrong with it
	}
	path := ""
	for _, entry := range env {
		if v, ok := strings.CutPrefix(entry, "PATH="); ok {
			path = v // the last one counts
		}
	}
	for _, d := range filepath.SplitList(path) {
		if !filepath.IsAbs(d) {
			d = filepath.Join(dir, d)
		}
		full := filepath.Join(d, name)
		if info, err := os.Stat(full); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return full, nil
		}
	}
	return "", &startError{codeNotFound, fmt.Sprintf("command %q not found in PATH", name)}
}

// explainStart says which of path and directory is at fault: the kernel's
// error names neither.
func explainStart(err error, path, dir string) error {
	if _, statErr := os.Stat(dir); statErr != nil {
		return &startError{0, fmt.Sprintf("directory of the command: %v", statErr)}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &startError{codeNotFound, fmt.Sprintf("command %q not found, or the interpreter that it names", path)}
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.ENOEXEC), errors.Is(err, unix.EISDIR):
		return &startError{codeNotExecutable, fmt.Sprintf("command %q can't be executed: %v", path, err)}
	}
	return &startError{0, fmt.Sprintf("start %q: %v", path, err)}
}

const limitFlag = "--limit-memory"

// limitedCommand wraps a command in this program, which bounds its own address
// space and then becomes the command. Between fork and exec Go can't do that.
func limitedCommand(memory int64, path string, argv []string) (string, []string) {
	wrapped := append([]string{}, os.Args...)
	wrapped = append(wrapped, limitFlag, strconv.FormatInt(memory, 10), path)
	return "/proc/self/exe", append(wrapped, argv...)
}

// becomeLimited is the other half of limitedCommand: it returns only where the
// command can't be run.
func becomeLimited(args []string) int {
	if len(args) < 3 {
		fmt.Fprintln(os.Stderr, "axd: internal flag "+limitFlag+" needs a size, a path and a command")
		return codeNotExecutable
	}
	memory, err := strconv.ParseUint(args[0], 10, 64)
	if err == nil {
		err = unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: memory, Max: memory})
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "axd: set the memory limit: %v\n", err)
		return codeNotExecutable
	}
	err = syscall.Exec(args[1], args[2:], os.Environ())
	fmt.Fprintf(os.Stderr, "axd: start %q: %v\n", args[1], err)
	if errors.Is(err, fs.ErrNotExist) {
		return codeNotFound
	}
	return codeNotExecutable
}
