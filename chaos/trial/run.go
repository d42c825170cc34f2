package trial

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
)

// Options say what is tried on what.
type Options struct {
	Bin      string        // the axd that is tried
	Duration time.Duration // for all scenarios together, about
	Seed     uint64
	Parallel int    // scenarios at one time
	Config   string // definitions that are the workload; empty: a workload of our own
	Report   string // directory for reports; empty: none
	// Progress is told what happens. Optional; called by many at once.
	Progress func(scenario, text string, end bool)

	speed speed
}

func (o *Options) tell(scenario, text string, end bool) {
	if o.Progress != nil {
		o.Progress(scenario, text, end)
	}
}

// Report is what came of all scenarios.
type Report struct {
	Bin     string    `json:"servers"`
	Version string    `json:"version"`
	Seed    uint64    `json:"seed"`
	Factor  float64   `json:"bounds_stretched_by"` // since the machine is slower than usual
	Began   time.Time `json:"began"`
	Ended   time.Time `json:"ended"`
	Results []*Result `json:"scenarios"`
}

// Verdict sums a report up.
func (r *Report) Verdict() Verdict {
	is := func(v Verdict) bool {
		return slices.ContainsFunc(r.Results, func(s *Result) bool { return s.Verdict == v })
	}
	switch {
	case is(Violated):
		return Violated
	case is(Untested), !is(Held):
		return Untested
	}
	return Held
}

// overhead is what a scenario takes beside its trouble: to start, to come to rest,
// and to be judged.
const overhead = 12 * time.Second

// Run tries the scenarios. Its error says that nothing could be tried at all.
func Run(ctx context.Context, o Options, scenarios []Scenario) (*Report, error) {
	turnable, err := hasClockHook(o.Bin)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", o.Bin, err)
	}
	dir, err := os.MkdirTemp("", "axd-chaos-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	o.speed = measureSpeed(dir)
	rep := &Report{Bin: o.Bin, Seed: o.Seed, Factor: float64(max(1, o.speed)), Began: time.Now(), Results: make([]*Result, len(scenarios))}
	share := o.Duration*time.Duration(o.Parallel)/time.Duration(max(1, len(scenarios))) - overhead
	places := make(chan struct{}, o.Parallel)
	var group sync.WaitGroup
	for i := range scenarios {
		s := &scenarios[i]
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			if s.Clocks && !turnable {
				rep.Results[i] = skipped(s, o.Seed, o.Bin+" has no hook to turn its clocks: only builds with the tag chaos, axd-chaos, have it")
				o.tell(s.Name, string(Skipped)+": "+rep.Results[i].Doubts[0], true)
				return
			}
			work := filepath.Join(dir, s.Name)
			rep.Results[i] = o.try(ctx, s, work, share, o.Seed+uint64(i)*1_000_003) //nolint:gosec // an index
			o.tell(s.Name, rep.Results[i].line(), true)
			_ = os.RemoveAll(work)
		})
	}
	group.Wait()
	rep.Ended = time.Now()
	return rep, context.Cause(ctx)
}

func skipped(s *Scenario, seed uint64, why string) *Result {
	now := time.Now()
	return &Result{
		Scenario: s.Name, Group: s.Group, Summary: s.Summary, Verdict: Skipped, Seed: seed, Began: now, Ended: now, Doubts: []string{why},
	}
}

// try makes one scenario happen and judges it.
func (o *Options) try(ctx context.Context, s *Scenario, dir string, share time.Duration, seed uint64) (r *Result) {
	r = &Result{Scenario: s.Name, Group: s.Group, Summary: s.Summary, Seed: seed, Began: time.Now()}
	var st *stage
	defer func() {
		if p := recover(); p != nil { // whatever happens, nothing is left running
			r.Doubts = append(r.Doubts, fmt.Sprintf("the trial itself failed: %v\n%s", p, debug.Stack()))
		}
		if st != nil {
			st.close()
		}
		if r.Verdict != Skipped {
			r.settle()
		}
		if r.Verdict != Held && r.Verdict != Skipped && o.Report != "" {
			if err := keepLogs(dir, filepath.Join(o.Report, s.Name)); err != nil {
				r.Doubts = append(r.Doubts, err.Error())
			}
		}
	}()
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		st, err = newStage(o, s, dir, seed)
	}
	if err == nil {
		err = st.live(ctx, share)
	}
	r.Ended = time.Now()
	if st != nil && st.watch != nil {
		st.watch.stop()
		r.Acknowledged, r.Leaders, r.Gaps = st.load.acknowledged(), st.watch.led(), st.watch.gaps(time.Second)
		st.judgeFaults(r)
	}
	var broken *brokenError
	switch {
	case errors.Is(err, errNoSmallDisk):
		*r = *skipped(s, seed, err.Error())
	case errors.As(err, &broken):
		r.Violations = append(r.Violations, err.Error())
	case err != nil:
		r.Doubts = append(r.Doubts, err.Error())
	default:
		o.read(st, r)
	}
	return r
}

// read judges the history of servers that have stopped.
func (o *Options) read(st *stage, r *Result) {
	h, err := st.history()
	if err != nil {
		r.Doubts = append(r.Doubts, "the history is not whole: "+err.Error())
		return
	}
	st.judge(h, r)
	r.judgeHoldings(st.before, st.after)
	if o.Report == "" {
		return
	}
	path := filepath.Join(o.Report, r.Scenario)
	err = os.MkdirAll(path, 0o700)
	if err == nil {
		err = writeFile(filepath.Join(path, "history.jsonl"), h.write)
	}
	if err != nil {
		r.Doubts = append(r.Doubts, err.Error())
	}
}

// live is a scenario from its start until its servers have stopped.
func (st *stage) live(ctx context.Context, share time.Duration) error {
	if err := st.start(ctx); err != nil {
		return fmt.Errorf("start the cluster: %w", err)
	}
	var err error
	if st.before, err = st.holdings(ctx); err != nil {
		return err
	}
	st.until = time.Now().Add(share)
	if err := st.scenario.play(ctx, st); err != nil {
		return err
	}
	return st.settle(ctx)
}

// keepLogs copies what processes logged.
func keepLogs(from, to string) error {
	logs, err := filepath.Glob(filepath.Join(from, "*.log"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	for _, log := range logs {
		data, err := os.ReadFile(log)
		if err == nil {
			err = os.WriteFile(filepath.Join(to, filepath.Base(log)), data, 0o600) //nolint:gosec // the paths are ours
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// hasClockHook tells whether a program was built so that its clocks can be turned.
func hasClockHook(bin string) (bool, error) {
	info, err := buildinfo.ReadFile(bin)
	if err != nil {
		return false, err
	}
	for _, s := range info.Settings {
		if s.Key == "-tags" && slices.Contains(strings.Split(s.Value, ","), "chaos") {
			return true, nil
		}
	}
	return false, nil
}

// line sums a result up.
func (r *Result) line() string {
	text := fmt.Sprintf("%s: %d faults, %d calls acknowledged, %d attempts, longest without writes %s",
		r.Verdict, len(r.Faults), r.Acknowledged, r.Attempts, r.Recovery().Round(10*time.Millisecond))
	if len(r.Violations) > 0 {
		text += "; " + r.Violations[0]
	} else if len(r.Doubts) > 0 {
		text += "; " + r.Doubts[0]
	}
	return text
}
