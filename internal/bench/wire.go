package bench

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"time"
)

// wire is an http.RoundTripper for one caller: a connection to each server, on
// which requests are written and answers read where the caller stands. Go's own
// transport hands both to goroutines of its own, which costs a busy machine more
// than the rest of a call. The answer's body must be read to its end or closed
// before the next call.
type wire struct {
	dialer net.Dialer
	conns  map[string]*wireConn
}

type wireConn struct {
	net.Conn
	r *bufio.Reader
	w *bufio.Writer
}

func newWire() *wire {
	return &wire{dialer: net.Dialer{Timeout: time.Second}, conns: map[string]*wireConn{}}
}

// RoundTrip implements http.RoundTripper.
func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	host := req.URL.Host
	c := w.conns[host]
	if c == nil {
		conn, err := w.dialer.DialContext(req.Context(), "tcp", host)
		if err != nil {
			return nil, err
		}
		c = &wireConn{Conn: conn, r: bufio.NewReader(conn), w: bufio.NewWriter(conn)}
		w.conns[host] = c
	}
	resp, err := c.exchange(req)
	if err != nil {
		_ = c.Close()
		delete(w.conns, host)
		return nil, err
	}
	resp.Body = &wireBody{ReadCloser: resp.Body, last: resp.Close, forget: func() {
		_ = c.Close()
		delete(w.conns, host)
	}}
	return resp, nil
}

func (c *wireConn) exchange(req *http.Request) (*http.Response, error) {
	deadline, _ := req.Context().Deadline() // none: the zero time, which is no deadline
	if err := c.SetDeadline(deadline); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(req.Context(), func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := req.Write(c.w); err != nil {
		return nil, err
	}
	if err := c.w.Flush(); err != nil {
		return nil, err
	}
	return http.ReadResponse(c.r, req)
}

// CloseIdleConnections is what http.Client calls when its owner is done.
func (w *wire) CloseIdleConnections() {
	for host, c := range w.conns {
		_ = c.Close()
		delete(w.conns, host)
	}
}

// wireBody reads what is left of an answer when it is closed, so that the next
// one stands at the front, or gives the connection up where that can't be.
type wireBody struct {
	io.ReadCloser
	last   bool
	forget func()
}

func (b *wireBody) Close() error {
	_, err := io.Copy(io.Discard, b.ReadCloser)
	if err != nil || b.last {
		b.forget()
	}
	return b.ReadCloser.Close()
}
