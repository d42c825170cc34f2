package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/axd-project/axd/job"
)

// dataFormat is the layout of a data directory. A build refuses a newer one.
const dataFormat = 1

// identity is what a data directory says of the server it belongs to.
type identity struct {
	Format    int    `json:"format"`
	Name      string `json:"name"`
	ClusterID string `json:"cluster_id,omitempty"` // empty until the server was part of a cluster
	// Forming is what the server has promised itself to: it begins no other
	// cluster, whatever it sees after a restart.
	Forming *forming `json:"forming,omitempty"`
}

// forming is a new cluster that is about to be begun.
type forming struct {
	ClusterID string   `json:"cluster_id"`
	Servers   []string `json:"servers"` // names, sorted
}

// dataDir is a server's data directory, locked against a second process.
type dataDir struct {
	fs   vfs.FS
	path string
	lock io.Closer
	id   identity
}

// openDataDir creates or opens a data directory and checks that it is this
// server's.
func openDataDir(fs vfs.FS, path, name string) (*dataDir, error) {
	d := &dataDir{fs: fs, path: path}
	if err := fs.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("creating the data directory: %w", err)
	}
	if err := d.syncDir(fs.PathDir(path)); err != nil { // or a power loss could take it whole
		return nil, fmt.Errorf("creating the data directory: %w", err)
	}
	lock, err := fs.Lock(d.file("lock"))
	if failed := (*os.PathError)(nil); errors.As(err, &failed) {
		return nil, fmt.Errorf("opening the data directory's lock: %w", err)
	}
	if err != nil {
		return nil, job.Conflict("data-dir", "is in use by another process; stop it or choose another directory", path)
	}
	d.lock = lock
	if err := d.read(name); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

const identityFile = "server.json"

func (d *dataDir) file(name string) string { return d.fs.PathJoin(d.path, name) }

func (d *dataDir) has(name string) bool {
	_, err := d.fs.Stat(d.file(name))
	return err == nil
}

func (d *dataDir) read(name string) error {
	if d.has("worker.json") {
		return job.Conflict("data-dir", "belongs to a worker; choose another directory", d.path)
	}
	b, err := d.load()
	if errors.Is(err, os.ErrNotExist) {
		if d.has("raft.db") {
			return job.Conflict("data-dir", "holds a log but no server.json, so it is not known whose it is; restore that "+
				"file, or empty the directory and let the server join again", d.path)
		}
		d.id = identity{Format: dataFormat, Name: name}
		return d.write()
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", d.file(identityFile), err)
	}
	if err := json.Unmarshal(b, &d.id); err != nil {
		return job.Conflict("data-dir", "has a damaged server.json ("+err.Error()+"); restore it from another copy, or empty "+
			"the directory and let the server join again", d.path)
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
	switch d.id.ClusterID {
	case id:
		return nil
	case "":
		d.id.ClusterID, d.id.Forming = id, nil
		return d.write()
	}
	return job.Conflict("data-dir", "says that it belongs to cluster "+d.id.ClusterID+", but its state is of "+id+
		"; server.json was changed or copied: restore it, or empty the directory and let the server join again", d.path)
}

// mayPromise returns why the server can't be made part of a new cluster: it is
// part of one, or promised to other servers. A promise among the same servers,
// and so of the same beginner, may be replaced while this one's log is empty: the
// beginner has lost its data. It makes sure first that all logs are empty.
func (d *dataDir) mayPromise(f forming, empty bool) error {
	if is := d.id.Forming; is != nil {
		if slices.Equal(is.Servers, f.Servers) && (is.ClusterID == f.ClusterID || empty) {
			return nil
		}
		return job.Conflict("bootstrap-expect", "this server has promised itself to a new cluster of "+
			strings.Join(is.Servers, ", ")+"; start those servers, or empty its data directory to start afresh",
			strings.Join(f.Servers, ", "))
	}
	if d.id.ClusterID != "" {
		return job.Conflict("cluster_id", "this server is part of a cluster already", d.id.ClusterID)
	}
	return nil
}

// promise records the one cluster that the server lets itself be made part of.
func (d *dataDir) promise(f forming, empty bool) error {
	if err := d.mayPromise(f, empty); err != nil {
		return err
	}
	if is := d.id.Forming; is != nil && is.ClusterID == f.ClusterID {
		return nil
	}
	d.id.Forming = &f
	return d.write()
}

// write replaces the file durably: temporary file, fsync, rename, fsync of the
// directory.
func (d *dataDir) write() error {
	b, err := json.MarshalIndent(d.id, "", "  ")
	if err != nil {
		return err
	}
	tmp := d.file(identityFile + ".tmp")
	if err := d.writeSynced(tmp, append(b, '\n')); err != nil {
		return fmt.Errorf("writing %s: %w", tmp, err)
	}
	if err := d.fs.Rename(tmp, d.file(identityFile)); err != nil {
		return err
	}
	return d.syncDir(d.path)
}

func (d *dataDir) load() ([]byte, error) {
	f, err := d.fs.Open(d.file(identityFile))
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(f)
	return b, errors.Join(err, f.Close())
}

func (d *dataDir) writeSynced(path string, b []byte) error {
	f, err := d.fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}

func (d *dataDir) syncDir(path string) error {
	f, err := d.fs.OpenDir(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (d *dataDir) close() {
	if d.lock != nil {
		_ = d.lock.Close() // releases the lock
	}
}
