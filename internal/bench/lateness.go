package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/axd-project/axd/client"
)

// Lateness submits tasks ahead of time whose due times are spread evenly, and
// measures how long after them their no-op handlers start.
type Lateness struct {
	Rate    float64 // tasks due a second
	Time    time.Duration
	Payload int // bytes
}

// DefaultLateness is what the promise speaks of.
var DefaultLateness = Lateness{Rate: 5000, Time: 20 * time.Second, Payload: 100}

const (
	aheadBatch   = 500
	aheadCallers = 4
	aheadRate    = 10_000 // tasks a second that any cluster takes: what the lead is reckoned by
)

// Name implements Scenario.
func (Lateness) Name() string { return "lateness" }

func (Lateness) needs() needs { return needs{noop: true} }

func (s Lateness) run(ctx context.Context, e *env, r *Result) error {
	m, err := e.punctuality(ctx, s)
	if err != nil {
		return err
	}
	r.set("tasks", float64(m.total))
	r.set("rate", s.Rate)
	r.set("seconds", s.Time.Seconds())
	r.set("unsuccessful", float64(m.unsuccessful))
	e.cores(r, m.before)
	m.late.spread(r, "")
	m.late.spread(r, "lateness_")
	m.report(r)
	return nil
}

func (Lateness) judge(r *Result) {
	r.atMost("p50_ms", 1)
	r.atMost("p99_ms", 10)
	r.atMost("max_ms", 100)
	r.sound()
}

// punctual is how punctually the tasks of one phase started.
type punctual struct {
	verdict
	total, unsuccessful int
	before              spent // when the first came due
}

// punctuality submits tasks ahead, lets them come due and collects their
// lateness.
func (e *env) punctuality(ctx context.Context, s Lateness) (punctual, error) {
	m := punctual{total: int(s.Rate * s.Time.Seconds())}
	p, err := e.newPhase(ctx, m.total, s.Payload)
	if err != nil {
		return m, err
	}
	lead := max(e.opts.Lead, time.Duration(float64(m.total)/aheadRate*float64(time.Second)))
	begin := time.Now().Add(lead)
	step := float64(s.Time) / float64(m.total)
	e.say("submitting %d tasks that come due evenly over %s", m.total, s.Time)
	_, err = p.flood(ctx, aheadBatch, aheadCallers, func(n int) client.SubmitRequest {
		return at(p.request(n), begin.Add(time.Duration(float64(n)*step)))
	})
	if err != nil {
		return m, err
	}
	if time.Now().After(begin) {
		return m, fmt.Errorf("submitting took longer than %s, so tasks were late before they were there; lower --rate or --seconds", lead)
	}
	if err := pause(ctx, time.Until(begin)); err != nil {
		return m, err
	}
	m.before = e.spent()
	if err := pause(ctx, s.Time); err != nil { // asking would be load that is not part of it
		return m, err
	}
	if m.unsuccessful, err = p.ended(ctx, m.total); err != nil {
		return m, err
	}
	seen, err := p.seen()
	if err != nil {
		return m, err
	}
	m.verdict = seen.judge(m.total)
	return m, nil
}
