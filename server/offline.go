package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/raftnode"
	"github.com/axd-project/axd/store"
)

// maxFindings bounds what is told of a broken state.
const maxFindings = 100

// Contents is what a state holds, on a disk or in a snapshot.
type Contents struct {
	ClusterID    string           `json:"cluster_id"`
	Applied      uint64           `json:"applied_index"` // the newest entry in it
	FeatureLevel uint32           `json:"feature_level"`
	RestoreEpoch uint32           `json:"restore_epoch"`
	Restored     string           `json:"restored,omitempty"` // how it was last cut off from its log: snapshot or recovery
	RestoredAt   *time.Time       `json:"restored_at,omitempty"`
	Clock        time.Time        `json:"clock"` // the cluster's, at the newest entry
	Tasks        map[string]int64 `json:"tasks"` // by state
	Jobs         int              `json:"jobs"`
	Workers      int              `json:"workers"`
}

func readContents(v fsm.Reader) (Contents, error) {
	info := fsm.ReadInfo(v)
	c := Contents{
		ClusterID: info.ClusterID, Applied: info.Applied, FeatureLevel: info.FeatureLevel, RestoreEpoch: info.RestoreEpoch,
		Clock: time.UnixMilli(info.Clock).UTC(), Tasks: map[string]int64{},
	}
	if o, ok := fsm.ReadOrigin(v); ok {
		at := time.UnixMilli(o.At).UTC()
		c.Restored, c.RestoredAt = o.How, &at
	}
	for state, n := range fsm.CountTasks(v, "") {
		c.Tasks[state.String()] = n
	}
	var err error
	if c.Jobs, err = countPages(func(cursor string) (int, string, error) {
		page, next, err := fsm.ListJobs(v, "", cursor, fsm.MaxPage)
		return len(page), next, err
	}); err != nil {
		return c, err
	}
	c.Workers, err = countPages(func(cursor string) (int, string, error) {
		page, next, err := fsm.ListWorkers(v, cursor, fsm.MaxPage)
		return len(page), next, err
	})
	return c, err
}

func countPages(page func(cursor string) (n int, next string, err error)) (total int, err error) {
	for cursor := ""; ; {
		n, next, err := page(cursor)
		total += n
		if cursor = next; err != nil || cursor == "" {
			return total, err
		}
	}
}

// DiskReport is what a stopped server's data directory holds.
type DiskReport struct {
	Name string `json:"name"`
	Contents
	LogLast   uint64   `json:"log_last_index"` // the newest entry on this disk
	Replay    int      `json:"log_unapplied"`  // entries that the next start applies
	Term      uint64   `json:"term"`
	Servers   []string `json:"servers"` // of the cluster, by this disk
	Snapshots int      `json:"snapshots"`
	Problems  []string `json:"problems"`
}

// openStopped takes the data directory of a server that must not be running. An
// empty name stands for whatever the directory says.
func openStopped(dir, name string) (*dataDir, error) {
	d := &dataDir{fs: vfs.Default, path: dir}
	if !d.has(identityFile) {
		return nil, job.Conflict("data-dir", "is not the data directory of a server: it holds no "+identityFile, dir)
	}
	if name == "" {
		b, err := d.load()
		if err != nil {
			return nil, err
		}
		var id identity
		if err := json.Unmarshal(b, &id); err != nil {
			return nil, job.Conflict("data-dir", "has a damaged "+identityFile+" ("+err.Error()+")", dir)
		}
		name = id.Name
	}
	return openDataDir(vfs.Default, dir, name)
}

// CheckDataDir verifies the data of a stopped server without changing it: each
// entry of the log, each block of the state and of the snapshots by its
// checksum, and the invariants of the state. What is wrong is in the report.
func CheckDataDir(dir string) (DiskReport, error) {
	d, err := openStopped(dir, "")
	if err != nil {
		return DiskReport{}, err
	}
	defer d.close()
	rep := DiskReport{Name: d.id.Name, Problems: []string{}, Servers: []string{}}
	find := func(format string, args ...any) { rep.Problems = append(rep.Problems, fmt.Sprintf(format, args...)) }
	found, err := store.Inspect(vfs.Default, filepath.Join(dir, "state"), func(v store.View) error {
		if err := fsm.CheckFormat(v); err != nil {
			return err
		}
		rep.Problems = append(rep.Problems, fsm.Check(v, maxFindings)...)
		var err error
		rep.Contents, err = readContents(v)
		return err
	})
	if err != nil {
		find("the state: %v", err)
	}
	rep.Problems = append(rep.Problems, found.Problems...)
	rep.Snapshots = len(found.Snapshots)
	newest := newestOf(found.Snapshots)
	rec, err := raftnode.Survey(dir, rep.Name, newest, rep.Applied)
	if err != nil {
		find("the log: %v", err)
		return rep, nil
	}
	rep.LogLast, rep.Replay, rep.Term, rep.Servers = rec.Last, rec.Uncommitted, rec.Term, names(rec.Servers)
	if rep.Applied > max(rec.Last, newest.Applied) || rep.Applied < newest.Applied {
		find("the state ends at entry %d, the log at %d, the newest snapshot at %d: this disk has lost data", rep.Applied, rec.Last, newest.Applied)
	}
	if d.id.ClusterID != "" && rep.ClusterID != "" && d.id.ClusterID != rep.ClusterID {
		find("%s says cluster %s, the state %s", identityFile, d.id.ClusterID, rep.ClusterID)
	}
	return rep, nil
}

func newestOf(list []store.SnapshotMeta) store.SnapshotMeta {
	if len(list) == 0 {
		return store.SnapshotMeta{}
	}
	return list[0]
}

func names(servers []raftnode.Server) []string {
	out := []string{}
	for _, s := range servers {
		out = append(out, s.Name)
	}
	return out
}

// RecoveryReport tells what Recover found, and what became of it.
type RecoveryReport struct {
	Name      string   `json:"name"`
	ClusterID string   `json:"cluster_id"`
	Servers   []string `json:"servers"`         // of before: all but Name must never start again with their data
	Applied   uint64   `json:"applied_index"`   // of the state before
	Last      uint64   `json:"last_index"`      // the newest entry on this disk
	Commits   int      `json:"entries_applied"` // that this server had not known to be committed
	Epoch     uint32   `json:"restore_epoch"`   // of fencing tokens afterwards; 0: nothing was done
}

// Recover makes a stopped server a cluster of one with what its disk holds, for
// when a quorum is lost for good. Without commit it only tells what it would do.
func Recover(dir, name string, commit bool, logger *slog.Logger) (RecoveryReport, error) {
	d, err := openStopped(dir, name)
	if err != nil {
		return RecoveryReport{}, err
	}
	defer d.close()
	if d.id.ClusterID == "" {
		return RecoveryReport{}, job.Conflict("data-dir", "holds no state of a cluster, so there is nothing to recover", dir)
	}
	rep := RecoveryReport{Name: d.id.Name, ClusterID: d.id.ClusterID}
	var rec raftnode.Recovery
	if commit {
		rec, err = recoverHome(d, logger)
	} else {
		rec, err = surveyHome(d)
	}
	rep.Servers, rep.Applied, rep.Last, rep.Commits, rep.Epoch = names(rec.Servers), rec.Applied, rec.Last, rec.Uncommitted, rec.Epoch
	if err == nil && !slices.Contains(rep.Servers, rep.Name) {
		err = job.Conflict("name", "is not a member of the cluster by its own log, so it has nothing to recover", rep.Name)
	}
	return rep, err
}

func surveyHome(d *dataDir) (raftnode.Recovery, error) {
	var applied uint64
	found, err := store.Inspect(d.fs, filepath.Join(d.path, "state"), func(v store.View) error {
		applied = fsm.ReadInfo(v).Applied
		return fsm.CheckFormat(v)
	})
	if err != nil {
		return raftnode.Recovery{}, err
	}
	return raftnode.Survey(d.path, d.id.Name, newestOf(found.Snapshots), applied)
}

func recoverHome(d *dataDir, logger *slog.Logger) (raftnode.Recovery, error) {
	var failed error
	home, err := store.OpenHome(d.fs, filepath.Join(d.path, "state"), store.Options{
		Logger: logger, Fatal: func(err error) { failed = err; panic(err) },
	})
	if err != nil {
		return raftnode.Recovery{}, err
	}
	rec, err := raftnode.Recover(raftnode.Config{Name: d.id.Name, DataDir: d.path, Home: home, Logger: logger})
	return rec, errors.Join(err, failed, home.Close())
}

// SnapshotReport is what a snapshot in a file holds.
type SnapshotReport struct {
	Contents
	Index    uint64    `json:"index"`
	Term     uint64    `json:"term"`
	Created  time.Time `json:"created"`
	Bytes    int64     `json:"bytes"`
	Files    int       `json:"files"`
	Problems []string  `json:"problems"`
}

// InspectSnapshot verifies every checksum of a snapshot and the state in it. It
// unpacks it below scratch (empty: the system's directory for such), which it
// leaves as it was. An error means that the file is not a whole snapshot.
func InspectSnapshot(r io.Reader, scratch string) (rep SnapshotReport, err error) {
	dir, err := os.MkdirTemp(scratch, "axd-snapshot-")
	if err != nil {
		return rep, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	a, err := store.Unpack(vfs.Default, filepath.Join(dir, "snapshot"), r)
	if err != nil {
		return rep, job.Invalid("snapshot", "must be a whole snapshot that axd made: "+err.Error(), "")
	}
	m := a.Meta()
	rep = SnapshotReport{
		Index: m.Index, Term: m.Term, Created: time.UnixMilli(m.Created).UTC(), Bytes: m.Size, Files: m.Files, Problems: []string{},
	}
	err = a.Read(func(st store.Store) error {
		v := st.View()
		defer v.Close()
		if err := fsm.CheckFormat(v); err != nil {
			return job.Errorf(job.CodeUnsupported, err.Error())
		}
		rep.Problems = append(rep.Problems, fsm.Check(v, maxFindings)...)
		var err error
		rep.Contents, err = readContents(v)
		return err
	})
	return rep, err
}
