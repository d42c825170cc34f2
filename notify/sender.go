package notify

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// The defaults of Config, and limits.
const (
	DefaultPerTarget = 4
	DefaultTotal     = 1024
	DefaultTimeout   = 10 * time.Second

	targetPage = 256                   // targets read at once
	rescan     = 30 * time.Second      // between looks at all targets, should a hint be lost
	minWait    = 10 * time.Millisecond // between looks at the targets that are known
	commitWait = 500 * time.Millisecond
)

// Config says how requests are sent. Zero values take the defaults.
type Config struct {
	Guard     Guard
	PerTarget int               // requests to one target at once
	Total     int               // requests at once
	Timeout   time.Duration     // of one request, answer included
	UserAgent string            // default: axd
	What      string            // is sent, for the log; default: callback
	MaxTaken  int               // bytes of an answer that is wanted; what is longer is no good
	Now       func() int64      // the cluster's clock, Unix ms
	Transport http.RoundTripper // default: HTTP by the Guard's rules
	Logger    *slog.Logger
}

// Delivery is one request to send.
type Delivery struct {
	ID     string // the same however often it is sent
	URL    string
	Body   []byte
	Keys   [][]byte // to sign it with; none: it is not signed
	Unsent string   // why it can't be sent now: that counts as a try; empty: it can
	Handle any      // the outbox's own
	Header map[string]string

	// Take makes the request a GET, whose answer is wanted: it gets the body, while the
	// request counts as on its way. An error says why the answer is no good.
	Take func(ctx context.Context, body []byte) error
}

// Outcome is what came of one try.
type Outcome struct {
	OK     bool   // it was taken: a status of 200 to 299
	Status int    // 0: no answer
	Error  string // why it was not taken
}

// Target is a host and port that something is owed to.
type Target struct {
	Name string
	Due  int64 // of the earliest, Unix ms
}

// Outbox holds what is owed. Its methods are called by many goroutines.
type Outbox interface {
	// Targets reads up to limit targets behind after, by name.
	Targets(after string, limit int) []Target
	// Due reads up to limit deliveries to a target that are due, the earliest first.
	// next is when the first that it left out is due; 0: none is left.
	Due(target string, limit int) (list []Delivery, next int64)
	// Settle records what came of a try; after it, Due does not answer the delivery
	// before its next try. An error means: not known to be recorded.
	Settle(ctx context.Context, d Delivery, o Outcome) error
}

// Sender sends callbacks.
type Sender struct {
	cfg    Config
	client *http.Client
	slots  chan struct{}

	mu  sync.Mutex
	run *run // nil: it does not run

	delivered, failed atomic.Int64
}

// New makes a sender, which does nothing until Run.
func New(cfg Config) *Sender {
	cfg.PerTarget = cmp.Or(cfg.PerTarget, DefaultPerTarget)
	cfg.Total = cmp.Or(cfg.Total, DefaultTotal)
	cfg.Timeout = cmp.Or(cfg.Timeout, DefaultTimeout)
	cfg.UserAgent = cmp.Or(cfg.UserAgent, "axd")
	cfg.What = cmp.Or(cfg.What, "callback")
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Sender{cfg: cfg, client: newClient(cfg), slots: make(chan struct{}, cfg.Total)}
}

// Delivered is the number of callbacks that were taken; Failed that of tries that
// were not; InFlight that of requests on their way.
func (s *Sender) Delivered() int64 { return s.delivered.Load() }

// Failed is the number of tries that were not taken.
func (s *Sender) Failed() int64 { return s.failed.Load() }

// InFlight is the number of requests on their way.
func (s *Sender) InFlight() int { return len(s.slots) }

// Owed is a hint that something is owed to a target, from a moment on: it only makes
// it sooner. It never blocks.
func (s *Sender) Owed(target string, due int64) {
	s.mu.Lock()
	r := s.run
	s.mu.Unlock()
	if r != nil {
		r.owed(target, due)
	}
}

// run is the work of one call of Run.
type run struct {
	*Sender
	ctx    context.Context //nolint:containedctx // of Run
	outbox Outbox
	lanes  sync.WaitGroup
	wake   chan struct{} // look when the next target is due

	mu      sync.Mutex
	ended   bool
	targets map[string]*target
}

// target is what is known of a target that something is owed to.
type target struct {
	name    string
	due     int64 // of the earliest, as far as known
	running bool  // it has a lane
	again   bool  // something came while it had
	hint    chan struct{}
}

// Run sends what the outbox holds until ctx ends; then requests on their way are
// broken off, and what they were about stays owed.
func (s *Sender) Run(ctx context.Context, outbox Outbox) {
	r := &run{Sender: s, ctx: ctx, outbox: outbox, wake: make(chan struct{}, 1), targets: map[string]*target{}}
	s.mu.Lock()
	s.run = r
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.run = nil
		s.mu.Unlock()
		r.mu.Lock()
		r.ended = true
		r.mu.Unlock()
		r.lanes.Wait()
		s.client.CloseIdleConnections()
	}()
	all := time.NewTicker(rescan)
	defer all.Stop()
	r.scan()
	for {
		timer := time.NewTimer(r.wait())
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-r.wake:
		case <-timer.C:
			r.startDue()
		case <-all.C:
			r.scan()
		}
		timer.Stop()
	}
}

// scan reads all targets.
func (r *run) scan() {
	after := ""
	for r.ctx.Err() == nil {
		page := r.outbox.Targets(after, targetPage)
		for _, t := range page {
			r.owed(t.Name, t.Due)
			after = t.Name
		}
		if len(page) < targetPage {
			return
		}
	}
}

// owed notes a target, and gives it a lane if something is due.
func (r *run) owed(name string, due int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	t, ok := r.targets[name]
	if !ok {
		t = &target{name: name, due: due, hint: make(chan struct{}, 1)}
		r.targets[name] = t
	}
	t.due = min(t.due, due)
	switch {
	case t.running:
		t.again = true
		signal(t.hint)
	case t.due <= r.cfg.Now():
		r.start(t)
	default:
		signal(r.wake)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// start gives a target a lane; the caller holds mu.
func (r *run) start(t *target) {
	t.running, t.again = true, false
	r.lanes.Go(func() { r.lane(t) })
}

func (r *run) startDue() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.cfg.Now()
	for _, t := range r.targets {
		if !t.running && t.due <= now {
			r.start(t)
		}
	}
}

// wait is how long nothing is due anywhere.
func (r *run) wait() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.cfg.Now()
	wait := rescan
	for _, t := range r.targets {
		if !t.running {
			wait = min(wait, max(minWait, time.Duration(t.due-now)*time.Millisecond))
		}
	}
	return wait
}

// leave ends a target's lane, unless something came meanwhile.
func (r *run) leave(t *target, next int64) (left bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.again && r.ctx.Err() == nil {
		t.again = false
		return false
	}
	t.running = false
	if next == 0 {
		delete(r.targets, t.name)
		return true
	}
	t.due = next
	signal(r.wake)
	return true
}
