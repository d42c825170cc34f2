package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// tempSuffix marks what an interrupted step leaves; OpenHome removes it.
const tempSuffix = ".tmp"

// disk is a file system with the few durable steps that a Home is made of.
type disk struct{ vfs.FS }

func (d disk) syncDir(dir string) error {
	f, err := d.OpenDir(dir)
	if err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// makeDir creates a directory whose parent exists, durably.
func (d disk) makeDir(dir string) error {
	if err := d.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return d.syncDir(d.PathDir(dir))
}

// writeJSON writes a new file and syncs it; the caller syncs the directory.
func (d disk) writeJSON(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := d.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

func (d disk) readJSON(name string, v any) error {
	f, err := d.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 2*maxManifestLen))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// remove takes a directory away so that a crash on the way leaves it whole or
// marked as unfinished.
func (d disk) remove(dir string) error {
	gone := dir + tempSuffix
	if err := d.Rename(dir, gone); err != nil {
		return err
	}
	if err := d.syncDir(d.PathDir(dir)); err != nil {
		return err
	}
	return d.RemoveAll(gone)
}

// sum returns a file's checksum, as a manifest holds it.
func (d disk) sum(name string) (string, error) {
	f, err := d.Open(name, vfs.SequentialReadsOption)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := xxhash.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return sumHex(h.Sum64()), nil
}

// sizes returns the bytes of the files of dir, by name. A file that goes away
// meanwhile, as the live state's do, is left out.
func (d disk) sizes(dir string) (map[string]int64, error) {
	names, err := d.List(dir)
	if err != nil {
		return nil, err
	}
	sizes := make(map[string]int64, len(names))
	for _, name := range names {
		info, err := d.Stat(d.PathJoin(dir, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		sizes[name] = info.Size()
	}
	return sizes, nil
}

// free returns the free bytes of dir's file system and their share of the whole,
// 0 to 1. Where the file system can't tell, all is free.
func (d disk) free(dir string) (bytes uint64, ratio float64, err error) {
	usage, err := d.GetDiskUsage(dir)
	if errors.Is(err, vfs.ErrUnsupported) {
		return math.MaxInt64, 1, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	if usage.TotalBytes == 0 {
		return usage.AvailBytes, 0, nil
	}
	return usage.AvailBytes, float64(usage.AvailBytes) / float64(usage.TotalBytes), nil
}

// fits refuses what would fill the disk of dir.
func (d disk) fits(dir string, need int64) error {
	free, _, err := d.free(dir)
	if err != nil {
		return err
	}
	if need > int64(min(free, 1<<62)) {
		return fmt.Errorf("it needs %d bytes, the disk has %d free", need, free)
	}
	return nil
}

// durableFile syncs before it closes.
type durableFile struct{ vfs.File }

func (f durableFile) Close() error {
	if err := f.Sync(); err != nil {
		f.File.Close()
		return err
	}
	return f.File.Close()
}

// orderedFS gives Pebble's markers the order that they need on any file system.
// Pebble names its manifest by creating a marker file and removing the one
// before, with one sync of the directory at the end; where a crash may keep a
// later entry and lose an earlier one, that leaves a marker of a manifest that
// isn't there, or none.
type orderedFS struct{ vfs.FS }

const markerPrefix = "marker."

func (o orderedFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := o.beforeMarker(name); err != nil {
		return nil, err
	}
	return o.FS.Create(name, category)
}

func (o orderedFS) Remove(name string) error {
	if err := o.beforeMarker(name); err != nil {
		return err
	}
	return o.FS.Remove(name)
}

func (o orderedFS) beforeMarker(name string) error {
	if !strings.HasPrefix(o.PathBase(name), markerPrefix) {
		return nil
	}
	return disk(o).syncDir(o.PathDir(name))
}

// Unwrap implements vfs.FS.
func (o orderedFS) Unwrap() vfs.FS { return o.FS }
