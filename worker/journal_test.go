package worker

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
)

// journaled lists what a data directory's journal holds that is not acknowledged.
func journaled(t *testing.T, dir string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, journalName))
	if err != nil {
		t.Fatal(err)
	}
	j := journal{live: map[attemptKey]liveRecord{}}
	bySeq := map[uint64]attemptKey{}
	readJournal(b, func(r record) { j.take(bySeq, r) })
	return j.names()
}

func (j *journal) names() (names []string) {
	for _, rec := range j.live {
		names = append(names, rec.name())
	}
	slices.Sort(names)
	return names
}

func (r liveRecord) name() string {
	if r.runs {
		return refName(r.entry.Ref) + " runs"
	}
	return fmt.Sprintf("%s %q %q", refName(r.entry.Ref), r.entry.Result, r.entry.GiveBack)
}

func refOf(n int) rpc.Ref {
	return rpc.Ref{Namespace: "default", ID: job.NewID(1, uint64(n), 0), Attempt: 1, Token: job.Token{Index: uint64(n)}.Bytes()}
}

func entryOf(n int) spooled {
	return spooled{Ref: refOf(n), Result: bytes.Repeat([]byte{byte(n)}, 10+n%50)}
}

func openTestJournal(t *testing.T, dir string) (*journal, recovered) {
	t.Helper()
	j, r, err := openJournal(dir, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	go j.run()
	return j, r
}

// The process may be killed, and the machine may lose power, at any byte that the
// journal is written: what was durable before is there afterwards, and nothing
// else is made up.
func TestJournalCutAnywhereKeepsWhatWasDurable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j, _ := openTestJournal(t, dir)
	type point struct {
		size int64
		live []string
	}
	points := []point{{}}
	mark := func() {
		b, err := os.ReadFile(j.path)
		if err != nil {
			t.Fatal(err)
		}
		points = append(points, point{int64(len(b)), journaled(t, dir)})
	}
	for i := range 16 {
		if i%5 == 0 {
			j.note([]rpc.Ref{refOf(i)})
		}
		if err := j.put(entryOf(i)); err != nil {
			t.Fatal(err)
		}
		mark()
		if i%3 == 0 {
			j.forget([]attemptKey{entryOf(i - 1).key(), entryOf(i).key()})
		}
	}
	if err := j.put(spooled{Ref: refOf(99), GiveBack: "the worker stops"}); err != nil {
		t.Fatal(err)
	}
	mark()
	j.close()
	whole, err := os.ReadFile(j.path)
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for n := range whole {
		for at+1 < len(points) && points[at+1].size <= int64(n) {
			at++
		}
		cut := &journal{live: map[attemptKey]liveRecord{}}
		bySeq := map[uint64]attemptKey{}
		if damaged := readJournal(whole[:n], func(r record) { cut.take(bySeq, r) }); damaged != 0 {
			t.Fatalf("cut at %d: %d bytes are said to be damaged", n, damaged)
		}
		got := cut.names()
		next := points[min(at+1, len(points)-1)].live
		for _, name := range points[at].live {
			// A running one may have its result by now, a result may be acknowledged.
			if !slices.Contains(got, name) && slices.Contains(next, name) {
				t.Fatalf("cut at %d, after %d bytes that were durable: %s is missing", n, points[at].size, name)
			}
		}
		for _, name := range got {
			if !slices.Contains(points[at].live, name) && !slices.Contains(next, name) && !strings.HasSuffix(name, "runs") {
				t.Fatalf("cut at %d: %s is there and was not written", n, name)
			}
		}
	}
	// One cut for real, through opening it.
	if err := os.WriteFile(j.path, whole[:len(whole)-3], 0o600); err != nil {
		t.Fatal(err)
	}
	want := journaled(t, dir)
	again, r := openTestJournal(t, dir)
	defer again.close()
	if got := journaled(t, dir); r.damaged != 0 || len(r.owed) < 5 || !slices.Equal(got, want) {
		t.Errorf("%d owed, %d damaged, then %q, want %q", len(r.owed), r.damaged, got, want)
	}
}

// A flipped bit is reported, loses at most its own record, and the file is kept.
func TestDamagedJournalIsReportedAndSetAside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j, _ := openTestJournal(t, dir)
	for i := range 20 {
		if err := j.put(entryOf(i)); err != nil {
			t.Fatal(err)
		}
	}
	j.close()
	whole, err := os.ReadFile(j.path)
	if err != nil {
		t.Fatal(err)
	}
	last := bytes.LastIndex(whole, recordMark)
	for at := range last {
		flipped := bytes.Clone(whole)
		flipped[at] ^= 1 << (at % 8)
		found := 0
		damaged := readJournal(flipped, func(record) { found++ })
		if damaged == 0 || found < 18 {
			t.Fatalf("a flipped bit at %d: %d records of 20, %d bytes reported", at, found, damaged)
		}
	}
	whole[last/2] ^= 4
	if err := os.WriteFile(j.path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	again, r := openTestJournal(t, dir)
	if r.damaged == 0 || len(r.owed) != 19 {
		t.Errorf("%d owed, %d damaged", len(r.owed), r.damaged)
	}
	again.close()
	if kept, err := os.ReadFile(j.path + brokenName); err != nil || !bytes.Equal(kept, whole) {
		t.Errorf("the damaged journal is not kept: %v", err)
	}
	third, r := openTestJournal(t, dir)
	defer third.close()
	if r.damaged != 0 || len(r.owed) != 19 {
		t.Errorf("opened once more: %d owed, %d damaged", len(r.owed), r.damaged)
	}
}

// flaky is a disk that fails when it is told to.
type flaky struct {
	mu           sync.Mutex
	full, broken bool // a write fits half; a sync fails
	syncs        int
	hold         chan struct{} // a sync waits for it; nil: for nothing
}

var errFull = errors.New("no space left on device")

func (f *flaky) create(path string) (journalFile, error) {
	file, err := createFile(path)
	return &flakyFile{file, f}, err
}

func (f *flaky) set(full, broken bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.full, f.broken = full, broken
}

type flakyFile struct {
	journalFile
	disk *flaky
}

func (f *flakyFile) Write(b []byte) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.disk.full && len(b) > 0 {
		n, _ := f.journalFile.Write(b[:len(b)/2])
		return n, errFull
	}
	return f.journalFile.Write(b)
}

func (f *flakyFile) Sync() error {
	if f.disk.hold != nil {
		<-f.disk.hold
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.disk.syncs++
	if f.disk.broken {
		return errFull
	}
	return f.journalFile.Sync()
}

// Nothing is sent that is not durable: put returns after the sync alone.
func TestJournalPutWaitsForTheSync(t *testing.T) {
	t.Parallel()
	j, _, err := openJournal(t.TempDir(), testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	disk := &flaky{hold: make(chan struct{}, 1)}
	disk.hold <- struct{}{}
	j.create = disk.create
	if err := j.rewrite(); err != nil {
		t.Fatal(err)
	}
	go j.run()
	put := make(chan error, 3)
	for i := range 3 {
		go func() { put <- j.put(entryOf(i)) }()
	}
	select {
	case <-put:
		t.Error("returned before the sync")
	case <-time.After(50 * time.Millisecond):
	}
	close(disk.hold)
	for range 3 {
		if err := receive(t, put, patience); err != nil {
			t.Error(err)
		}
	}
	j.close()
}

// A full disk costs no result: it is held in memory, and all are on disk again
// once there is room. A journal that is being rewritten when the disk fills up
// stays as it was.
func TestJournalOutlivesAFullDisk(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*flaky, bool){
		"full":   func(f *flaky, on bool) { f.set(on, false) },
		"broken": func(f *flaky, on bool) { f.set(false, on) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, disk := t.TempDir(), &flaky{}
			j, _, err := openJournal(dir, testLog(t))
			if err != nil {
				t.Fatal(err)
			}
			j.create, j.floor = disk.create, 1000
			if err := j.rewrite(); err != nil {
				t.Fatal(err)
			}
			go j.run()
			if err := j.put(entryOf(1)); err != nil {
				t.Fatal(err)
			}
			fail(disk, true)
			if err := j.put(entryOf(2)); !errors.Is(err, errFull) {
				t.Errorf("got %v", err)
			}
			if err := j.put(entryOf(3)); !errors.Is(err, errFull) {
				t.Errorf("got %v", err)
			}
			if got := journaled(t, dir); len(got) != 1 && name == "full" {
				t.Errorf("on disk: %v", got)
			}
			j.forget([]attemptKey{entryOf(1).key()})
			fail(disk, false)
			eventually(t, patience, "the disk is tried again", func() bool { return j.put(entryOf(4)) == nil })
			if got := journaled(t, dir); len(got) != 3 {
				t.Errorf("on disk: %v", got)
			}
			j.close()
		})
	}
}

// What is acknowledged does not pile up, and who waits together syncs together.
func TestJournalStaysSmallAndSyncsInGroups(t *testing.T) {
	t.Parallel()
	dir, disk := t.TempDir(), &flaky{}
	j, _, err := openJournal(dir, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	j.create, j.floor = disk.create, 64<<10
	if err := j.rewrite(); err != nil {
		t.Fatal(err)
	}
	go j.run()
	const each, putters = 300, 32
	var all sync.WaitGroup
	for p := range putters {
		all.Go(func() {
			for i := range each {
				e := entryOf(p*each + i)
				if err := j.put(e); err != nil {
					t.Error(err)
				}
				if i > 0 {
					j.forget([]attemptKey{e.key()})
				}
			}
		})
	}
	all.Wait()
	j.close()
	info, err := os.Stat(j.path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 200<<10 {
		t.Errorf("the journal has %d bytes", info.Size())
	}
	if got := journaled(t, dir); len(got) != putters {
		t.Errorf("%d are owed", len(got))
	}
	if disk.syncs > each*putters/4 {
		t.Errorf("%d syncs for %d results", disk.syncs, each*putters)
	}
}

// Whatever is put, noted and forgotten, and whenever the journal is opened anew
// or rewritten, it holds what is owed.
func TestJournalHoldsWhatIsOwed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		_ = os.Remove(filepath.Join(dir, journalName))
		j, _ := openTestJournal(t, dir)
		want := map[int]string{}
		n := 0
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			switch rapid.IntRange(0, 4).Draw(rt, "step") {
			case 0, 1:
				n++
				if rapid.Bool().Draw(rt, "noted") {
					j.note([]rpc.Ref{refOf(n)})
				}
				if err := j.put(entryOf(n)); err != nil {
					rt.Fatal(err)
				}
				want[n] = liveRecord{entry: entryOf(n)}.name()
			case 2:
				n++
				j.note([]rpc.Ref{refOf(n)})
				want[n] = liveRecord{entry: spooled{Ref: refOf(n)}, runs: true}.name()
			case 3:
				if n > 0 {
					k := rapid.IntRange(1, n).Draw(rt, "forgotten")
					j.forget([]attemptKey{entryOf(k).key()})
					delete(want, k)
				}
			case 4:
				j.close()
				j, _ = openTestJournal(t, dir)
			}
		}
		j.close()
		var names []string
		for _, name := range want {
			names = append(names, name)
		}
		slices.Sort(names)
		if got := journaled(t, dir); !slices.Equal(got, names) {
			rt.Fatalf("got  %q\nwant %q", got, names)
		}
	})
}

// A bad journal must never be more than an error.
func FuzzReadJournal(f *testing.F) {
	b := appendEntry(nil, record{kind: recordEntry, seq: 1, ref: refOf(1), result: []byte("r")})
	b = appendEntry(b, record{kind: recordRunning, seq: 2, ref: refOf(2)})
	f.Add(appendSettled(b, []uint64{1}))
	f.Fuzz(func(t *testing.T, b []byte) {
		size := int64(0)
		damaged := readJournal(b, func(r record) { size += r.size })
		if size+damaged > int64(len(b)) {
			t.Errorf("%d bytes read and %d damaged, of %d", size, damaged, len(b))
		}
	})
}
