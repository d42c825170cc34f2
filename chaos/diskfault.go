package chaos

import (
	"math/rand/v2"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// Fail makes each write to the log and, where files is set, to the file system
// return an error; nil ends it.
func (d *Disk) Fail(log, files error) {
	d.log.mu.Lock()
	d.log.fault = log
	d.log.mu.Unlock()
	d.fs.mu.Lock()
	d.fs.fault = files
	d.fs.mu.Unlock()
}

// Failed counts the writes that Fail made fail.
func (d *Disk) Failed() int {
	d.log.mu.Lock()
	defer d.log.mu.Unlock()
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	return d.log.failed + d.fs.failed
}

// Stall makes writes to the log wait until Resume, or a crash.
func (d *Disk) Stall() {
	d.log.mu.Lock()
	defer d.log.mu.Unlock()
	if d.log.stall == nil {
		d.log.stall = make(chan struct{})
	}
}

// Resume ends Stall.
func (d *Disk) Resume() {
	d.log.mu.Lock()
	defer d.log.mu.Unlock()
	if d.log.stall != nil {
		close(d.log.stall)
		d.log.stall = nil
	}
}

// Stalled counts the writes that Stall held up.
func (d *Disk) Stalled() int {
	d.log.mu.Lock()
	defer d.log.mu.Unlock()
	return d.log.stalled
}

// OnFile has a function told of each file that is created from now on; nil ends
// it. It must not wait.
func (d *Disk) OnFile(told func(path string)) {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	d.fs.onFile = told
}

// meet is asked before each operation of the file system.
func (f *fileSystem) meet(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() == errorfs.OpIsRead {
		return nil
	}
	f.mu.Lock()
	told, fault := f.onFile, f.fault
	if fault != nil && grows(op.Kind) {
		f.failed++
	} else {
		fault = nil
	}
	f.mu.Unlock()
	if op.Kind == errorfs.OpCreate && told != nil {
		told(op.Path)
	}
	return fault
}

// grows tells whether an operation asks for room on the disk.
func grows(kind errorfs.OpKind) bool {
	switch kind {
	case errorfs.OpCreate, errorfs.OpMkdirAll, errorfs.OpLink, errorfs.OpFileWrite, errorfs.OpFileWriteAt, errorfs.OpFileSync,
		errorfs.OpFileSyncData, errorfs.OpFileSyncTo, errorfs.OpFilePreallocate:
		return true
	}
	return false
}

// Tear takes the log's last entry away and leaves the record that it is there: what
// a write that the power loss tore looks like. It reports whether there was one.
func (d *Disk) Tear() bool {
	l := d.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == 0 || l.first == l.last {
		return false
	}
	delete(l.entries, l.last)
	l.last--
	return true
}

// Flip turns one bit of one entry of the log over. It reports whether there was an
// entry with data.
func (d *Disk) Flip(rng *rand.Rand) bool {
	l := d.log
	l.mu.Lock()
	defer l.mu.Unlock()
	var filled []uint64
	for i, e := range l.entries {
		if len(e.Data) > 0 {
			filled = append(filled, i)
		}
	}
	if len(filled) == 0 {
		return false
	}
	slices.Sort(filled)
	e := *l.entries[filled[rng.IntN(len(filled))]]
	e.Data = slices.Clone(e.Data)
	e.Data[rng.IntN(len(e.Data))] ^= 1 << rng.IntN(8)
	l.entries[e.Index] = &e
	return true
}

// Wiped returns an empty disk in the place of this one. What was committed, which
// ends at an index, stays history.
func (d *Disk) Wiped(committed uint64) *Disk {
	w := NewDisk()
	for i, e := range d.History() {
		if i <= committed {
			w.log.history[i] = e
		}
	}
	return w
}

// logBounds are the first and the last entry of the log.
func (d *Disk) logBounds() (first, last uint64) {
	d.log.mu.Lock()
	defer d.log.mu.Unlock()
	return d.log.first, d.log.last
}
