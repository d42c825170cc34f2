package wheel

import (
	"runtime"
	"strconv"
	"testing"
)

// payload has the size of a task's reference: an id and a number.
type payload struct {
	_ [16]byte
	n uint32
}

var sizes = []int{10_000, 1_000_000, 10_000_000}

// spread gives the i-th of many entries a time within the next hour, scattered
// so that neighbours in memory are not neighbours in time.
func spread(i int) int64 { return int64(uint32(i)*2654435761) % 3_600_000 }

func filled(n int) *Wheel[payload] {
	w := New[payload](0)
	for i := range n {
		w.Add(spread(i)+1, payload{n: uint32(i)})
	}
	return w
}

func bySize(b *testing.B, f func(b *testing.B, n int)) {
	for _, n := range sizes {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			if testing.Short() && n > 1_000_000 {
				b.Skip("fills a wheel of ten million anew for every sample")
			}
			f(b, n)
		})
	}
}

// BenchmarkFill measures Add from an empty wheel, and the memory of an entry.
func BenchmarkFill(b *testing.B) {
	bySize(b, func(b *testing.B, n int) {
		var before, after runtime.MemStats
		for b.Loop() {
			runtime.GC()
			runtime.ReadMemStats(&before)
			w := filled(n)
			runtime.ReadMemStats(&after)
			runtime.KeepAlive(w)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/entry")
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(n), "bytes/entry")
	})
}

// BenchmarkAddRemove measures a pair of Add and Remove beside n entries.
func BenchmarkAddRemove(b *testing.B) {
	bySize(b, func(b *testing.B, n int) {
		w := filled(n)
		i := 0
		for b.Loop() {
			w.Remove(w.Add(spread(i)+1, payload{}))
			i++
		}
	})
}

// BenchmarkAdvance measures the whole way of n entries out of the wheel, a
// millisecond at a time over an hour.
func BenchmarkAdvance(b *testing.B) {
	bySize(b, func(b *testing.B, n int) {
		for b.Loop() {
			b.StopTimer()
			w := filled(n)
			b.StartTimer()
			out := 0
			for now := int64(0); w.Len() > 0; now++ {
				w.Advance(now, func(int64, payload) { out++ })
			}
			if out != n {
				b.Fatalf("%d of %d came out", out, n)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/entry")
	})
}

// BenchmarkCollect measures one full collection beside n entries: nodes hold no
// pointers, so it must not grow with n.
func BenchmarkCollect(b *testing.B) {
	bySize(b, func(b *testing.B, n int) {
		w := filled(n)
		for b.Loop() {
			runtime.GC()
		}
		runtime.KeepAlive(w)
	})
}
