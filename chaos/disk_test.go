package chaos

import (
	"io"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"
)

func entries(from, to, term uint64) []*raft.Log {
	var out []*raft.Log
	for i := from; i <= to; i++ {
		out = append(out, &raft.Log{Index: i, Term: term})
	}
	return out
}

func TestCrashKeepsWhatTheLogHasAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		both := map[uint64]int{}
		for seed := range uint64(20) {
			d := NewDisk()
			if err := d.log.StoreLogs(entries(1, 5, 1)); err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = d.log.StoreLogs(entries(6, 8, 1))
			}()
			synctest.Wait() // it has begun
			crashed := d.Crash(rand.New(rand.NewPCG(seed, 1)), 0)
			<-done
			last, _ := crashed.log.LastIndex()
			both[last]++
			_ = d.log.StoreLogs(entries(9, 9, 1)) // after the crash
			if again, _ := crashed.log.LastIndex(); again != last {
				t.Error("what a process wrote after its crash is on the disk")
			}
		}
		if both[5] == 0 || both[8] == 0 || len(both) != 2 {
			t.Errorf("the write in flight is there or not, as a whole; the log ended at %v", both)
		}
	})
}

func TestHistoryOutlivesCompactionButNotTruncation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDisk()
		_ = d.log.StoreLogs(entries(1, 9, 1))
		_ = d.log.DeleteRange(1, 4)
		_ = d.log.DeleteRange(8, 9)
		h := d.History()
		if h[1] == nil || h[7] == nil || h[8] != nil {
			t.Errorf("history %v", h)
		}
		first, _ := d.log.FirstIndex()
		last, _ := d.log.LastIndex()
		if first != 5 || last != 7 {
			t.Errorf("the log has %d to %d", first, last)
		}
	})
}

func TestSlowDiskIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDisk()
		d.Slow(time.Second)
		began := time.Now()
		_ = d.log.Set([]byte("k"), []byte("v"))
		if took := time.Since(began); took < time.Second || d.Slowed() != 1 {
			t.Errorf("a slow write took %v, %d counted", took, d.Slowed())
		}
	})
}

func TestPowerLossForgetsWhatFilesDidNotSync(t *testing.T) {
	d := NewDisk()
	write := func(name string, sync bool) {
		f, err := d.FS().Create(name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(f, "x")
		if sync {
			_ = f.Sync()
			dir, _ := d.FS().OpenDir("/")
			_ = dir.Sync()
			_ = dir.Close()
		}
		_ = f.Close()
	}
	write("kept", true)
	write("lost", false)
	for keep, want := range map[int]bool{0: false, 100: true} {
		crashed := d.Crash(rand.New(rand.NewPCG(1, 1)), keep)
		if _, err := crashed.FS().Stat("kept"); err != nil {
			t.Error(err)
		}
		if _, err := crashed.FS().Stat("lost"); (err == nil) != want {
			t.Errorf("with %d %% kept: %v", keep, err)
		}
	}
}
