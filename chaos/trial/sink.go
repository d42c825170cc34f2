package trial

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/axd-project/axd/job"
)

// Delivery is one callback as its receiver saw it.
type Delivery struct {
	At    time.Time `json:"at"`
	ID    string    `json:"id"` // of the delivery
	Task  string    `json:"task"`
	State string    `json:"state"`
	Taken bool      `json:"taken"` // it was answered with success
}

// sink receives callbacks.
type sink struct {
	http *http.Server
	url  string
	done chan struct{}

	mu         sync.Mutex
	deliveries []Delivery
	slow       func(n int) (wait time.Duration, status int) // what becomes of the nth from now
	slowed     int
}

const maxCallback = 1 << 20 // bytes of a body

func newSink() (*sink, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &sink{url: "http://" + ln.Addr().String() + "/callback", done: make(chan struct{})}
	s.http = &http.Server{Handler: http.HandlerFunc(s.receive), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(ln)
	}()
	return s, nil
}

func (s *sink) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxCallback))
	var told job.CallbackBody
	if err == nil {
		err = json.Unmarshal(body, &told)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	wait, status := time.Duration(0), http.StatusOK
	if s.slow != nil {
		wait, status = s.slow(s.slowed)
		s.slowed++
	}
	s.mu.Unlock()
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
		}
	}
	s.mu.Lock()
	s.deliveries = append(s.deliveries, Delivery{
		At: time.Now(), ID: told.ID, Task: told.Task, State: told.State, Taken: status == http.StatusOK,
	})
	s.mu.Unlock()
	if status == 0 { // end the connection without an answer
		if h, ok := w.(http.Hijacker); ok {
			if nc, _, err := h.Hijack(); err == nil {
				if tcp, ok := nc.(*net.TCPConn); ok {
					_ = tcp.SetLinger(0)
				}
				_ = nc.Close()
			}
		}
		return
	}
	w.WriteHeader(status)
}

// trouble changes what becomes of callbacks; nil: they are taken at once. It
// returns how many met the trouble before.
func (s *sink) trouble(slow func(n int) (time.Duration, int)) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	met := s.slowed
	s.slow, s.slowed = slow, 0
	return met
}

func (s *sink) list() []Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Delivery(nil), s.deliveries...)
}

func (s *sink) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close()
	}
	<-s.done
}
