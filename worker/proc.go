package worker

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// process names a process beyond the reuse of its number.
type process struct {
	PID   int    `msgpack:"p" json:"pid"`
	Start uint64 `msgpack:"s" json:"start"` // clock ticks since the machine's boot; 0: unknown
}

// procStat is what /proc/PID/stat tells of a process.
type procStat struct {
	process
	state  byte
	parent int
	group  int
}

// readStat reads a process's entry; ok is false when there is none.
func readStat(pid int) (s procStat, ok bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return s, false
	}
	// The name in parentheses may hold blanks and parentheses itself.
	end := bytes.LastIndexByte(b, ')')
	if end < 0 {
		return s, false
	}
	fields := strings.Fields(string(b[end+1:]))
	const start = 22 - 3 // field 22, counted from field 3
	if len(fields) <= start {
		return s, false
	}
	s.PID, s.state = pid, fields[0][0]
	s.parent, _ = strconv.Atoi(fields[1])
	s.group, _ = strconv.Atoi(fields[2])
	s.Start, _ = strconv.ParseUint(fields[start], 10, 64)
	return s, true
}

// lives tells whether the process is there, and no zombie.
func (p process) lives() bool {
	s, ok := readStat(p.PID)
	return ok && s.process == p && s.state != 'Z' && s.state != 'X'
}

// readStats reads every process that is not a zombie.
func readStats() []procStat {
	names, err := readNames("/proc")
	if err != nil {
		return nil
	}
	stats := make([]procStat, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if s, ok := readStat(pid); ok && s.state != 'Z' && s.state != 'X' {
				stats = append(stats, s)
			}
		}
	}
	return stats
}

func readNames(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// children returns this process's children, zombies included where the kernel
// lists them without a walk over all processes.
func children() []int {
	self := strconv.Itoa(os.Getpid())
	threads, err := filepath.Glob("/proc/" + self + "/task/*/children")
	if err == nil && len(threads) > 0 {
		var pids []int
		for _, name := range threads {
			b, err := os.ReadFile(name)
			if err != nil {
				continue // the thread has ended
			}
			for _, field := range strings.Fields(string(b)) {
				if pid, err := strconv.Atoi(field); err == nil {
					pids = append(pids, pid)
				}
			}
		}
		return pids
	}
	var pids []int
	for _, s := range readStats() { // a kernel without CONFIG_PROC_CHILDREN
		if s.parent == os.Getpid() {
			pids = append(pids, s.PID)
		}
	}
	return pids
}

// withDescendants returns the roots that live and everything below them.
func withDescendants(stats []procStat, roots map[int]bool) []int {
	below := make(map[int][]int, len(stats))
	var found []int
	for _, s := range stats {
		below[s.parent] = append(below[s.parent], s.PID)
		if roots[s.PID] {
			found = append(found, s.PID)
		}
	}
	seen := map[int]bool{}
	for i := 0; i < len(found); i++ {
		if seen[found[i]] {
			continue
		}
		seen[found[i]] = true
		found = append(found, below[found[i]]...)
	}
	out := found[:0]
	for pid := range seen {
		out = append(out, pid)
	}
	return out
}

// groupAlive tells whether a process group has a member, zombies included.
func groupAlive(group int) bool {
	err := unix.Kill(-group, 0)
	return err == nil || errors.Is(err, unix.EPERM)
}

// machineBoot returns the id of the machine's boot: process numbers of another
// boot mean nothing.
func machineBoot() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// killResidue ends every process that an earlier life left of the marked
// attempts, and waits until they are gone, at most limit. It returns how many it
// found.
func killResidue(marks []residueMark, limit time.Duration) int {
	found := map[int]bool{}
	for deadline := boottime() + limit; len(marks) > 0 && boottime() < deadline; {
		targets := residueOf(marks, readStats())
		if len(targets) == 0 {
			break
		}
		for _, pid := range targets {
			found[pid] = true
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		time.Sleep(killPause)
	}
	return len(found)
}

// residueMark tells how to find the processes of one attempt.
type residueMark struct {
	mark   string  // environment entry
	leader process // first process of the group
}

const killPause = 10 * time.Millisecond // between two looks for processes that should be gone

// residueOf picks the processes of the marked attempts and what is below them.
// A process is known by its environment, or by the group that its leader, whose
// start time still matches, leads.
func residueOf(marks []residueMark, stats []procStat) []int {
	byEntry := make(map[string]bool, len(marks))
	leaders := make(map[process]bool, len(marks))
	for _, m := range marks {
		byEntry[m.mark] = true
		if m.leader.Start != 0 {
			leaders[m.leader] = true
		}
	}
	groups := map[int]bool{}
	for _, s := range stats {
		if leaders[s.process] {
			groups[s.PID] = true
		}
	}
	roots := map[int]bool{}
	for _, s := range stats {
		if s.PID == os.Getpid() || s.PID == 1 {
			continue
		}
		if groups[s.group] || anyMarked(s.PID, byEntry) {
			roots[s.PID] = true
		}
	}
	return withDescendants(stats, roots)
}

// anyMarked tells whether a process carries one of the entries in its
// environment. Of a process of another user only root can tell.
func anyMarked(pid int, entries map[string]bool) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	for part := range bytes.SplitSeq(env, []byte{0}) {
		if entries[string(part)] {
			return true
		}
	}
	return false
}
