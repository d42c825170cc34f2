package chaos

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// joined runs a test on a network with a connection from a to b.
func joined(t *testing.T, test func(t *testing.T, n *Network, a, b net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork(rand.New(rand.NewPCG(1, 1)))
		there, here := n.Open("b"), n.Open("a")
		ln, err := there.Listen("b:1")
		if err != nil {
			t.Fatal(err)
		}
		a, err := here.Dial(t.Context(), "b:1")
		if err != nil {
			t.Fatal(err)
		}
		b, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		test(t, n, a, b)
		there.Close(false)
		here.Close(false)
	})
}

func receive(t *testing.T, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("got %q and %v, want %q", got, err, want)
	}
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

func TestCutHoldsUntilItHeals(t *testing.T) {
	joined(t, func(t *testing.T, n *Network, a, b net.Conn) {
		began := time.Now()
		send(t, a, "one")
		receive(t, b, "one")
		if took := time.Since(began); took < latency || took > 2*latency {
			t.Errorf("a message took %v", took)
		}
		n.Cut("a", "b")
		send(t, a, "two")
		send(t, b, "back") // the other direction is free
		receive(t, a, "back")
		_ = b.SetReadDeadline(time.Now().Add(time.Hour))
		if _, err := b.Read(make([]byte, 9)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a read over a cut link ended with %v", err)
		}
		if n.Acted("a", "b") == 0 || n.Acted("b", "a") != 0 {
			t.Error("what the cut held is not counted")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := n.ports["b"].Dial(ctx, "a:1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a dial whose answer is cut ended with %v", err)
		}
		_ = b.SetReadDeadline(time.Time{})
		time.AfterFunc(time.Second, func() { n.Heal("a", "b") })
		receive(t, b, "two")
	})
}

func TestDelayKeepsTheOrder(t *testing.T) {
	joined(t, func(t *testing.T, n *Network, a, b net.Conn) {
		n.Slow("a", "b", 50*time.Millisecond, 50*time.Millisecond)
		began := time.Now()
		for _, text := range []string{"1", "2", "3", "4", "5"} {
			send(t, a, text)
		}
		receive(t, b, "12345")
		if took := time.Since(began); took < 50*time.Millisecond || took > 101*time.Millisecond {
			t.Errorf("delayed messages took %v", took)
		}
	})
}

func TestEndsOfConnections(t *testing.T) {
	read := func(c net.Conn) error {
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		_, err := c.Read(make([]byte, 1))
		return err
	}
	joined(t, func(t *testing.T, n *Network, a, b net.Conn) {
		send(t, a, "last")
		_ = a.Close()
		receive(t, b, "last") // what was sent before arrives
		if err := read(b); !errors.Is(err, io.EOF) {
			t.Errorf("after a close: %v", err)
		}
		if _, err := b.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("a write to who closed: %v", err)
		}
	})
	joined(t, func(t *testing.T, n *Network, a, b net.Conn) {
		n.ports["a"].Close(false)
		if err := read(b); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("after a kill: %v", err)
		}
		if _, err := n.ports["b"].Dial(t.Context(), "a:1"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a dial to nobody: %v", err)
		}
	})
	joined(t, func(t *testing.T, n *Network, a, b net.Conn) {
		n.ports["a"].Close(true)
		if err := read(b); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("while the power is off: %v", err)
		}
		n.Open("a")
		if err := read(b); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("once the power is back: %v", err)
		}
	})
	joined(t, func(t *testing.T, n *Network, a, b net.Conn) {
		n.Break("a", "b", 1)
		if _, err := a.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a write that breaks: %v", err)
		}
		if err := read(b); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the other side of it: %v", err)
		}
	})
}

func TestFullWindowHoldsTheWriter(t *testing.T) {
	joined(t, func(t *testing.T, _ *Network, a, b net.Conn) {
		_ = a.SetWriteDeadline(time.Now().Add(time.Second))
		n, err := a.Write(make([]byte, 2*streamWindow))
		if n != streamWindow || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a write without a reader took %d bytes and ended with %v", n, err)
		}
		_ = a.SetWriteDeadline(time.Time{})
		go func() { _, _ = io.Copy(io.Discard, b) }()
		send(t, a, string(make([]byte, 3*streamWindow)))
	})
}
