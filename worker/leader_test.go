package worker

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
)

const (
	patience = time.Minute             // for what must happen at all, however busy the machine
	longTTL  = 10 * time.Second        // for tests that aren't about the lease: a busy machine must not end it
	shortTTL = 1500 * time.Millisecond // for those that are
	slop     = 2 * time.Second         // what the leader waits beyond a lease before it says that an attempt is lost
)

// leader is a leader's side of worker sessions over real sockets, with knobs
// for what goes wrong.
type leader struct {
	t    *testing.T
	addr string
	stop func()

	hellos    chan rpc.WorkerHello
	started   chan rpc.StartedItem
	finished  chan finish
	giveBacks chan rpc.GiveBack
	declared  chan rpc.Declare

	mu           sync.Mutex
	ttl          time.Duration
	term         uint64
	conn         *rpc.Conn
	redirect     string
	deaf         bool          // heartbeats get no answer
	slow         time.Duration // heartbeats are answered late
	ahead        time.Duration // of the test's clock, the cluster's
	heard        time.Duration // when the last heartbeat came, CLOCK_BOOTTIME
	refuse       error         // of results
	slowFinish   time.Duration // results are answered late
	verdict      func(rpc.Finished) rpc.FinishedReply
	tokens       uint64
	heartbeats   int
	done         func(rpc.Done) (any, error)
	closeOnFirst bool // the connection ends instead of the first result's answer
}

type finish struct {
	rpc.Ref
	rpc.AttemptResult
}

func newLeader(t *testing.T) *leader { return newLeaderAt(t, "127.0.0.1:0") }

func newLeaderAt(t *testing.T, address string) *leader {
	t.Helper()
	var ln net.Listener
	eventually(t, patience, "listen on "+address, func() (ok bool) {
		var err error
		ln, err = net.Listen("tcp", address)
		return err == nil
	})
	return newLeaderOn(t, ln)
}

func newLeaderOn(t *testing.T, ln net.Listener) *leader {
	t.Helper()
	l := &leader{
		t: t, addr: ln.Addr().String(), term: 1, ttl: longTTL,
		hellos: make(chan rpc.WorkerHello, 64), started: make(chan rpc.StartedItem, 64),
		finished: make(chan finish, 1024), giveBacks: make(chan rpc.GiveBack, 64), declared: make(chan rpc.Declare),
	}
	ctx, cancel := context.WithCancel(context.Background())
	mux := rpc.NewMux(ln)
	done := make(chan error, 1)
	go func() {
		done <- mux.Serve(ctx, func() rpc.Hello {
			return rpc.Hello{Role: "server", Name: "s1", ClusterID: "c1"}
		}, nil, l.handle, rpc.WithLogger(testLog(t)))
	}()
	l.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(l.stop)
	return l
}

// now is the cluster's clock as this leader has it. Call it with the lock held.
func (l *leader) now() int64 { return time.Now().Add(l.ahead).UnixMicro() }

func (l *leader) with(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

func (l *leader) handle(ctx context.Context, r *rpc.Request) (any, error) {
	switch r.Method {
	case rpc.MethodWorkerHello:
		var h rpc.WorkerHello
		if err := r.Decode(&h); err != nil {
			return nil, err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.deaf {
			return nil, &rpc.Error{Code: string(job.CodeNoLeader), Text: "no quorum"}
		}
		if l.redirect != "" {
			return nil, &rpc.Error{Code: string(job.CodeNoLeader), Text: "not me", Leader: l.redirect}
		}
		l.conn = r.Conn
		l.hellos <- h
		return rpc.WorkerWelcome{
			Term: l.term, LeaseMS: l.ttl.Milliseconds(), HeartbeatMS: 50, Lease: true, NowUS: l.now(),
		}, nil
	case rpc.MethodWorkerHeartbeat:
		return l.onHeartbeat(ctx)
	case rpc.MethodWorkerStarted:
		var m rpc.Started
		err := r.Decode(&m)
		for _, item := range m.Items {
			l.started <- item
		}
		return nil, err
	case rpc.MethodWorkerFinished:
		return l.onFinished(r)
	case rpc.MethodWorkerDeclare:
		var m rpc.Declare
		err := r.Decode(&m)
		select {
		case l.declared <- m:
		default: // nobody looks
		}
		return rpc.Empty{}, err
	case rpc.MethodWorkerDone:
		var m rpc.Done
		if err := r.Decode(&m); err != nil {
			return nil, err
		}
		l.mu.Lock()
		done := l.done
		l.mu.Unlock()
		return done(m)
	case rpc.MethodWorkerGiveBack:
		var m rpc.GiveBack
		err := r.Decode(&m)
		l.giveBacks <- m
		return rpc.Empty{}, err
	}
	return nil, errors.New("unexpected " + r.Method)
}

func (l *leader) onHeartbeat(ctx context.Context) (any, error) {
	l.mu.Lock()
	l.heartbeats++
	l.heard = boottime()
	deaf, slow, term := l.deaf, l.slow, l.term
	l.mu.Unlock()
	if deaf {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	sleep(ctx, slow)
	l.mu.Lock()
	defer l.mu.Unlock()
	return rpc.HeartbeatReply{Term: term, NowUS: l.now()}, nil
}

func (l *leader) onFinished(r *rpc.Request) (any, error) {
	var m rpc.Finished
	if err := r.Decode(&m); err != nil {
		return nil, err
	}
	l.mu.Lock()
	slow := l.slowFinish
	l.mu.Unlock()
	sleep(l.t.Context(), slow)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse != nil {
		return nil, l.refuse
	}
	for _, result := range m.Results {
		f := finish{Ref: result.Ref}
		if err := msgpack.Unmarshal(result.Result, &f.AttemptResult); err != nil {
			return nil, err
		}
		l.finished <- f
	}
	if l.verdict != nil {
		return l.verdict(m), nil
	}
	if l.closeOnFirst {
		l.closeOnFirst = false
		_ = r.Conn.Close()
	}
	return rpc.FinishedReply{}, nil
}

// item makes a dispatch of a new task with a token of its own.
func (l *leader) item(x job.Executor, change ...func(*rpc.DispatchItem)) rpc.DispatchItem {
	l.t.Helper()
	b, err := msgpack.Marshal(x)
	if err != nil {
		l.t.Fatal(err)
	}
	l.mu.Lock()
	l.tokens++
	n := l.tokens
	l.mu.Unlock()
	var id [16]byte
	binary.BigEndian.PutUint64(id[:], uint64(time.Now().UnixNano()))
	binary.BigEndian.PutUint64(id[8:], n)
	item := rpc.DispatchItem{
		Ref: rpc.Ref{Namespace: "default", ID: id, Attempt: 1, Token: job.Token{Index: n}.Bytes()},
		Job: "test", Executor: b, Payload: []byte(`{"a":1}`), DueMS: time.Now().UnixMilli(), GraceMS: 200,
	}
	for _, set := range change {
		set(&item)
	}
	return item
}

func (l *leader) dispatch(items ...rpc.DispatchItem) {
	l.t.Helper()
	l.mu.Lock()
	d := rpc.Dispatch{Term: l.term, NowUS: l.now(), Items: items}
	l.mu.Unlock()
	l.notify(rpc.MethodDispatch, d)
}

func (l *leader) kill(ref rpc.Ref, reason string) {
	l.t.Helper()
	l.notify(rpc.MethodKill, rpc.Kill{Ref: ref, Reason: reason})
}

func (l *leader) notify(method string, message any) {
	l.t.Helper()
	l.mu.Lock()
	conn := l.conn
	l.mu.Unlock()
	if err := conn.Notify(l.t.Context(), method, message); err != nil {
		l.t.Fatal(err)
	}
}

func sh(script string) job.Executor {
	return job.Executor{Exec: &job.Exec{Command: []string{"sh", "-c", script}}}
}

func handler(name string) job.Executor { return job.Executor{Handler: name} }

// startWorker runs a worker against the leader and waits for its session. end
// stops it and returns what Run came to.
func startWorker(t *testing.T, l *leader, change ...func(*Config)) (w *Worker, end func() error) {
	t.Helper()
	w = newWorker(t, l, change...)
	end = runWorker(t, w)
	receive(t, l.hellos, patience)
	return w, end
}

func newWorker(t *testing.T, l *leader, change ...func(*Config)) *Worker {
	t.Helper()
	cfg := Config{
		Name: "w1", Slots: 2, Logger: testLog(t), DrainTime: 100 * time.Millisecond,
		Servers: func() []string { return []string{l.addr} },
	}
	for _, set := range change {
		set(&cfg)
	}
	w, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for name, h := range testHandlers {
		w.Handle(name, h)
	}
	return w
}

func runWorker(t *testing.T, w *Worker) (end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	end = sync.OnceValue(func() error {
		cancel()
		return receive(t, done, patience)
	})
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	})
	return end
}

// withExec gives a worker commands, in a data directory of the test's.
func withExec(dir string) func(*Config) {
	return func(c *Config) {
		c.Exec, c.DataDir, c.Supervisor = true, dir, supervisorCommand()
	}
}

var testHandlers = map[string]HandlerFunc{
	"echo": func(_ context.Context, t Task) ([]byte, error) { return t.Payload, nil },
	"wait": func(ctx context.Context, _ Task) ([]byte, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	},
	"fail":  func(context.Context, Task) ([]byte, error) { return []byte("partial"), errors.New("no luck") },
	"panic": func(context.Context, Task) ([]byte, error) { panic("oh") },
	"large": func(context.Context, Task) ([]byte, error) { return make([]byte, rpc.MaxOutputBytes+1), nil },
	"slow": func(ctx context.Context, _ Task) ([]byte, error) {
		sleep(ctx, 350*time.Millisecond)
		return []byte("slow"), nil
	},
	"deaf": func(context.Context, Task) ([]byte, error) {
		time.Sleep(300 * time.Millisecond)
		return []byte("done"), nil
	},
}

// workerMain runs a worker as a process of its own, to be killed and stopped.
func workerMain(args []string) int {
	w, err := New(Config{
		Name: "w1", Slots: 4, DataDir: args[0], Exec: true, Supervisor: supervisorCommand(),
		Servers: func() []string { return []string{args[1]} },
	})
	if err != nil {
		return 1
	}
	if w.Run(context.Background()) != nil {
		return 1
	}
	return 0
}

func fileIn(dir, name string) string { return filepath.Join(dir, name) }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
