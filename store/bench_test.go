package store

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A task of the benchmarks is a row of 200 bytes and three index rows.
const (
	taskBytes    = 200
	rowsPerTask  = 4
	rowsPerBatch = 500
)

func openBench(b *testing.B) Store {
	b.Helper()
	s, err := openEngine(vfs.Default, filepath.Join(b.TempDir(), "state"), Options{Create: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}

func taskKey(table byte, n uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{table}, n)
}

// putTask writes a task whose due time is random, as its index rows are.
func putTask(b Batch, rng *rand.Rand, n uint64) {
	value := make([]byte, taskBytes)
	for i := 0; i < len(value); i += 2 { // half random, so that it compresses as records do
		value[i] = byte(rng.Uint32())
	}
	b.Set(taskKey('t', n), value)
	b.Set(append(taskKey('d', rng.Uint64()), taskKey('d', n)...), []byte{1})
	b.Set(taskKey('s', n), nil)
	b.Set(append([]byte("j/job-name"), taskKey('j', n)...), nil)
}

func putTasks(s Store, from, to uint64) {
	rng := rand.New(rand.NewPCG(from, to))
	for n := from; n < to; {
		b := s.Batch()
		for range rowsPerBatch / rowsPerTask {
			if n < to {
				putTask(b, rng, n)
				n++
			}
		}
		b.Commit()
	}
}

func BenchmarkCommit500Rows(b *testing.B) {
	s := openBench(b)
	n := uint64(0)
	before := cpuTime(b)
	for b.Loop() {
		putTasks(s, n, n+rowsPerBatch/rowsPerTask)
		n += rowsPerBatch / rowsPerTask
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/task")
	b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/float64(n), "cpu-ns/task")
}

// cpuTime is the process's, so that flushes and compactions count.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkGet(b *testing.B) {
	s := openBench(b)
	const tasks = 250_000
	putTasks(s, 0, tasks)
	if err := s.Flush(); err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name    string
		key     func() []byte
		present bool
	}{
		{"present", func() []byte { return taskKey('t', rng.Uint64N(tasks)) }, true},
		{"absent", func() []byte { return append(taskKey('t', rng.Uint64N(tasks)), 'x') }, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			v := s.View()
			defer v.Close()
			for b.Loop() {
				if _, ok := v.Get(c.key()); ok != c.present {
					b.Fatal("wrong answer")
				}
			}
		})
		b.Run(c.name+" in a batch that writes", func(b *testing.B) {
			tx := s.Batch()
			defer func() { tx.Discard() }()
			i := 0
			for b.Loop() {
				if _, ok := tx.Get(c.key()); ok != c.present {
					b.Fatal("wrong answer")
				}
				tx.Set(taskKey('w', rng.Uint64()), []byte("row"))
				if i++; i%rowsPerBatch == 0 {
					tx.Discard()
					tx = s.Batch()
				}
			}
		})
	}
	b.Run("ascend 10 of a batch that writes", func(b *testing.B) {
		tx := s.Batch()
		defer func() { tx.Discard() }()
		i := 0
		for b.Loop() {
			rows := 0
			tx.Ascend(taskKey('t', rng.Uint64N(tasks-10)), nil, func(_, _ []byte) bool {
				rows++
				return rows < 10
			})
			tx.Set(taskKey('w', rng.Uint64()), []byte("row"))
			if i++; i%rowsPerBatch == 0 {
				tx.Discard()
				tx = s.Batch()
			}
		}
	})
}

// BenchmarkMillionTasks reports what a million waiting tasks cost at rest, and
// what a checkpoint of them costs.
func BenchmarkMillionTasks(b *testing.B) {
	if testing.Short() {
		b.Skip("writes 4 million rows")
	}
	h, err := OpenHome(vfs.Default, filepath.Join(b.TempDir(), "state"), Options{Create: true})
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close()
	const tasks = 1_000_000
	for b.Loop() {
		start := time.Now()
		putTasks(h.State(), 0, tasks)
		b.ReportMetric(float64(time.Since(start).Nanoseconds())/tasks, "ns/task")
		putTasks(h.State(), tasks, tasks+1000) // what apply does meanwhile
		start = time.Now()
		c, err := h.Checkpoint(upTo(1))
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(time.Since(start).Microseconds())/1000, "ms/checkpoint")
		start = time.Now()
		sink, err := h.Create(SnapshotMeta{Index: 1, Term: 1})
		if err != nil {
			b.Fatal(err)
		}
		if err := sink.Adopt(c); err != nil {
			b.Fatal(err)
		}
		if err := sink.Close(); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(time.Since(start).Microseconds())/1000, "ms/adopt")
		b.ReportMetric(h.State().Metrics()["disk_bytes"]/(1<<20), "MiB-disk")
		b.ReportMetric(float64(resident(b))/(1<<20), "MiB-resident")
	}
}

// resident is the process's memory, from the kernel.
func resident(b *testing.B) int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip("no /proc")
	}
	for line := range strings.Lines(string(status)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}
