package rpc

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
)

// count sends the numbers below n.
func count(n int) Handler {
	return func(_ context.Context, r *Request) (any, error) {
		for i := range n {
			if err := r.Send(i); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
}

func TestStreamArrivesWholeAndInOrder(t *testing.T) {
	for _, n := range []int{0, 1, StreamWindow, 10*StreamWindow + 1} {
		server, _ := connect(t, nil, count(n))
		next := 0
		err := server.Stream(t.Context(), "m", nil, func(decode func(any) error) error {
			var i int
			if err := decode(&i); err != nil || i != next {
				t.Fatalf("chunk %d, %v; want %d", i, err, next)
			}
			next++
			return nil
		})
		if err != nil || next != n {
			t.Errorf("%d of %d chunks, %v", next, n, err)
		}
	}
}

func TestSlowStreamHoldsUpItselfAlone(t *testing.T) {
	var sent atomic.Int32
	handler := func(ctx context.Context, r *Request) (any, error) {
		if r.Method == "call" {
			return nil, nil
		}
		for i := range 10 * StreamWindow {
			if err := r.Send(make([]byte, 100_000+i)); err != nil {
				return nil, err
			}
			sent.Add(1)
		}
		return nil, nil
	}
	server, _ := connect(t, nil, handler)
	first, resume := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		n := 0
		done <- server.Stream(t.Context(), "stream", nil, func(func(any) error) error {
			if n++; n == 1 {
				close(first)
				<-resume
			}
			return nil
		})
	}()
	<-first
	for range 100 {
		if err := server.Call(t.Context(), "call", nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := sent.Load(); n > StreamWindow {
		t.Errorf("%d chunks sent to a reader that took one", n)
	}
	close(resume)
	if err := <-done; err != nil || sent.Load() != 10*StreamWindow {
		t.Errorf("%d chunks, %v", sent.Load(), err)
	}
}

func TestStreamEndsForItsSender(t *testing.T) {
	stop := errors.New("enough")
	ended := make(chan error, 1)
	server, worker := connect(t, nil, func(_ context.Context, r *Request) (any, error) {
		for {
			if err := r.Send("x"); err != nil {
				ended <- err
				return nil, err
			}
		}
	})
	if err := server.Stream(t.Context(), "m", nil, func(func(any) error) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("each failed: %v", err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the sender saw %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := server.Stream(ctx, "m", nil, func(func(any) error) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the sender saw %v", err)
	}
	if err := errors.Join(server.Err(), worker.Err()); err != nil {
		t.Error(err)
	}
}

func TestStreamFails(t *testing.T) {
	server, _ := connect(t, nil, func(_ context.Context, r *Request) (any, error) {
		if r.Method == "large" {
			return nil, r.Send(make([]byte, MaxChunk))
		}
		if err := r.Send("x"); err != nil {
			return nil, err
		}
		return nil, &Error{Code: "not_found", Text: "the attempt ended"}
	})
	chunks := 0
	each := func(func(any) error) error { chunks++; return nil }
	var e *Error
	if err := server.Stream(t.Context(), "m", nil, each); !errors.As(err, &e) || e.Code != "not_found" || chunks != 1 {
		t.Errorf("%v after %d chunks", err, chunks)
	}
	if err := server.Stream(t.Context(), "large", nil, each); !errors.As(err, &e) || e.Code != codeTooLarge {
		t.Errorf("a large chunk: %v", err)
	}
	if err := server.Call(t.Context(), "m", nil, nil); !errors.As(err, &e) || e.Code != codeInternal {
		t.Errorf("a stream that was called: %v", err)
	}
}

// A cancel that found no room is made up for by the answer to the next chunk.
func TestChunkForNobodyIsCancelled(t *testing.T) {
	c, nc, br := rawPeer(t, nil)
	_ = c
	go sendRaw(t, nc, kindChunk, 77, "", "x")
	f, err := readFrame(br, MaxFrame)
	if err != nil || f.kind != kindCancel || f.id != 77 {
		t.Errorf("%+v, %v", f, err)
	}
}
