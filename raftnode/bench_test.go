package raftnode

import (
	"fmt"
	"sync"
	"testing"

	"github.com/axd-project/axd/fsm"
)

// BenchmarkGroupCommit commits tasks on three replicas with a log that is
// synced to disk, from so many callers at a time.
func BenchmarkGroupCommit(b *testing.B) {
	for _, callers := range []int{1, 64, 1000} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			c := newCluster(b, "a", "b", "c")
			c.adjust = func(cfg *Config) { cfg.ElectionTimeout = 0 }
			c.startAll()
			l := c.leader()
			before := l.Stats()["entries_proposed"]
			b.ResetTimer()
			room := make(chan struct{}, callers)
			var done sync.WaitGroup
			for i := range b.N {
				room <- struct{}{}
				done.Add(1)
				l.ProposeAsync(encode(b, fmt.Sprint(i), 100), func(_ fsm.Result, err error) {
					if err != nil {
						b.Error(err)
					}
					<-room
					done.Done()
				})
			}
			done.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/(l.Stats()["entries_proposed"]-before), "commands/entry")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commands/s")
		})
	}
}

// BenchmarkReadBarrier serves linearizable reads on the leader.
func BenchmarkReadBarrier(b *testing.B) {
	c := newCluster(b, "a", "b", "c")
	c.adjust = func(cfg *Config) { cfg.ElectionTimeout = 0 }
	c.startAll()
	l := c.leader()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if err := l.ReadBarrier(b.Context()); err != nil {
				b.Error(err)
			}
		}
	})
}
