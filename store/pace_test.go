package store

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// A compaction rests as long as it keeps up, and runs through under pressure. What
// else is written is never held up.
func TestCompactionsRestUnlessTheyMustKeepUp(t *testing.T) {
	fromLevel0 := pebble.CompactionInfo{Input: []pebble.LevelInfo{{Level: 0}}}
	for _, c := range []struct {
		name     string
		category vfs.DiskWriteCategory
		before   func(p *pacer)
		rests    bool
	}{
		{"at leisure", compactionCategory, func(*pacer) {}, true},
		{"a flush", "pebble-memtable-flush", func(*pacer) {}, false},
		{"a flush long after another", compactionCategory, func(p *pacer) { flushes(p, 2, pressedFor) }, true},
		{"flushes one upon the other", compactionCategory, func(p *pacer) { flushes(p, 2, pressedFor-1) }, false},
		{"that is over", compactionCategory, func(p *pacer) { flushes(p, 2, 0); time.Sleep(pressedFor) }, true},
		{"behind", compactionCategory, func(p *pacer) { flushes(p, pressedFlushes+1, pressedFor) }, false},
		{"not behind any more", compactionCategory, func(p *pacer) {
			flushes(p, pressedFlushes+1, pressedFor)
			p.noteCompaction(fromLevel0)
		}, true},
		{"at the end", compactionCategory, func(p *pacer) { p.release() }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &pacer{}
				c.before(p)
				f, err := pacedFS{vfs.NewMem(), p}.Create("f", c.category)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				began := time.Now()
				const stretches = 3
				for range stretches {
					time.Sleep(paceWork) // the work
					for range 2 {
						if _, err := f.Write([]byte("x")); err != nil {
							t.Fatal(err)
						}
					}
				}
				want := stretches * paceWork
				if c.rests {
					want += paceRest * want
				}
				if took := time.Since(began); took != want {
					t.Errorf("took %v, want %v", took, want)
				}
			})
		})
	}
}

func flushes(p *pacer, n int, apart time.Duration) {
	for range n {
		time.Sleep(apart)
		p.noteFlush(pebble.FlushInfo{})
	}
}
