package worker

import (
	"context"
	"encoding/binary"
	"log/slog"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
)

// BenchmarkAttempts runs no-op handlers' attempts, from the leader's dispatch to
// its answer to the result, over a socket. cpu-µs/op is of the whole process: the
// worker, and both ends of the connection.
func BenchmarkAttempts(b *testing.B) {
	now := func(int) time.Time { return time.Now() }
	b.Run("memory", func(b *testing.B) { benchAttempts(b, "", now) })
	b.Run("journal", func(b *testing.B) { benchAttempts(b, b.TempDir(), now) })
	b.Run("armed", func(b *testing.B) {
		benchAttempts(b, "", func(int) time.Time { return time.Now().Add(20 * time.Millisecond) })
	})
	b.Run("spread", func(b *testing.B) { // 2,000 in a second: what one alone costs
		base := time.Now().Add(300 * time.Millisecond)
		benchAttempts(b, "", func(n int) time.Time { return base.Add(time.Duration(n) * 500 * time.Microsecond) })
	})
}

func benchAttempts(b *testing.B, dir string, due func(n int) time.Time) {
	const batch, window = 200, 2000
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	conns, open := make(chan *rpc.Conn, 1), make(chan struct{}, window)
	var frames atomic.Int64
	ctx, cancel := context.WithCancel(b.Context())
	served := make(chan error, 1)
	go func() {
		self := func() rpc.Hello { return rpc.Hello{Role: "server", Name: "s1", ClusterID: "c1"} }
		served <- rpc.NewMux(ln).Serve(ctx, self, nil, func(_ context.Context, r *rpc.Request) (any, error) {
			switch r.Method {
			case rpc.MethodWorkerHello:
				conns <- r.Conn
				return rpc.WorkerWelcome{Term: 1, LeaseMS: 10_000, HeartbeatMS: 1000, Lease: true, NowUS: time.Now().UnixMicro()}, nil
			case rpc.MethodWorkerFinished:
				var m rpc.Finished
				if err := r.Decode(&m); err != nil {
					return nil, err
				}
				frames.Add(1)
				for range m.Results {
					<-open
				}
				return rpc.FinishedReply{}, nil
			case rpc.MethodWorkerGiveBack:
				b.Error("an attempt was given back")
			}
			return rpc.HeartbeatReply{Term: 1, NowUS: time.Now().UnixMicro()}, nil
		})
	}()
	w, err := New(Config{
		Name: "w1", Slots: MaxSlots, DataDir: dir, Logger: slog.New(slog.DiscardHandler),
		Servers: func() []string { return []string{ln.Addr().String()} },
	})
	if err != nil {
		b.Fatal(err)
	}
	w.Handle("noop", func(context.Context, Task) ([]byte, error) { return nil, nil })
	ran := make(chan error, 1)
	working, stop := context.WithCancel(b.Context())
	go func() { ran <- w.Run(working) }()
	conn := <-conns
	executor, err := msgpack.Marshal(job.Executor{Handler: "noop"})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	before := cpuTime(b)
	for n := 0; n < b.N; {
		items := make([]rpc.DispatchItem, 0, batch)
		for ; n < b.N && len(items) < batch; n++ {
			open <- struct{}{}
			var id [16]byte
			binary.BigEndian.PutUint64(id[8:], uint64(n))
			items = append(items, rpc.DispatchItem{
				Ref:      rpc.Ref{Namespace: "default", ID: id, Attempt: 1, Token: job.Token{Index: uint64(n) + 1}.Bytes()},
				Executor: executor, Payload: []byte(`{"a":1}`), DueMS: due(n).UnixMilli(), TimeoutMS: 60_000, GraceMS: 5000,
			})
		}
		if err := conn.Notify(b.Context(), rpc.MethodDispatch, rpc.Dispatch{Term: 1, NowUS: time.Now().UnixMicro(), Items: items}); err != nil {
			b.Fatal(err)
		}
	}
	for range window { // until all are answered
		open <- struct{}{}
	}
	b.StopTimer()
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "attempts/s")
	b.ReportMetric(float64(b.N)/float64(frames.Load()), "results/frame")
	stop()
	if err := <-ran; err != nil {
		b.Error(err)
	}
	cancel()
	if err := <-served; err != nil {
		b.Error(err)
	}
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
