package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

// Retry measures what a back-off does to a service that many tasks call at once:
// how many have succeeded after each round of retries where the service has a
// capacity and fails at random, and how the retries are spread when it comes back
// from an outage. Each is measured with a rule without jitter, and with the default.
type Retry struct {
	Tasks    int
	Capacity float64 // requests a second that the service takes
	Fail     float64 // share of those that fail all the same
	Initial  time.Duration

	OutageTasks int
	Down        time.Duration
}

// DefaultRetry is what the promise speaks of.
var DefaultRetry = Retry{
	Tasks: 1000, Capacity: 200, Fail: 0.3, Initial: 2 * time.Second, OutageTasks: 5000, Down: 30 * time.Second,
}

const (
	retryRounds = 3 // the first attempt and two retries
	peakWindow  = 100 * time.Millisecond
	maxOutage   = 5 * time.Minute
)

// Name implements Scenario.
func (Retry) Name() string { return "retry" }

func (Retry) needs() needs { return needs{commands: true} }

// A refusal is a status that tells of no outage, so that no breaker takes part in
// what is measured.
const refusedStatus = http.StatusUnprocessableEntity

// service is what the tasks call. One of its instances serves one measurement.
type service struct {
	server   *http.Server
	url      string
	capacity float64 // 0: no limit
	fail     float64
	up       time.Time // until then it refuses all

	mu       sync.Mutex
	allowed  float64
	at       time.Time
	rounds   [retryRounds]int
	arrivals map[int][]time.Duration // since up, by attempt
}

func newService(capacity, fail float64, up time.Time) (*service, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &service{
		url: "http://" + l.Addr().String() + "/", capacity: capacity, fail: fail, up: up,
		at: time.Now(), arrivals: map[int][]time.Duration{},
	}
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.server.Serve(l) }()
	return s, nil
}

// ServeHTTP implements http.Handler.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	attempt, err := strconv.Atoi(r.Header.Get("Axd-Attempt"))
	if err != nil || !s.take(attempt, time.Now()) {
		w.WriteHeader(refusedStatus)
	}
}

// take decides over one request.
func (s *service) take(attempt int, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Before(s.up) {
		return false
	}
	s.arrivals[attempt] = append(s.arrivals[attempt], now.Sub(s.up))
	if s.capacity > 0 {
		s.allowed = min(s.allowed+s.capacity*now.Sub(s.at).Seconds(), s.capacity*peakWindow.Seconds())
		s.at = now
		if s.allowed < 1 {
			return false
		}
		s.allowed--
	}
	if rand.Float64() < s.fail {
		return false
	}
	if attempt >= 1 && attempt <= retryRounds {
		s.rounds[attempt-1]++
	}
	return true
}

func (s *service) succeeded() [retryRounds]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rounds
}

// peak is the most requests that came within peakWindow, of the attempt that most
// came back with.
func (s *service) peak() (most, of int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, all := range s.arrivals {
		if len(all) <= of {
			continue
		}
		of, most = len(all), 0
		bins := map[time.Duration]int{}
		for _, at := range all {
			bins[at/peakWindow]++
			most = max(most, bins[at/peakWindow])
		}
	}
	return most, of
}

func (s Retry) run(ctx context.Context, e *env, r *Result) error {
	r.set("tasks", float64(s.Tasks))
	for _, jitter := range []job.Jitter{job.JitterNone, job.JitterAdditive} {
		if err := s.crowd(ctx, e, r, jitter); err != nil {
			return err
		}
	}
	for _, jitter := range []job.Jitter{job.JitterNone, job.JitterAdditive} {
		if err := s.outage(ctx, e, r, jitter); err != nil {
			return err
		}
	}
	return nil
}

func arm(jitter job.Jitter) string {
	if jitter == job.JitterNone {
		return "fixed"
	}
	return "jitter"
}

// crowd has all tasks call a service at once that can't take them all.
func (s Retry) crowd(ctx context.Context, e *env, r *Result, jitter job.Jitter) error {
	e.say("retry: %d tasks at once against %.0f requests a second, %s", s.Tasks, s.Capacity, arm(jitter))
	to, err := newService(s.Capacity, s.Fail, time.Now())
	if err != nil {
		return err
	}
	defer func() { _ = to.server.Close() }()
	if _, err := s.tasks(ctx, e, to, "crowd-"+arm(jitter), s.Tasks, jitter, retryRounds-1); err != nil {
		return err
	}
	done := 0
	for round, n := range to.succeeded() {
		done += n
		r.set(fmt.Sprintf("%s_round%d_percent", arm(jitter), round), 100*float64(done)/float64(s.Tasks))
	}
	return nil
}

// outage has all tasks call a service that is down at first.
func (s Retry) outage(ctx context.Context, e *env, r *Result, jitter job.Jitter) error {
	e.say("retry: %d tasks against a service that is down for %s, %s", s.OutageTasks, s.Down, arm(jitter))
	to, err := newService(0, 0, time.Now().Add(s.Down))
	if err != nil {
		return err
	}
	defer func() { _ = to.server.Close() }()
	dead, err := s.tasks(ctx, e, to, "outage-"+arm(jitter), s.OutageTasks, jitter, job.DefaultMaxRetries)
	if err != nil {
		return err
	}
	// The step is the last delay that began before the service was back.
	step := s.Initial
	for begun := s.Initial; begun+2*step <= s.Down; begun += step {
		step *= 2
	}
	most, of := to.peak()
	r.set("outage_"+arm(jitter)+"_peak", float64(most))
	r.set("outage_"+arm(jitter)+"_dead", float64(dead))
	if of > 0 {
		even := float64(of) * peakWindow.Seconds() / step.Seconds()
		r.set("outage_"+arm(jitter)+"_peak_ratio", float64(most)/even)
	}
	return nil
}

// tasks submits tasks of a job of its own, waits for their end, and returns how
// many have failed.
func (s Retry) tasks(ctx context.Context, e *env, to *service, name string, total int, jitter job.Jitter, retries int) (int64, error) {
	name = "bench-" + e.unique + "-" + name
	_, err := e.admin.PutJob(ctx, name, job.Spec{
		Executor: job.Executor{HTTP: &job.HTTP{URL: to.url}},
		Policy: job.Policy{
			Retry:       &job.Retry{MaxRetries: &retries, Initial: job.Duration(s.Initial), Jitter: &jitter},
			OnExhausted: job.ExhaustedIgnore,
		},
	})
	if err != nil {
		return 0, err
	}
	batch := make([]client.SubmitRequest, total)
	for i := range batch {
		batch[i].Job = name
	}
	if _, err := e.accepted(ctx, batch); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.Down+maxOutage)
	defer cancel()
	for {
		j, err := e.admin.Job(ctx, name)
		if err != nil {
			return 0, err
		}
		failed := j.Tasks[job.Failed.String()] + j.Tasks[job.TimedOut.String()]
		ended := failed + j.Tasks[job.Success.String()]
		e.bar("ended", int(ended), total)
		if ended == int64(total) {
			return failed, nil
		}
		if err := pause(ctx, overPoll); err != nil {
			return 0, fmt.Errorf("%d of %d tasks have ended: %w", ended, total, err)
		}
	}
}

func (Retry) judge(r *Result) {
	r.atMost("outage_jitter_peak_ratio", 2)
	r.atMost("outage_jitter_dead", 0)
}
