package raftnode

import (
	"errors"

	"github.com/hashicorp/raft"
)

// Entries calls fn with each entry that the log of a stopped server holds, in
// order, without changing it. It fails where the log is damaged.
func Entries(dir, name string, fn func(*raft.Log) error) error {
	backend, err := openReadOnly(dir)
	if err != nil {
		return err
	}
	l := newLogStore(backend, name, 256<<10, newGuard(surveyStall, func(int, error) {}))
	err = l.scan()
	first, last := l.index.bounds()
	for i := max(first, 1); err == nil && i <= last; i++ {
		var entry raft.Log
		if err = l.GetLog(i, &entry); err == nil {
			err = fn(&entry)
		}
	}
	l.guard.close()
	return errors.Join(err, backend.Close())
}
