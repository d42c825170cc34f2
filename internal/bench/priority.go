package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

// Priority queues far more low-priority tasks than there are slots, then submits
// high-priority ones on a schedule and measures from each call to the start of its
// handler, and for how long no low one started.
type Priority struct {
	Low  int           // tasks queued
	Work time.Duration // how long each of them takes
	Rate float64       // high ones a second
	Time time.Duration
}

// DefaultPriority is what the promise speaks of.
var DefaultPriority = Priority{Low: 100_000, Work: time.Second, Rate: 100, Time: 20 * time.Second}

const (
	lowBatch   = 500
	lowCallers = 8
)

// Name implements Scenario.
func (Priority) Name() string { return "priority" }

func (Priority) needs() needs { return needs{noop: true} }

func (s Priority) run(ctx context.Context, e *env, r *Result) error {
	low, err := e.newPhase(ctx, s.Low, 0)
	if err != nil {
		return err
	}
	total := int(s.Rate * s.Time.Seconds())
	high, err := e.newPhase(ctx, total, 0)
	if err != nil {
		return err
	}
	e.say("priority: queueing %d low-priority tasks of %s each", s.Low, s.Work)
	_, err = low.flood(ctx, lowBatch, lowCallers, func(n int) client.SubmitRequest {
		q := low.request(n)
		q.Payload = fmt.Appendf(nil, `{"phase":%d,"n":%d,"work_ms":%d}`, low.id, n, s.Work.Milliseconds())
		q.Priority = job.Low
		return q
	})
	if err != nil {
		return err
	}
	clients, err := e.clients(loadClients, retryTime)
	if err != nil {
		return err
	}
	defer closeAll(clients)
	e.say("priority: submitting %.0f high-priority tasks a second for %s", s.Rate, s.Time)
	calls, before, begin := make([]time.Time, total), e.spent(), time.Now()
	_, err = pace(ctx, ctx, total, s.Rate, func(ctx context.Context, n int, sent time.Time) error {
		calls[n] = sent
		e.bar("submitted", n, total)
		q := high.request(n)
		q.Priority = job.High
		_, err := clients[n%len(clients)].Submit(ctx, q)
		return err
	})
	if err != nil {
		return err
	}
	end := time.Now()
	if _, err := high.ended(ctx, total); err != nil {
		return err
	}
	e.cores(r, before)
	seen, err := high.seen()
	if err != nil {
		return err
	}
	lows, err := low.seen()
	if err != nil {
		return err
	}
	r.set("tasks", float64(total))
	r.set("rate", s.Rate)
	r.set("seconds", s.Time.Seconds())
	r.set("low_queued", float64(s.Low))
	started, gap := lows.between(begin, end)
	if lows.begun() == s.Low {
		e.say("priority: all low-priority tasks have begun: low_gap_ms says little, let more of them wait (--low)")
	}
	r.set("low_per_s", float64(started)/end.Sub(begin).Seconds())
	r.set("low_gap_ms", ms(gap))
	r.set("low_waiting", float64(s.Low-lows.begun()))
	seen.sinceCalls(calls).spread(r, "")
	v := seen.judge(total)
	v.report(r)
	return nil
}

// between counts the tasks that started in a span, and the longest time in it in
// which none did though some waited.
func (s *starts) between(begin, end time.Time) (n int, gap time.Duration) {
	var at []int64
	for i, ns := range s.At {
		if s.Count[i] > 0 && ns >= begin.UnixNano() && ns <= end.UnixNano() {
			at = append(at, ns)
		}
	}
	slices.Sort(at)
	n = len(at)
	last := begin.UnixNano()
	if s.begun() < len(s.At) || len(s.At) == 0 || slices.Max(s.At) > end.UnixNano() {
		at = append(at, end.UnixNano())
	}
	for _, ns := range at {
		gap, last = max(gap, time.Duration(ns-last)), ns
	}
	return n, gap
}

func (s *starts) begun() (n int) {
	for _, c := range s.Count {
		if c > 0 {
			n++
		}
	}
	return n
}

func (s Priority) judge(r *Result) {
	r.atMost("p99_ms", 20)
	r.atMost("low_gap_ms", 2*ms(s.Work)) // while all of their slots are taken none can start
	r.sound()
}
