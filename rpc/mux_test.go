package rpc

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pipeListener is a listener within a synctest bubble.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case nc := <-l.conns:
		return nc, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

func (l *pipeListener) dial() net.Conn {
	a, b := net.Pipe()
	l.conns <- a
	return b
}

// serveMux runs a mux for the test and returns what ends it.
func serveMux(t *testing.T, ln net.Listener, accept func(Hello) *Error) (m *Mux, stop func()) {
	t.Helper()
	m = NewMux(ln)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- m.Serve(ctx, func() Hello { return helloS }, accept, echo, WithLogger(slog.New(slog.DiscardHandler)))
	}()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return m, stop
}

func TestMuxSharesOnePort(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m, stop := serveMux(t, ln, nil)
	dial := func() net.Conn {
		nc, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		return nc
	}

	raft, err := DialRaft(dial(), helloS)
	if err != nil {
		t.Fatal(err)
	}
	defer raft.Close()
	if _, err := raft.Write([]byte("vote")); err != nil {
		t.Fatal(err)
	}
	got, err := m.Raft().Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	var b [4]byte
	if _, err := io.ReadFull(got, b[:]); err != nil || string(b[:]) != "vote" {
		t.Errorf("raft read %q, %v", b, err)
	}

	c, err := Dial(t.Context(), dial(), helloW, nil)
	if err != nil {
		t.Fatal(err)
	}
	var reply string
	if err := c.Call(t.Context(), "m", "x", &reply); err != nil || reply != "m:x" {
		t.Errorf("%q, %v", reply, err)
	}

	browser := dial()
	defer browser.Close()
	if _, err := io.WriteString(browser, "GET / HTTP/1.1\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if answer, _ := io.ReadAll(browser); len(answer) != 0 {
		t.Errorf("the browser got %q", answer)
	}
	stop()
	<-c.Done()
	c.Wait()
	if got, want := m.Stats(), (MuxStats{Raft: 1, RPC: 1, Foreign: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if _, err := m.Raft().Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("raft's listener after the end: %v", err)
	}
}

func TestMuxRefusesByHello(t *testing.T) {
	synctest.Test(t, testMuxRefuses)
}

func testMuxRefuses(t *testing.T) {
	stranger := helloW
	stranger.ClusterID = "c2"
	unknown := helloW
	unknown.ClusterID = ""
	banned := helloW
	banned.Name = "w9"
	accept := func(h Hello) *Error {
		if h.Name == "w9" {
			return &Error{Code: "forbidden", Text: "w9 was removed"}
		}
		return nil
	}
	ln := newPipeListener()
	m, _ := serveMux(t, ln, accept)
	for _, tt := range []struct {
		self       Hello
		code, text string
	}{
		{stranger, codeConflict, "server s1 belongs to cluster c1, worker w1 to cluster c2: check"},
		{banned, "forbidden", "w9 was removed"},
		{unknown, "", ""},
	} {
		c, err := Dial(t.Context(), ln.dial(), tt.self, nil)
		if tt.code == "" {
			if err != nil {
				t.Fatal(err)
			}
			_ = c.Close()
			c.Wait()
			continue
		}
		var e *Error
		if !errors.As(err, &e) || e.Code != tt.code || !strings.HasPrefix(e.Text, tt.text) {
			t.Errorf("%+v: %v", tt.self, err)
		}
	}
	synctest.Wait()
	if got := m.Stats(); got.Refused != 2 || got.RPC != 1 {
		t.Errorf("%+v", got)
	}
}

// Both sides check, since either may be the older program.
func TestProtocolMismatchIsRefused(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	go func() {
		defer b.Close()
		newer := helloW
		newer.Protocol = Protocol + 1
		_, _ = b.Write([]byte{byteRPC})
		sendRaw(t, b, kindHello, 0, "", &newer)
		_, _ = io.Copy(io.Discard, b)
	}()
	var e *Error
	if _, err := accepted(a, nil); !errors.As(err, &e) || !strings.Contains(e.Text, "upgrade the older") {
		t.Errorf("the accepting side: %v", err)
	}

	c, d := net.Pipe()
	go func() {
		newer := helloS
		newer.Protocol = Protocol + 1
		buf := make([]byte, 4096)
		_, _ = d.Read(buf)
		sendRaw(t, d, kindHello, 0, "", &newer)
	}()
	if _, err := Dial(t.Context(), c, helloW, nil); !errors.As(err, &e) || !strings.Contains(e.Text, "upgrade the older") {
		t.Errorf("the dialling side: %v", err)
	}
}

func TestMuxClosesTheSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := newPipeListener()
		m, stop := serveMux(t, ln, nil)
		mute, drip := ln.dial(), ln.dial()
		start := time.Now()
		go func() { // one byte a second is never silent, and never a hello
			_, _ = drip.Write([]byte{byteRPC, 0, 0, 1})
			for {
				time.Sleep(time.Second)
				if _, err := drip.Write([]byte{0}); err != nil {
					return
				}
			}
		}()
		_, _ = mute.Read(make([]byte, 1))
		_, _ = drip.Read(make([]byte, 1))
		if took := time.Since(start); took > HelloTimeout+time.Second {
			t.Errorf("closed after %v", took)
		}
		synctest.Wait()
		if got := m.Stats(); got.Silent != 2 {
			t.Errorf("%+v", got)
		}
		stop()
		time.Sleep(2 * time.Second)
	})
}

func TestIdlersDoNotShutOthersOut(t *testing.T) {
	ln := newPipeListener()
	m, _ := serveMux(t, ln, nil)
	for range 3 * MaxUndecided {
		defer ln.dial().Close()
	}
	c, err := Dial(t.Context(), ln.dial(), helloW, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	c.Wait()
	if got := m.Stats(); got.Silent < 2*MaxUndecided {
		t.Errorf("%+v", got)
	}
}

func TestRaftThatAcceptsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := newPipeListener()
		m, stop := serveMux(t, ln, nil)
		var all []net.Conn
		for range raftBacklog + 1 {
			nc, err := DialRaft(ln.dial(), helloS)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, nc)
			synctest.Wait() // they queue in order
		}
		if _, err := all[raftBacklog].Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		_ = m.Raft().Close()
		for _, nc := range all[:raftBacklog] {
			if _, err := nc.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Error(err)
			}
		}
		stop()
	})
}

func TestDialEndsWithItsContext(t *testing.T) {
	a, b := net.Pipe()
	defer b.Close()
	go func() { _, _ = io.Copy(io.Discard, b) }()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := Dial(ctx, a, helloW, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// Raft's wire has no hello of its own: whoever got through could vote, or make a
// server follow it.
func TestRaftIsForServersOfTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := newPipeListener()
		m, stop := serveMux(t, ln, nil)
		foreign := helloS
		foreign.ClusterID = "c2"
		for name, hello := range map[string]Hello{"a worker": helloW, "a client": {Role: "client"}, "another cluster's server": foreign} {
			nc, err := DialRaft(ln.dial(), hello)
			if err == nil {
				_, err = nc.Read(make([]byte, 1))
			}
			// The peer may close before the dialer has done with the connection.
			if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("%s: %v", name, err)
			}
		}
		bare := ln.dial() // the byte alone, then Raft
		if _, err := bare.Write([]byte{byteRaft, 0, 0, 0, 0}); err != nil {
			t.Fatal(err)
		}
		if _, err := bare.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("without a hello: %v", err)
		}
		if got := m.Stats(); got.Raft != 0 || got.Refused != 3 || got.Foreign != 1 {
			t.Errorf("%+v", got)
		}
		stop()
	})
}
