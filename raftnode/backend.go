package raftnode

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"

	"github.com/axd-project/axd/internal/mutant"
)

const (
	logFile  = "raft.db"
	newFile  = logFile + ".new" // raft.db until it is complete
	lockWait = 2 * time.Second  // for the file's lock, held by another process
)

var errLocked = errors.New("the file is locked: another process uses this data directory")

// boltOptions are bbolt's. The freelist isn't written with each commit: it is
// rebuilt at open, which costs a scan of a file bounded by the log's size.
// Nothing here may turn the syncs off: an acknowledged entry is one on disk.
func boltOptions() *bbolt.Options {
	return &bbolt.Options{Timeout: lockWait, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, NoSync: mutant.Unsynced}
}

// openBackend opens raft.db, or makes it.
func openBackend(dir string) (*raftboltdb.BoltStore, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, logFile)
	switch _, err := os.Stat(path); {
	case errors.Is(err, os.ErrNotExist):
		if err := createBackend(dir); err != nil {
			return nil, fmt.Errorf("make %s: %w", path, err)
		}
	case err != nil:
		return nil, err
	default:
		if err := checkPages(path); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return openBolt(path, boltOptions())
}

// openReadOnly opens raft.db for a look; it must exist.
func openReadOnly(dir string) (*raftboltdb.BoltStore, error) {
	path := filepath.Join(dir, logFile)
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("the Raft log: %w", err)
	}
	b, err := openBolt(path, &bbolt.Options{Timeout: lockWait, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	if err := checkPages(path); err != nil { // now that nobody writes
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), b.Close())
	}
	return b, nil
}

// createBackend makes an empty log under another name first: a raft.db without
// the records that every log has is a damaged one. Both the file and its name
// are synced, or a power loss could take it, and with it votes already given.
func createBackend(dir string) error {
	temp := filepath.Join(dir, newFile)
	if err := os.RemoveAll(temp); err != nil {
		return err
	}
	b, err := openBolt(temp, boltOptions())
	if err != nil {
		return err
	}
	if err := errors.Join(prepare(b), b.Close()); err != nil {
		return err
	}
	if err := os.Rename(temp, filepath.Join(dir, logFile)); err != nil {
		return err
	}
	return syncDir(dir)
}

// prepare writes the records of an empty log, the tail mark last: a log with it
// has both.
func prepare(b LogBackend) error {
	if err := b.Set([]byte(keyStable), stable{}.encode()); err != nil {
		return err
	}
	return b.StoreLogs([]*raft.Log{tailMark(0)})
}

// prepareNew is prepare for a log of somebody else's making that was never used.
func prepareNew(b LogBackend) error {
	if last, err := b.LastIndex(); err != nil || last > 0 {
		return err
	}
	return prepare(b)
}

func openBolt(path string, options *bbolt.Options) (b *raftboltdb.BoltStore, err error) {
	err = recovered(func() error {
		b, err = raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: options})
		return err
	})
	switch {
	case errors.Is(err, bbolterrors.ErrTimeout):
		return nil, fmt.Errorf("%s: %w", path, errLocked)
	case err != nil:
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return b, nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
