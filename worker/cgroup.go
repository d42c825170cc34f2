package worker

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// cgroups is where the supervisor may make control groups: its own group when
// that is delegated to it or is the root of what it sees, or the delegated group
// above (systemd's DelegateSubgroup). Nil where the system allows none; then
// process groups and the mark in the environment do the work, and only memory
// is limited.
type cgroups struct {
	dir         string
	cpu, memory bool
}

const cgroupPrefix = "axd-"

// openCgroups makes the supervisor's group, and removes those of supervisors
// that are gone.
func openCgroups() *cgroups {
	own, path := ownCgroup()
	if own == "" {
		return nil
	}
	candidates := []string{filepath.Dir(own), own}
	if path == "/" {
		candidates = []string{own}
	}
	for _, base := range candidates {
		if path != "/" && !delegated(base) {
			continue
		}
		dir := filepath.Join(base, cgroupPrefix+strconv.Itoa(os.Getpid()))
		if os.Mkdir(dir, 0o755) != nil { //nolint:gosec // a kernel file system
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, "cgroup.kill")); err != nil { // before Linux 5.14
			_ = os.Remove(dir)
			continue
		}
		removeStale(base)
		g := &cgroups{dir: dir}
		g.cpu = enable(base, "cpu") && enable(dir, "cpu")
		g.memory = enable(base, "memory") && enable(dir, "memory")
		return g
	}
	return nil
}

// ownCgroup returns this process's cgroup v2 directory, and its path as the
// kernel shows it; "" where there is none.
func ownCgroup() (dir, path string) {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", ""
	}
	for line := range strings.Lines(string(b)) {
		if p, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			path = p
		}
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil || path == "" {
		return "", ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// ... root mountpoint options ... - fstype source options
		fields := strings.Fields(lines.Text())
		dash := slices.Index(fields, "-")
		if dash < 5 || dash+1 >= len(fields) || fields[dash+1] != "cgroup2" {
			continue
		}
		if rest, ok := strings.CutPrefix(path, strings.TrimSuffix(fields[3], "/")); ok {
			return filepath.Join(fields[4], rest), path
		}
	}
	return "", ""
}

// delegated tells whether systemd handed the group over.
func delegated(dir string) bool {
	var b [8]byte
	for _, name := range []string{"user.delegate", "trusted.delegate"} {
		if n, err := unix.Getxattr(dir, name, b[:]); err == nil && string(b[:n]) == "1" {
			return true
		}
	}
	return false
}

func enable(dir, controller string) bool {
	return os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+controller), 0) == nil
}

// removeStale ends and removes the groups of supervisors that are gone.
func removeStale(base string) {
	stale, _ := filepath.Glob(filepath.Join(base, cgroupPrefix+"*"))
	for _, dir := range stale {
		pid, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), cgroupPrefix))
		if err != nil || unix.Kill(pid, 0) != unix.ESRCH {
			continue
		}
		_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
		inner, _ := filepath.Glob(filepath.Join(dir, "*", "cgroup.procs"))
		for _, name := range inner {
			_ = os.Remove(filepath.Dir(name))
		}
		_ = os.Remove(dir) // fails while the killed are not reaped; the next supervisor tries again
	}
}

// close removes the supervisor's group once its commands are gone.
func (g *cgroups) close() {
	if g != nil {
		_ = os.Remove(g.dir)
	}
}

// cgroup is one command's control group. The zero value is none.
type cgroup struct {
	dir    string
	handle *os.File
	memory bool
}

// create makes a command's group with its limits; note says which limit the
// system does not allow.
func (g *cgroups) create(seq uint64, limits startLimits) (c cgroup, note string) {
	if limits.CPU > 0 && (g == nil || !g.cpu) {
		note = "the CPU limit is not enforced: this worker has no delegated cgroup with the cpu controller"
	}
	if g == nil {
		return cgroup{}, note
	}
	dir := filepath.Join(g.dir, strconv.FormatUint(seq, 10))
	if os.Mkdir(dir, 0o755) != nil { //nolint:gosec // a kernel file system
		return cgroup{}, note
	}
	handle, err := os.Open(dir)
	if err != nil {
		_ = os.Remove(dir)
		return cgroup{}, note
	}
	c = cgroup{dir: dir, handle: handle}
	if limits.CPU > 0 && g.cpu {
		const period = 100_000 // µs
		quota := fmt.Sprintf("%d %d", max(int64(limits.CPU*period), 1000), period)
		if err := os.WriteFile(filepath.Join(dir, "cpu.max"), []byte(quota), 0); err != nil {
			note = "the CPU limit is not enforced: " + err.Error()
		}
	}
	if limits.Memory > 0 && g.memory {
		c.memory = os.WriteFile(filepath.Join(dir, "memory.max"), []byte(strconv.FormatInt(limits.Memory, 10)), 0) == nil
		_ = os.WriteFile(filepath.Join(dir, "memory.swap.max"), []byte("0"), 0) // absent where swap isn't accounted
	}
	return c, note
}

func (c cgroup) limitsMemory() bool { return c.memory }

// join makes the new process start inside the group.
func (c cgroup) join(attr *syscall.SysProcAttr) {
	if c.handle != nil {
		attr.UseCgroupFD, attr.CgroupFD = true, int(c.handle.Fd())
	}
}

// kill ends every member, also those that fork meanwhile.
func (c cgroup) kill() {
	if c.dir != "" {
		_ = os.WriteFile(filepath.Join(c.dir, "cgroup.kill"), []byte("1"), 0)
	}
}

// outside lists the members that are not in the process group.
func (c cgroup) outside(group int) []int {
	b, err := os.ReadFile(filepath.Join(c.dir, "cgroup.procs"))
	if err != nil {
		return nil
	}
	var pids []int
	for _, field := range strings.Fields(string(b)) {
		if pid, err := strconv.Atoi(field); err == nil {
			if s, ok := readStat(pid); ok && s.group != group && s.state != 'Z' {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

func (c cgroup) close() {
	if c.handle != nil {
		_ = c.handle.Close()
		_ = os.Remove(c.dir)
	}
}
