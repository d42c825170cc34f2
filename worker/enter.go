package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// mayEnter says which directory on the way to one, itself included, keeps a
// command's user out. The kernel would only say that permission is denied, and
// not where. It judges by the mode alone: what else the system knows, and what
// is not there, is the kernel's to judge.
func (i *identity) mayEnter(dir string) error {
	if i == nil || i.UID == 0 { // the worker's own user, or who may enter everything
		return nil
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil
	}
	if whole, err := filepath.EvalSymlinks(dir); err == nil {
		dir = whole
	}
	at := "/"
	for part := range strings.SplitSeq(strings.Trim(dir, "/"), "/") {
		at = filepath.Join(at, part)
		info, err := os.Stat(at)
		if err != nil {
			return nil
		}
		if info.IsDir() && !i.searches(info) {
			return fmt.Errorf("user %s can't enter %s: make it searchable (chmod o+x %s), or choose a directory elsewhere", i.Name, at, at)
		}
	}
	return nil
}

// searches tells whether a directory's mode lets the user pass.
func (i *identity) searches(info os.FileInfo) bool {
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return true
	}
	const search = 0o1
	mode := info.Mode().Perm()
	switch {
	case owner.Uid == i.UID:
		return mode>>6&search != 0
	case owner.Gid == i.GID || slices.Contains(i.Groups, owner.Gid):
		return mode>>3&search != 0
	}
	return mode&search != 0
}
