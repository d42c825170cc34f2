package rpc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	helloS = Hello{Role: "server", Name: "s1", Boot: "b1", ClusterID: "c1"}
	helloW = Hello{Role: "worker", Name: "w1", Boot: "b2", ClusterID: "c1"}
)

// accepted is the accepting side of a connection, as the mux does it.
func accepted(nc net.Conn, h Handler, opts ...Option) (*Conn, error) {
	br := bufio.NewReaderSize(deadlineReader{nc}, ioBuffer)
	if b, err := br.ReadByte(); err != nil || b != byteRPC {
		return nil, fmt.Errorf("first byte %q: %w", b, err)
	}
	peer, err := acceptHello(nc, br, helloS, nil)
	if err != nil {
		return nil, err
	}
	return newConn(nc, br, peer, h, newOptions(opts)), nil
}

// connect joins two sides by a pipe and closes them at the end of the test.
func connect(t *testing.T, atServer, atWorker Handler, opts ...Option) (server, worker *Conn) {
	t.Helper()
	a, b := net.Pipe()
	ready := make(chan error, 1)
	go func() {
		var err error
		server, err = accepted(a, atServer, opts...)
		ready <- err
	}()
	worker, err := Dial(t.Context(), b, helloW, atWorker, opts...)
	if err = errors.Join(err, <-ready); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Close()
		_ = worker.Close()
		server.Wait()
		worker.Wait()
	})
	return server, worker
}

// rawPeer is a dialer that speaks frames by hand.
func rawPeer(t *testing.T, h Handler, opts ...Option) (*Conn, net.Conn, *bufio.Reader) {
	t.Helper()
	a, b := net.Pipe()
	got := make(chan Hello, 1)
	br := bufio.NewReader(b)
	go func() {
		peer, _ := dialHello(b, br, helloW)
		got <- peer
	}()
	c, err := accepted(a, h, opts...)
	if err != nil {
		t.Fatal(err)
	}
	if peer := <-got; peer.Name != helloS.Name {
		t.Fatalf("hello from %q", peer.Name)
	}
	_ = b.SetDeadline(time.Time{})
	t.Cleanup(func() {
		_ = c.Close()
		_ = b.Close()
		c.Wait()
	})
	return c, b, br
}

func sendRaw(t *testing.T, w io.Writer, kind uint8, id uint64, method string, msg any) {
	t.Helper()
	b, err := encodeFrame(kind, id, method, msg)
	if err == nil {
		_, err = w.Write(b.Bytes())
	}
	if err != nil {
		t.Error(err)
	}
}

func echo(_ context.Context, r *Request) (any, error) {
	var s string
	if err := r.Decode(&s); err != nil {
		return nil, err
	}
	return r.Method + ":" + s, nil
}

func TestBothSidesCall(t *testing.T) {
	server, worker := connect(t, echo, echo)
	if got := worker.Peer(); got.Name != "s1" || got.Protocol != Protocol {
		t.Errorf("the worker's peer is %+v", got)
	}
	if got := server.Peer(); got.Name != "w1" || got.Boot != "b2" {
		t.Errorf("the server's peer is %+v", got)
	}
	var wg sync.WaitGroup
	for i := range 200 {
		for _, c := range []*Conn{server, worker} {
			wg.Go(func() {
				var got string
				want := fmt.Sprintf("m:%d", i)
				if err := c.Call(t.Context(), "m", fmt.Sprint(i), &got); err != nil || got != want {
					t.Errorf("call: %q, %v; want %q", got, err, want)
				}
			})
		}
	}
	wg.Wait()
	for _, c := range []*Conn{server, worker} {
		c.mu.Lock()
		if n := len(c.pending) + len(c.served); n != 0 {
			t.Errorf("%d calls are kept", n)
		}
		c.mu.Unlock()
	}
}

func TestErrorsOfHandlers(t *testing.T) {
	foreign := errors.New("no such job")
	var logged bytes.Buffer
	handler := func(_ context.Context, r *Request) (any, error) {
		switch r.Method {
		case "own":
			return nil, fmt.Errorf("wrapped: %w", &Error{Code: "no_leader", Text: "ask s2", Leader: "s2:1"})
		case "foreign":
			return nil, foreign
		case "late":
			return nil, context.DeadlineExceeded
		case "panic":
			panic("a bug")
		case "malformed":
			return nil, r.Decode(new(map[string]int))
		case "large":
			return make([]byte, MaxFrame), nil
		}
		return nil, io.ErrUnexpectedEOF
	}
	encode := func(err error) *Error {
		if errors.Is(err, foreign) {
			return &Error{Code: "not_found", Text: err.Error(), Field: "job"}
		}
		return nil
	}
	_, worker := connect(t, handler, nil, WithErrorEncoder(encode), WithLogger(slog.New(slog.NewTextHandler(&logged, nil))))
	for _, tt := range []struct {
		method string
		want   Error
	}{
		{"own", Error{Code: "no_leader", Text: "ask s2", Leader: "s2:1"}},
		{"foreign", Error{Code: "not_found", Text: "no such job", Field: "job"}},
		{"late", Error{Code: codeTimeout, Text: "context deadline exceeded"}},
		{"other", Error{Code: codeInternal, Text: "unexpected EOF"}},
		{"panic", Error{Code: codeInternal, Text: "panic failed by a bug; the server's log has the details"}},
		{"malformed", Error{Code: codeInvalid, Field: "malformed"}},
		{"large", Error{Code: codeTooLarge}},
	} {
		var got *Error
		err := worker.Call(t.Context(), tt.method, "text", nil)
		if !errors.As(err, &got) {
			t.Errorf("%s: %v, want an *Error", tt.method, err)
			continue
		}
		if tt.want.Text == "" {
			tt.want.Text, tt.want.Field = got.Text, got.Field
		}
		if *got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.method, *got, tt.want)
		}
	}
	if s := logged.String(); !strings.Contains(s, "a bug") || !strings.Contains(s, "stack=") {
		t.Errorf("the panic isn't logged: %s", s)
	}
}

func TestNoHandlerRefuses(t *testing.T) {
	server, _ := connect(t, nil, nil)
	var got *Error
	if err := server.Call(t.Context(), "m", nil, nil); !errors.As(err, &got) || got.Code != codeUnsupported {
		t.Errorf("got %v", err)
	}
}

func TestCancelReachesTheHandler(t *testing.T) {
	entered, ended := make(chan struct{}), make(chan struct{})
	server, worker := connect(t, nil, func(ctx context.Context, _ *Request) (any, error) {
		close(entered)
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-entered; cancel() }()
	if err := server.Call(ctx, "m", nil, nil); !errors.Is(err, context.Canceled) || errors.Is(err, ErrNotSent) {
		t.Errorf("got %v", err)
	}
	<-ended
	if worker.Err() != nil {
		t.Error(worker.Err())
	}
}

func TestCloseFailsPendingCalls(t *testing.T) {
	entered := make(chan struct{}, 3)
	server, worker := connect(t, func(ctx context.Context, _ *Request) (any, error) {
		entered <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}, nil)
	errs := make(chan error, 3)
	for range 2 {
		go func() { errs <- worker.Call(t.Context(), "m", nil, nil) }()
	}
	go func() {
		errs <- worker.Stream(t.Context(), "m", nil, func(func(any) error) error { return nil })
	}()
	for range 3 {
		<-entered
	}
	_ = server.Close()
	for range 3 {
		if err := <-errs; !errors.Is(err, ErrClosed) || errors.Is(err, ErrNotSent) {
			t.Errorf("got %v", err)
		}
	}
	<-worker.Done()
	for _, err := range []error{
		worker.Call(t.Context(), "m", nil, nil), worker.Notify(t.Context(), "m", nil),
	} {
		if !errors.Is(err, ErrClosed) || !errors.Is(err, ErrNotSent) {
			t.Errorf("on a closed connection: %v", err)
		}
	}
}

func TestTooLargeIsNotSent(t *testing.T) {
	_, worker := connect(t, echo, nil)
	var e *Error
	err := worker.Call(t.Context(), "m", make([]byte, MaxFrame), nil)
	if !errors.As(err, &e) || e.Code != codeTooLarge || !errors.Is(err, ErrNotSent) {
		t.Errorf("got %v", err)
	}
	big, got := strings.Repeat("x", MaxFrame-100), ""
	if err := worker.Call(t.Context(), "m", big, &got); err != nil || got != "m:"+big {
		t.Errorf("a frame under the limit: %d bytes, %v", len(got), err)
	}
}

func TestNotificationsKeepTheirOrder(t *testing.T) {
	const n = 3 * queueEntries // more than may wait
	var got []int
	done := make(chan struct{})
	_, worker := connect(t, func(_ context.Context, r *Request) (any, error) {
		var i int
		if err := r.Decode(&i); err != nil {
			return nil, err
		}
		if got = append(got, i); len(got) == n {
			close(done)
		}
		return nil, nil
	}, nil)
	for i := range n {
		if err := worker.Notify(t.Context(), "m", i); err != nil {
			t.Fatal(err)
		}
	}
	<-done
	if !slices.IsSorted(got) {
		t.Error("out of order")
	}
}

func TestFullQueueMakesNotifyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		_, worker := connect(t, func(context.Context, *Request) (any, error) {
			<-release
			return nil, nil
		}, nil)
		defer close(release)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for i := 0; ; i++ {
			err := worker.Notify(ctx, "m", i)
			if err == nil && i <= 16*queueEntries {
				continue
			}
			if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrNotSent) || i < 2*queueEntries {
				t.Errorf("notification %d: %v", i, err)
			}
			return
		}
	})
}

func TestTooManyCallsAreRefused(t *testing.T) {
	_, nc, br := rawPeer(t, func(ctx context.Context, _ *Request) (any, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	go func() {
		for id := range uint64(MaxCalls + 1) {
			sendRaw(t, nc, kindCall, id, "m", nil)
		}
	}()
	f, err := readFrame(br, MaxFrame)
	var e *Error
	if err != nil || f.id != MaxCalls || !errors.As(decodeError(f), &e) || e.Code != codeOverloaded {
		t.Errorf("frame %+v, %v", f, err)
	}
}

func TestCallersWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, testCallersWait)
}

func testCallersWait(t *testing.T) {
	var serving, most atomic.Int32
	release := make(chan struct{})
	_, worker := connect(t, func(context.Context, *Request) (any, error) {
		most.Store(max(most.Load(), serving.Add(1)))
		<-release
		serving.Add(-1)
		return nil, nil
	}, nil)
	var wg sync.WaitGroup
	for range 2 * MaxCalls {
		wg.Go(func() {
			if err := worker.Call(t.Context(), "m", nil, nil); err != nil {
				t.Error(err)
			}
		})
	}
	synctest.Wait()
	if n := serving.Load(); n != MaxCalls {
		t.Errorf("%d are served", n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := worker.Call(ctx, "m", nil, nil); !errors.Is(err, ErrNotSent) {
		t.Errorf("one too many: %v", err)
	}
	close(release)
	wg.Wait()
	if most.Load() > MaxCalls {
		t.Errorf("%d at once", most.Load())
	}
}

func TestRogueFramesEndTheConnection(t *testing.T) {
	for name, send := range map[string]func(t *testing.T, w io.Writer){
		"no msgpack": func(_ *testing.T, w io.Writer) { _, _ = w.Write([]byte{0, 0, 0, 1, 0xc1}) },
		"too long":   func(_ *testing.T, w io.Writer) { _, _ = w.Write([]byte{0xff, 0, 0, 0}) },
		"cut short":  func(_ *testing.T, w io.Writer) { _, _ = w.Write([]byte{0, 0, 0, 9, 0}); _ = w.(io.Closer).Close() },
		"hello":      func(t *testing.T, w io.Writer) { sendRaw(t, w, kindHello, 0, "", &helloW) },
		"same id": func(t *testing.T, w io.Writer) {
			sendRaw(t, w, kindCall, 1, "m", nil)
			sendRaw(t, w, kindCall, 1, "m", nil)
		},
		"credit": func(t *testing.T, w io.Writer) {
			sendRaw(t, w, kindStream, 1, "m", nil)
			sendRaw(t, w, kindCredit, 1, "", uint64(1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, nc, br := rawPeer(t, func(ctx context.Context, _ *Request) (any, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			})
			go func() { _, _ = io.Copy(io.Discard, br) }()
			send(t, nc)
			<-c.Done()
			if err := c.Err(); !errors.Is(err, errFrame) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.ErrClosedPipe) {
				t.Error(err)
			}
		})
	}
}

func TestPingsKeepAnIdleConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, worker := connect(t, echo, nil)
		time.Sleep(time.Hour)
		if err := errors.Join(server.Err(), worker.Err()); err != nil {
			t.Fatal(err)
		}
		if err := worker.Call(t.Context(), "m", "x", nil); err != nil {
			t.Error(err)
		}
	})
}

func TestSilentPeerIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, br := rawPeer(t, echo)
		go func() { _, _ = io.Copy(io.Discard, br) }() // takes all, says nothing
		start := time.Now()
		err := c.Call(t.Context(), "m", nil, nil)
		if took := time.Since(start); !errors.Is(err, ErrClosed) || took > IdleTimeout {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

func TestPeerThatTakesNothingIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, nc, _ := rawPeer(t, echo)
		go func() { // lives, but never reads
			ping, _ := encodeFrame(kindPing, 0, "", nil)
			tick := time.NewTicker(PingInterval)
			defer tick.Stop()
			for {
				select {
				case <-c.Done():
					return
				case <-tick.C:
					_, _ = nc.Write(ping.Bytes())
				}
			}
		}()
		start := time.Now()
		err := c.Call(t.Context(), "m", nil, nil)
		if took := time.Since(start); !errors.Is(err, ErrClosed) || took > WriteTimeout {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

func TestWaitingNotificationsAreNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, worker := connect(t, func(context.Context, *Request) (any, error) {
			time.Sleep(time.Minute)
			return nil, nil
		}, nil)
		if err := worker.Notify(t.Context(), "m", nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		if err := errors.Join(server.Err(), worker.Err()); err != nil {
			t.Error(err)
		}
	})
}
