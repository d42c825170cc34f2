package chaos

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// The receiver of callbacks, which is at times slow, refuses, or takes a callback
// and doesn't say so.
const (
	sinkHost = "sink"
	sinkURL  = "http://" + sinkHost + ":80/callbacks"
	sinkSlow = 12 * time.Second // longer than a server waits for an answer
)

type sink struct {
	ledger *Ledger
	port   *Port
	web    *http.Server
	done   chan struct{}

	mu  sync.Mutex
	rng *rand.Rand
}

func openSink(c *Cluster) (*sink, error) {
	s := &sink{ledger: c.Ledger, port: c.Net.Open(sinkHost), rng: c.rand(), done: make(chan struct{})}
	l, err := s.port.Listen(sinkHost + ":80")
	if err != nil {
		return nil, err
	}
	s.web = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go func() {
		defer close(s.done)
		_ = s.web.Serve(l) // ends with close
	}()
	return s, nil
}

func (s *sink) close() {
	_ = s.web.Close()
	s.port.Close(false)
	<-s.done
}

func (s *sink) draw(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(n)
}

// ServeHTTP implements http.Handler.
func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		ID    string `json:"id"`
		Task  string `json:"task_id"`
		State string `json:"state"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.ID != r.Header.Get("webhook-id") {
		http.Error(w, "the body is none of a callback", http.StatusBadRequest)
		return
	}
	d := Delivery{ID: body.ID, Task: body.Task, State: body.State, At: time.Now()}
	roll := s.draw(20)
	d.Taken = roll > 1
	s.ledger.delivered(d)
	switch roll {
	case 0, 1:
		http.Error(w, "not now", http.StatusServiceUnavailable)
	case 2: // taken, but the answer is lost
		panic(http.ErrAbortHandler)
	case 3:
		pause(r.Context(), sinkSlow)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}
