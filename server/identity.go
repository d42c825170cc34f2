package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/axd-project/axd/job"
)

// dataFormat is the layout of a data directory. A build refuses a newer one.
const dataFormat = 1

// identity is what a data directory says of the server it belongs to.
type identity struct {
	Format    int    `json:"format"`
	Name      string `json:"name"`
	ClusterID string `json:"cluster_id,omitempty"` // empty until the server was part of a cluster
}

// dataDir is a server's data directory, locked against a second process.
type dataDir struct {
	path string
	lock *os.File
	id   identity
}

// openDataDir creates or opens a data directory and checks that it is this
// server's.
func openDataDir(path, name string) (*dataDir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("creating the data directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the data directory's lock: %w", err)
	}
	d := &dataDir{path: path, lock: lock}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		d.close()
		return nil, job.Conflict("data-dir", "is in use by another process; stop it or choose another directory", path)
	}
	if err := d.read(name); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (d *dataDir) file() string { return filepath.Join(d.path, "server.json") }

func (d *dataDir) read(name string) error {
	b, err := os.ReadFile(d.file())
	if errors.Is(err, os.ErrNotExist) {
		d.id = identity{Format: dataFormat, Name: name}
		return d.write()
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", d.file(), err)
	}
	if err := json.Unmarshal(b, &d.id); err != nil {
		return fmt.Errorf("%s is damaged (%w); restore it from another copy, or empty the directory and let the "+
			"server join again", d.file(), err)
	}
	if d.id.Format > dataFormat {
		return job.Conflict("data-dir", fmt.Sprintf("was written by a newer axd (format %d, this build knows %d); "+
			"run the newer build", d.id.Format, dataFormat), d.path)
	}
	if d.id.Name != name {
		return job.Conflict("name", "is not the server this data directory belongs to, "+d.id.Name+
			"; start with that name or choose another data directory", name)
	}
	return nil
}

// setCluster records which cluster the directory belongs to.
func (d *dataDir) setCluster(id string) error {
	if d.id.ClusterID == id {
		return nil
	}
	d.id.ClusterID = id
	return d.write()
}

// write replaces the file durably: temporary file, fsync, rename, fsync of the
// directory.
func (d *dataDir) write() error {
	b, err := json.MarshalIndent(d.id, "", "  ")
	if err != nil {
		return err
	}
	tmp := d.file() + ".tmp"
	if err := writeSynced(tmp, append(b, '\n')); err != nil {
		return fmt.Errorf("writing %s: %w", tmp, err)
	}
	if err := os.Rename(tmp, d.file()); err != nil {
		return err
	}
	dir, err := os.Open(d.path)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

func writeSynced(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}

func (d *dataDir) close() {
	if d.lock != nil {
		_ = d.lock.Close() // releases the lock
	}
}
