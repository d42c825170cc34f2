package rpc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"testing"
)

// FuzzFrame: bytes from the wire never panic, and what decodes says what it
// was made of.
func FuzzFrame(f *testing.F) {
	for _, msg := range []any{nil, "x", &helloW, &WorkerHello{Name: "w1", Labels: map[string]string{"k": "v"}}, &Dispatch{Items: []DispatchItem{{Job: "j"}}}} {
		b, err := encodeFrame(kindCall, 7, MethodDispatch, msg)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes()[frameLength:])
	}
	f.Add([]byte{0x93, kindCall, 0xc0, 0xdb, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, raw []byte) {
		wire := binary.BigEndian.AppendUint32(nil, uint32(len(raw)))
		got, err := readFrame(bufio.NewReader(bytes.NewReader(append(wire, raw...))), MaxFrame)
		if err != nil {
			return
		}
		if len(got.method) > maxMethod || len(got.body) > len(raw) {
			t.Fatalf("%+v out of %d bytes", got, len(raw))
		}
		for _, into := range []any{new(Hello), new(WorkerHello), new(Dispatch), new(Finished), new(Output), new(Error)} {
			_ = decodeBody(got.body, into)
		}
		b, err := encodeFrame(got.kind, got.id, got.method, nil)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeFrame(b.Bytes()[frameLength:])
		if err != nil || again.kind != got.kind || again.id != got.id || again.method != got.method {
			t.Fatalf("%+v became %+v, %v", got, again, err)
		}
	})
}

func benchPair(b *testing.B, h Handler) *Conn {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	m := NewMux(ln)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Serve(ctx, func() Hello { return helloS }, nil, h) }()
	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	c, err := Dial(ctx, nc, helloW, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = c.Close()
		c.Wait()
		cancel()
		<-done
	})
	return c
}

func BenchmarkCall(b *testing.B) {
	c := benchPair(b, func(context.Context, *Request) (any, error) { return &IndexReply{Index: 7}, nil })
	var reply IndexReply
	for b.Loop() {
		if err := c.Call(b.Context(), MethodReadIndex, &Empty{}, &reply); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCallParallel(b *testing.B) {
	c := benchPair(b, func(context.Context, *Request) (any, error) { return &IndexReply{Index: 7}, nil })
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		var reply IndexReply
		for pb.Next() {
			if err := c.Call(b.Context(), MethodReadIndex, &Empty{}, &reply); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkNotify(b *testing.B) {
	c := benchPair(b, func(context.Context, *Request) (any, error) { return nil, nil })
	msg := &Started{Items: []StartedItem{{Ref: Ref{Namespace: "default", Token: Token{1}}, AtMS: 1}}}
	for b.Loop() {
		if err := c.Notify(b.Context(), MethodWorkerStarted, msg); err != nil {
			b.Fatal(err)
		}
	}
}
