package process

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clockTick is the unit of the kernel's times of a process: 100 a second on
// every Linux (USER_HZ).
const clockTick = 10 * time.Millisecond

// Usage is what a process takes from the machine.
type Usage struct {
	RSS int64         // bytes resident; 0 while it doesn't run
	CPU time.Duration // user and system, of all its lives, to 10 ms
}

// Usage reads what the process uses now.
func (p *Process) Usage() (Usage, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := Usage{CPU: p.spent}
	switch {
	case p.cmd == nil:
		return u, nil
	case isClosed(p.done):
		u.CPU += cpuOf(p.cmd.ProcessState)
		return u, nil
	}
	rss, cpu, err := readProc(p.cmd.Process.Pid)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return u, nil // it ended just now
	}
	u.RSS, u.CPU = rss, u.CPU+cpu
	return u, err
}

func cpuOf(s *os.ProcessState) time.Duration {
	if s == nil {
		return 0
	}
	return s.UserTime() + s.SystemTime()
}

// readProc reads a process's resident bytes and processor time.
func readProc(pid int) (rss int64, cpu time.Duration, err error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	data, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return 0, 0, err
	}
	return parseStat(data)
}

// The fields of /proc/PID/stat after the program's name, which may hold spaces
// and brackets itself. See proc(5), counted from the third.
const (
	statUser = 14 - 3 // ticks
	statSys  = 15 - 3 // ticks
	statRSS  = 24 - 3 // pages
)

func parseStat(data []byte) (rss int64, cpu time.Duration, err error) {
	rest := afterName(data)
	fields := strings.Fields(string(rest))
	if len(fields) <= statRSS {
		return 0, 0, fmt.Errorf("/proc/PID/stat has %d fields", len(fields))
	}
	var values [3]int64
	for i, at := range []int{statUser, statSys, statRSS} {
		if values[i], err = strconv.ParseInt(fields[at], 10, 64); err != nil {
			return 0, 0, fmt.Errorf("/proc/PID/stat: %w", err)
		}
	}
	return values[2] * int64(os.Getpagesize()), time.Duration(values[0]+values[1]) * clockTick, nil
}

// afterName is what follows the program's name in /proc/PID/stat.
func afterName(stat []byte) []byte { return stat[bytes.LastIndexByte(stat, ')')+1:] }

// DiskUsage is what the files below a directory take on disk, in bytes: blocks
// that are written, each file once however many links it has. Files that vanish
// meanwhile count as gone.
func DiskUsage(dir string) (int64, error) {
	var total int64
	seen := map[uint64]bool{}
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return ignoreGone(err)
		}
		info, err := d.Info()
		if err != nil {
			return ignoreGone(err)
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || seen[st.Ino] {
			return nil
		}
		seen[st.Ino] = true
		total += st.Blocks * 512
		return nil
	})
	return total, err
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// memoryMagics are the file systems whose files live in memory, so that a sync
// costs nothing: tmpfs and ramfs.
var memoryMagics = []int64{0x01021994, 0x858458f6}

// InMemory tells whether a directory lies on a file system without a disk.
func InMemory(dir string) (bool, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return false, fmt.Errorf("file system of %s: %w", dir, err)
	}
	for _, m := range memoryMagics {
		if int64(st.Type) == m { //nolint:unconvert // 32 bits wide on some processors
			return true, nil
		}
	}
	return false, nil
}
