package trial

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/axd-project/axd/chaos"
	"github.com/axd-project/axd/fsm"
)

const (
	usualSkew = 50 * time.Millisecond // of processes that share one clock, with what rounding makes of it
	// leastCalls a second have to be answered for a scenario to have tested anything.
	leastCalls = 1.0
	// quietAfter a fault nothing of it may be felt.
	quietAfter   = 5 * time.Second
	quietLate    = 2 * time.Second
	quietSamples = 20
	maxListed    = 30
)

// judge compares the history with what was promised.
func (st *stage) judge(h *history, r *Result) {
	found := chaos.CheckOutside(h.History, chaos.Limits{Skew: max(usualSkew, st.scenario.skew)})
	for _, f := range found {
		if strings.HasPrefix(f, "no server has kept log entry") {
			r.Doubts = append(r.Doubts, f+", so the log could not be replayed")
		} else {
			r.Violations = append(r.Violations, f)
		}
	}
	broken := func(format string, args ...any) {
		if len(r.Violations) < maxListed {
			r.Violations = append(r.Violations, fmt.Sprintf(format, args...))
		}
	}
	h.judgeCallbacks(broken)
	h.judgeFires(broken)
	h.judgeRuns(broken)
	r.count(h)
	st.judgeLateness(h, r, broken)
}

// judgeFaults judges what needs no history.
func (st *stage) judgeFaults(r *Result) {
	st.mu.Lock()
	faults := slices.Clone(st.faults)
	r.Violations = append(r.Violations, st.broken...)
	st.mu.Unlock()
	for _, f := range faults {
		is := f.get()
		r.Faults = append(r.Faults, is)
		if is.Acted == "" {
			r.Doubts = append(r.Doubts, fmt.Sprintf("it is not known that this did anything: %s", is.Text))
		}
		switch {
		case is.Recovery == 0 && !is.Recovered:
		case !is.Recovered:
			r.Violations = append(r.Violations, fmt.Sprintf("writes were not accepted again within %s: %s", is.Recovery, is.Text))
		case is.Recovery > is.Bound:
			r.Violations = append(r.Violations, fmt.Sprintf("writes were accepted again after %s, the bound is %s: %s",
				is.Recovery.Round(time.Millisecond), is.Bound, is.Text))
		}
	}
	if len(faults) == 0 {
		r.Doubts = append(r.Doubts, "nothing was done to the cluster")
	}
	if least := int(leastCalls * r.Ended.Sub(r.Began).Seconds()); r.Acknowledged < least {
		r.Doubts = append(r.Doubts, fmt.Sprintf("only %d calls were acknowledged, it takes %d to have tested anything", r.Acknowledged, least))
	}
}

// judgeCallbacks: who asked for it was told of each end, always under the same id,
// and of none that is not so.
func (h *history) judgeCallbacks(broken func(string, ...any)) {
	if len(h.Dumps) == 0 {
		return
	}
	taken, ids := map[string]int{}, map[string]string{}
	for _, d := range h.deliveries {
		if d.Taken {
			taken[d.Task]++
		}
		if id := ids[d.Task]; id != "" && id != d.ID {
			broken("the end of task %s was told as %s and as %s", d.Task, id, d.ID)
		}
		ids[d.Task] = d.ID
		if t, ok := h.Dumps[0].Tasks[d.Task]; !ok || t.State.String() != d.State {
			broken("a callback said that task %s is %s, and in the end it is %s", d.Task, d.State, t.State)
		}
	}
	for task := range h.hooks {
		c, ok := h.callbacks[task]
		switch {
		case !ok:
			broken("no callback is recorded for task %s", task)
		case c.State == fsm.CallbackDelivered && taken[task] == 0:
			broken("the callback of task %s is recorded as delivered, and its receiver took none", task)
		case c.State != fsm.CallbackDelivered:
			broken("the callback of task %s is %s in the end", task, c.State)
		}
	}
}

// judgeFires: each planned time of a schedule has one verdict, and what was fired is
// one task of its own.
func (h *history) judgeFires(broken func(string, ...any)) {
	tasks := map[string]int64{}
	for name, every := range h.every {
		var planned []fsm.Fire
		for _, f := range h.fires[name] {
			if f.Origin == fsm.ByPlan {
				planned = append(planned, f)
			}
		}
		if len(planned) == 0 {
			broken("schedule %s has not fired", name)
			continue
		}
		slices.SortFunc(planned, func(a, b fsm.Fire) int { return int(a.Nominal - b.Nominal) })
		next := planned[0].Nominal
		for _, f := range planned {
			if f.Nominal != next {
				broken("schedule %s has a verdict for %s where %s was due", name, clock(f.Nominal), clock(next))
			}
			next = max(f.Nominal, f.Until) + every.Milliseconds()
			if f.Verdict != fsm.VerdictFired {
				continue
			}
			id := f.Task.String()
			if _, ok := h.Dumps[0].Tasks[id]; !ok {
				broken("schedule %s has fired task %s for %s, and it is missing", name, id, clock(f.Nominal))
			}
			if other, twice := tasks[id]; twice {
				broken("task %s stands for %s and for %s", id, clock(other), clock(f.Nominal))
			}
			tasks[id] = f.Nominal
		}
	}
}

// judgeRuns: no run that was acknowledged is missing, each ends, and no step begins
// before all that it needs has succeeded.
func (h *history) judgeRuns(broken func(string, ...any)) {
	if len(h.Dumps) == 0 {
		return
	}
	d := h.Dumps[0]
	for _, id := range h.started {
		if _, ok := d.Runs[id]; !ok {
			broken("run %s was acknowledged and is missing", id)
		}
	}
	begun, succeeded := map[string]time.Time{}, map[string]time.Time{} // of tasks: the first start, the success
	for _, a := range h.Attempts {
		if _, known := begun[a.Task]; !known {
			begun[a.Task] = a.Start
		}
		if a.OK && a.Token == d.Tasks[a.Task].LastToken {
			succeeded[a.Task] = a.End
		}
	}
	for id, run := range d.Runs {
		if !run.State.Terminal() {
			broken("run %s is %s at the end", id, run.State)
		}
		tasks := map[string][]string{}
		for _, s := range run.Steps {
			tasks[s.Name] = s.Tasks
		}
		for _, s := range run.Steps {
			for _, need := range s.Needs {
				for _, before := range tasks[need] {
					for _, task := range s.Tasks {
						if at, ran := begun[task]; ran && at.Before(succeeded[before]) {
							broken("run %s: step %s began before %s had ended", id, s.Name, need)
						}
					}
				}
			}
		}
	}
}

func clock(ms int64) string { return time.UnixMilli(ms).UTC().Format("15:04:05.000") }

// Late is how late one first attempt was.
type Late struct {
	At    time.Time `json:"at"` // its start
	MS    float64   `json:"ms"`
	Quiet bool      `json:"quiet"` // no fault could be felt
}

func (st *stage) judgeLateness(h *history, r *Result, broken func(string, ...any)) {
	var quiet []float64
	for _, a := range h.Attempts {
		if a.Number != 1 || a.Due.IsZero() {
			continue
		}
		l := Late{At: a.Start, MS: float64(a.Start.Sub(a.Due).Microseconds()) / 1000, Quiet: true}
		for _, f := range r.Faults {
			until := f.Until
			if until.IsZero() {
				until = r.Ended
			}
			if a.Start.After(f.From) && a.Due.Before(until.Add(quietAfter+f.Recovery)) {
				l.Quiet = false
			}
		}
		if l.Quiet {
			quiet = append(quiet, l.MS)
		}
		r.Lateness = append(r.Lateness, l)
	}
	r.LateP50, r.LateP99 = quantiles(all(r.Lateness))
	r.QuietP50, r.QuietP99 = quantiles(quiet)
	if limit := st.speed.scale(quietLate); len(quiet) >= quietSamples && r.QuietP99 > float64(limit.Milliseconds()) {
		broken("of tasks that were due while nothing was wrong, one in a hundred started more than %.0f ms late; the bound is %s", r.QuietP99, limit)
	}
}

func all(list []Late) []float64 {
	out := make([]float64, len(list))
	for i, l := range list {
		out[i] = l.MS
	}
	return out
}

func quantiles(values []float64) (p50, p99 float64) {
	if len(values) == 0 {
		return 0, 0
	}
	slices.Sort(values)
	return values[len(values)/2], values[len(values)*99/100]
}
