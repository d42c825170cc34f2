package chaos

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// The receivers of callbacks. One is at times slow, refuses, or takes a callback and
// doesn't say so, and a fault may make it worse; nothing is ever wrong with the other.
const (
	sinkHost   = "sink"
	sinkURL    = "http://" + sinkHost + ":80/callbacks"
	steadyHost = "steady"
	steadyURL  = "http://" + steadyHost + ":80/callbacks"
	sinkSlow   = 12 * time.Second // longer than a server waits for an answer
)

// mood is what a fault makes of a receiver.
type mood int

const (
	usual   mood = iota
	lazy         // answers after lazyTime
	mute         // never answers
	faulty       // answers with an error
	healing      // well, for once: what was held back comes through
)

const (
	lazyTime = 8 * time.Second // a server still waits
	muteTime = time.Minute     // no server does
)

func (m mood) String() string {
	return [...]string{"usual", "slow", "mute", "broken", "healing"}[m]
}

type sink struct {
	host   string
	ledger *Ledger
	port   *Port
	web    *http.Server
	done   chan struct{}

	mu      sync.Mutex
	rng     *rand.Rand
	mood    mood
	wronged int       // requests that a mood kept waiting or refused
	better  time.Time // when it is as usual again after a fault
}

func openSink(c *Cluster, host string) (*sink, error) {
	s := &sink{host: host, ledger: c.Ledger, port: c.Net.Open(host), rng: c.rand(), done: make(chan struct{})}
	l, err := s.port.Listen(host + ":80")
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

// set puts the receiver into a mood. It returns how many requests the one before kept
// waiting or refused.
func (s *sink) set(m mood) (wronged int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wronged, s.wronged = s.wronged, 0
	s.mood = m
	if m == healing {
		s.better = time.Now().Add(healTime)
	}
	return wronged
}

// healTime is for how long a receiver takes everything after a fault: by then a server
// has tried again whatever it owes.
const healTime = 3 * time.Minute

func (s *sink) bothered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wronged
}

// draw says in which mood a request finds the receiver, and draws what it does if that
// is the usual one.
func (s *sink) draw() (m mood, roll int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.host == steadyHost:
		return healing, 0
	case s.mood == healing && time.Now().After(s.better):
		s.mood = usual
	case s.mood == lazy, s.mood == mute, s.mood == faulty:
		s.wronged++
	}
	return s.mood, s.rng.IntN(20)
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
	m, roll := s.draw()
	d.Taken = m != mute && m != faulty && (m != usual || roll > 1)
	s.ledger.delivered(d)
	switch {
	case m == faulty:
		http.Error(w, "out of order", http.StatusInternalServerError)
	case m == mute:
		pause(r.Context(), muteTime)
		panic(http.ErrAbortHandler)
	case m == lazy:
		pause(r.Context(), lazyTime)
		w.WriteHeader(http.StatusNoContent)
	case m == usual && roll <= 1:
		http.Error(w, "not now", http.StatusServiceUnavailable)
	case m == usual && roll == 2: // taken, but the answer is lost
		panic(http.ErrAbortHandler)
	case m == usual && roll == 3:
		pause(r.Context(), sinkSlow)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}
