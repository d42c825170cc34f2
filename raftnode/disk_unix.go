//go:build unix

package raftnode

import "golang.org/x/sys/unix"

// freeBytes returns what an unprivileged process may still write at path.
func freeBytes(path string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, err
	}
	return uint64(s.Bavail) * uint64(s.Bsize), nil //nolint:gosec,unconvert // never negative; the types differ by platform
}
