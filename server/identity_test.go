package server

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/axd-project/axd/job"
)

func TestDataDirBelongsToOneServer(t *testing.T) {
	dir := t.TempDir()
	d, err := openDataDir(vfs.Default, dir, "s1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openDataDir(vfs.Default, dir, "s1"); !errors.Is(err, job.ErrConflict) {
		t.Errorf("a second process got %v, want a conflict", err)
	}
	if err := d.setCluster("c1"); err != nil {
		t.Fatal(err)
	}
	d.close()

	if _, err := openDataDir(vfs.Default, dir, "s2"); !errors.Is(err, job.ErrConflict) || !strings.Contains(err.Error(), "s1") {
		t.Errorf("another name got %v, want a conflict that names s1", err)
	}
	again, err := openDataDir(vfs.Default, dir, "s1")
	if err != nil {
		t.Fatal(err)
	}
	defer again.close()
	if again.id.ClusterID != "c1" {
		t.Errorf("the cluster is %q after opening again, want c1", again.id.ClusterID)
	}
}

func TestDataDirOfANewerFormatIsRefused(t *testing.T) {
	dir := t.TempDir()
	body := `{"format": 99, "name": "s1"}`
	if err := os.WriteFile(filepath.Join(dir, "server.json"), []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := openDataDir(vfs.Default, dir, "s1")
	if !errors.Is(err, job.ErrConflict) || !strings.Contains(err.Error(), "newer axd") {
		t.Errorf("got %v, want a conflict that tells to run the newer build", err)
	}
}

func TestDamagedIdentityIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "server.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openDataDir(vfs.Default, dir, "s1"); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("got %v, want an error that says the file is damaged", err)
	}
}

func TestAServerPromisesItselfToOneNewCluster(t *testing.T) {
	dir := t.TempDir()
	open := func() *dataDir {
		d, err := openDataDir(vfs.Default, dir, "s3")
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	first := forming{ClusterID: "a", Servers: []string{"s1", "s2", "s3"}}
	d := open()
	if err := d.promise(first, false); err != nil {
		t.Fatal(err)
	}
	d.close()
	d = open() // a restart does not forget it
	defer d.close()
	if err := d.promise(first, false); err != nil {
		t.Errorf("the same promise again: %v", err)
	}
	for _, other := range []forming{
		{ClusterID: "b", Servers: []string{"s1", "s2", "s3"}},
		{ClusterID: "a", Servers: []string{"s2", "s3", "s4"}},
	} {
		if err := d.promise(other, false); !errors.Is(err, job.ErrConflict) {
			t.Errorf("a promise to %v after one to %v gave %v, want a conflict", other, first, err)
		}
	}
	again := forming{ClusterID: "b", Servers: first.Servers} // the beginner lost its data
	if err := d.promise(again, true); err != nil {
		t.Errorf("a promise among the same servers with an empty log: %v", err)
	}
	if err := d.promise(forming{ClusterID: "b", Servers: []string{"s2", "s3", "s4"}}, true); !errors.Is(err, job.ErrConflict) {
		t.Errorf("a promise to other servers gave %v, want a conflict", err)
	}
	if err := d.setCluster("a"); err != nil {
		t.Fatal(err)
	}
	if err := d.setCluster("b"); !errors.Is(err, job.ErrConflict) {
		t.Errorf("a state of another cluster gave %v, want a conflict", err)
	}
}

func TestDataDirsOfOthersAreRefused(t *testing.T) {
	for _, file := range []string{"worker.json", "raft.db"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := openDataDir(vfs.Default, dir, "s1"); !errors.Is(err, job.ErrConflict) {
			t.Errorf("a directory with %s and no server.json gave %v, want a conflict", file, err)
		}
	}
}
