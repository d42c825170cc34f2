package worker

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
)

// pipes is a listener whose connections live in a test's own time.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) dial(context.Context, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case nc := <-p.conns:
		return nc, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	select {
	case <-p.closed:
	default:
		close(p.closed)
	}
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

// A worker whose name stays taken ends and says so. One that meets its own
// earlier connection for a while goes on.
func TestTakenNameEndsTheWorker(t *testing.T) {
	t.Parallel()
	for name, free := range map[string]time.Duration{"for ever": time.Hour, "for a while": 10 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var welcomed atomic.Bool
				p := newPipes()
				serving, stop := context.WithCancel(t.Context())
				served := make(chan error, 1)
				go func() {
					self := func() rpc.Hello { return rpc.Hello{Role: "server", Name: "s1", ClusterID: "c1"} }
					served <- rpc.NewMux(p).Serve(serving, self, nil, func(_ context.Context, r *rpc.Request) (any, error) {
						switch {
						case r.Method == rpc.MethodWorkerHello && time.Since(began) < free:
							return nil, &rpc.Error{Code: string(job.CodeConflict), Field: "name", Value: `"w1"`, Text: "another worker of this name is connected"}
						case r.Method == rpc.MethodWorkerHello:
							welcomed.Store(true)
							return rpc.WorkerWelcome{Term: 1, LeaseMS: 5000, HeartbeatMS: 1000, Lease: true}, nil
						}
						return rpc.HeartbeatReply{Term: 1}, nil
					}, rpc.WithLogger(testLog(t)))
				}()
				w, err := New(Config{
					Name: "w1", Logger: testLog(t), Servers: func() []string { return []string{"s1"} }, Dial: p.dial,
					Clock: func() time.Duration { return time.Since(began) },
				})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				err = w.Run(ctx)
				took := time.Since(began)
				var wrong *job.Error
				switch {
				case free < time.Hour && (err != nil || !welcomed.Load() || took < time.Minute):
					t.Errorf("it ended after %v with %v", took, err)
				case free == time.Hour && (!errors.As(err, &wrong) || wrong.Code != job.CodeConflict || wrong.Field != "name" ||
					!strings.HasSuffix(wrong.Error(), `(got "w1")`)):
					t.Errorf("it ended with %v", err)
				case free == time.Hour && (took < takenTime || took > takenTime+2*time.Second):
					t.Errorf("it ended after %v", took)
				}
				stop()
				if err := <-served; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
