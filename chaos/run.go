package chaos

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/axd-project/axd/fsm"
)

// How long a run waits for what has to happen, in virtual time.
const (
	formLimit   = 30 * time.Second // for a new cluster to be ready
	settleLimit = 4 * time.Minute  // for all tasks to end after all is healed
	agreeLimit  = 30 * time.Second // for all servers to have the same entries
	lookAgain   = 200 * time.Millisecond

	// leastAnswered is the share of the calls which callers would make if none took
	// time that must succeed at least, or the run has tested nothing.
	leastAnswered = 0.1
)

// Report is what came of a run.
type Report struct {
	Plan       Plan
	Violations []string
	Virtual    time.Duration // that the cluster lived
	Settled    time.Duration // from the last fault until every task had ended
	Calls      int           // of clients
	Answered   int           // of them with success
	Attempts   int
	Entries    uint64         // of the log
	Verdicts   map[string]int // of schedules' times
	Runs       int            // of workflows
	Steps      int            // of those
	CalmStarts int            // that were judged for lateness
	CalmCalls  int            // callbacks, likewise
	Faults     map[Kind]int
	Effects    map[Kind]int // what they did in all, each kind in its own measure
	Ended      int          // processes that ended themselves
	Events     []Event
	Log        []string // the last lines, where something is wrong
}

// String sums the report up in a line.
func (r Report) String() string {
	return fmt.Sprintf("seed %d: %v virtual, %d calls (%d done), %d attempts, %d log entries, settled in %v, %s",
		r.Plan.Seed, r.Virtual.Round(time.Second), r.Calls, r.Answered, r.Attempts, r.Entries,
		r.Settled.Round(time.Millisecond), FaultLine(r.Faults))
}

// FaultLine lists how many faults of each kind acted.
func FaultLine(faults map[Kind]int) string {
	total := 0
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(faults)) {
		total += faults[k]
		parts = append(parts, fmt.Sprintf("%s %d", k, faults[k]))
	}
	return fmt.Sprintf("%d faults acted (%s)", total, strings.Join(parts, ", "))
}

// Run lives through a plan and checks what came of it. It must be called in a
// bubble of testing/synctest, and leaves nothing running.
func Run(p Plan, log slog.Handler) Report {
	c := NewCluster(p.Seed, p.Servers, p.Workers, log)
	r := Report{Plan: p}
	err := c.live(p, &r)
	c.Stop()
	r.Virtual = c.Age()
	if err != nil {
		c.Problem("%v", err)
	}
	r.Violations = append(r.Violations, c.Problems()...)
	r.Events, r.Ended = c.Events(), c.ended
	if len(r.Violations) > 0 {
		r.Log = c.Log()
	}
	return r
}

// live is a run between the start and the stop of its cluster.
func (c *Cluster) live(p Plan, r *Report) error {
	if err := c.Start(); err != nil {
		return err
	}
	if err := c.awaitReady(); err != nil {
		return err
	}
	l, err := newLoad(c, p)
	if err != nil {
		return err
	}
	defer l.close()
	if err := l.define(c.ctx); err != nil {
		return err
	}
	c.Ledger.troubled("", c.began)
	c.trouble(l, p, r)
	l.sink.set(healing) // its usual refusals, several in a row, make pauses longer than what is waited
	healed := time.Now()
	err = errors.Join(l.resumeAll(c.ctx), l.probe(), c.settle(), c.agree())
	r.Settled = time.Since(healed)
	h, dumpErr := c.history()
	r.count(h)
	r.Violations = Check(h, Limits{Skew: maxOffset + 100*time.Millisecond})
	if least := int(leastAnswered * float64(p.Callers) * float64(p.Length) / float64(p.Think)); r.Answered < least {
		err = errors.Join(err, fmt.Errorf("only %d calls succeeded, a run needs %d", r.Answered, least))
	}
	return errors.Join(err, dumpErr)
}

// trouble has callers call and faults happen, for as long as the plan says and until
// the last fault has ended.
func (c *Cluster) trouble(l *load, p Plan, r *Report) {
	ctx, stop := context.WithCancel(c.ctx)
	defer stop()
	calling := make(chan struct{})
	go func() {
		defer close(calling)
		l.run(ctx)
	}()
	i := newInjector(c, l, p)
	end := time.Now().Add(p.Length)
	i.play(p)
	pause(c.ctx, time.Until(end))
	stop()
	<-calling
	r.Faults, r.Effects = i.summary()
}

func (r *Report) count(h History) {
	r.Calls, r.Attempts = len(h.Calls), len(h.Attempts)
	for _, call := range h.Calls {
		if call.Code == "" {
			r.Answered++
		}
	}
	r.CalmStarts, r.CalmCalls = newCheck(h, Limits{}).calmly()
	for _, d := range h.Dumps {
		r.Entries = max(r.Entries, d.Applied)
	}
	if len(h.Dumps) > 0 {
		r.orchestrated(&h.Dumps[0])
	}
}

// orchestrated counts what became of schedules' times, and the runs.
func (r *Report) orchestrated(d *Dump) {
	r.Verdicts = map[string]int{}
	for _, s := range d.Schedules {
		for i := range s.Fires {
			r.Verdicts[s.Fires[i].Verdict.String()] += int(s.Fires[i].Number())
		}
	}
	r.Runs = len(d.Runs)
	for _, run := range d.Runs {
		r.Steps += len(run.Steps)
	}
}

func (c *Cluster) awaitReady() error {
	late := time.NewTimer(formLimit)
	defer late.Stop()
	for _, s := range c.Servers {
		life := s.now()
		if life == nil {
			return fmt.Errorf("server %s ended before it was ready", s.Name)
		}
		select {
		case <-life.srv.Ready():
		case <-late.C:
			return fmt.Errorf("server %s is not ready after %v", s.Name, formLimit)
		}
	}
	return nil
}

// settle waits until every task and run has ended, and nothing is owed.
func (c *Cluster) settle() error {
	var left int64
	for end := time.Now().Add(settleLimit); time.Now().Before(end); time.Sleep(lookAgain) {
		leader := c.Leader()
		if leader == nil {
			left = -1
			continue
		}
		life := leader.now()
		if life == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(c.ctx, lookAgain)
		err := life.srv.Read(ctx, false, func(r fsm.Reader) error {
			left = owing(r)
			return nil
		})
		cancel()
		if err == nil && left == 0 {
			return nil
		}
	}
	return fmt.Errorf("%d tasks and runs have not ended, or are owed, %v after all was healed (-1: there is no leader)", left, settleLimit)
}

// agree waits until all servers have applied the same entries.
func (c *Cluster) agree() error {
	for end := time.Now().Add(agreeLimit); time.Now().Before(end); time.Sleep(lookAgain / 2) {
		var applied []uint64
		for _, s := range c.Servers {
			s.View(func(r fsm.Reader) { applied = append(applied, fsm.ReadInfo(r).Applied) })
		}
		slices.Sort(applied)
		if len(applied) == len(c.Servers) && len(slices.Compact(applied)) == 1 {
			return nil
		}
	}
	return fmt.Errorf("the servers have not applied the same entries %v after all was healed", agreeLimit)
}
