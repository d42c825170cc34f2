package chaos

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// What these tests take from the environment.
const (
	envSeed    = "AXD_SIM_SEED"    // the one plan to live through
	envSeeds   = "AXD_SIM_SEEDS"   // how many plans, or how often the one
	envHours   = "AXD_SIM_HOURS"   // of virtual life at least
	envTime    = "AXD_SIM_TIME"    // of real time at most, as "10m"
	envFaults  = "AXD_SIM_FAULTS"  // the only kinds of fault, as "isolate,disk-full"
	envMatrix  = "AXD_SIM_MATRIX"  // plans for each kind of fault
	envOnward  = "AXD_SIM_ONWARD"  // set: goes on after a failed run
	envReports = "AXD_SIM_REPORTS" // the directory for what is to be known of failed runs
	envStreams = "AXD_SIM_STREAMS" // schedules that start a run each second, in thirty minutes of workflows
	envLog     = "AXD_SIM_LOG"     // set: shows what servers and workers log
)

// gcPercent trades memory, of which a run needs little, for a third of the time.
const gcPercent = 400

// longEvery is the share of plans of hours: a seed that it divides is one's.
const longEvery = 4

// lanesEach is how many runs there are at once for each processor: one alone leaves
// half of it unused, since its goroutines wait for each other.
const lanesEach = 2

// manyHours of life have some in which nothing is wrong.
const manyHours = 10

// TestSimulation lives through random plans, on all processors: for simBudget, or
// as the environment says. A seed says all of its plan.
func TestSimulation(t *testing.T) {
	c := newCampaign(t)
	c.run(t, func() (Plan, bool) {
		seed, ok := c.seed()
		return planOf(seed, c.only), ok
	})
	c.tell("simulation")
	if judged := min(c.total.CalmStarts, c.total.CalmCalls); c.hours >= manyHours && judged == 0 {
		t.Errorf("no start or no callback of %.0f virtual hours could be judged for lateness", c.total.Virtual.Hours())
	}
}

// TestFaultMatrix lives through plans of one kind of fault each.
func TestFaultMatrix(t *testing.T) {
	each, ok := envNumber(t, envMatrix)
	if !ok {
		t.Skip("takes minutes: set " + envMatrix)
	}
	c := newCampaign(t)
	var plans []Plan
	for range each {
		for _, k := range Kinds() {
			if len(c.only) == 0 || slices.Contains(c.only, k) {
				plans = append(plans, planOf(rand.Uint64()%1e9, []Kind{k}))
			}
		}
	}
	at := 0
	c.run(t, func() (Plan, bool) {
		if at++; at > len(plans) || c.late() {
			return Plan{}, false
		}
		return plans[at-1], true
	})
	c.tell("fault matrix")
	for _, k := range Kinds() {
		fmt.Printf("  %-16s acted %3d times, %6d effects: %s\n", k, c.total.Faults[k], c.total.Effects[k], k.About())
	}
	if c.runs < len(plans) && !t.Failed() {
		fmt.Printf("  only %d of %d plans came within %s\n", c.runs, len(plans), os.Getenv(envTime))
	}
}

// planOf returns the plan that follows from a seed.
func planOf(seed uint64, only []Kind) Plan {
	if longPlans && len(only) == 0 && seed%longEvery == 0 {
		return NewLongPlan(seed, time.Hour+time.Duration(seed%60)*time.Minute)
	}
	return NewPlan(seed, simLength, only...)
}

// campaign is many runs.
type campaign struct {
	began time.Time
	busy  time.Duration // of this process when it began
	only  []Kind

	// What bounds it.
	one     *uint64 // the only seed
	counted bool
	left    uint64  // runs, if counted
	hours   float64 // virtual ones; 0: any number
	budget  time.Duration

	mu      sync.Mutex
	total   Report
	runs    int
	planned time.Duration
	stopped bool
}

func newCampaign(t *testing.T) *campaign {
	c := &campaign{began: time.Now(), busy: processorTime(), budget: simBudget, total: Report{Faults: map[Kind]int{}, Effects: map[Kind]int{}}}
	for name := range strings.SplitSeq(os.Getenv(envFaults), ",") {
		if name == "" {
			continue
		}
		if find(Kind(name)) == nil {
			t.Fatalf("%s names %q, which is none of %v", envFaults, name, Kinds())
		}
		c.only = append(c.only, Kind(name))
	}
	seed, one := envNumber(t, envSeed)
	count, many := envNumber(t, envSeeds)
	hours, long := envNumber(t, envHours)
	switch {
	case one:
		c.one, c.counted, c.left, c.budget = &seed, true, max(count, 1), 0
	case many:
		c.counted, c.left, c.budget = true, count, 0
	case long:
		c.hours, c.budget = float64(hours), 0
	}
	if text := os.Getenv(envTime); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("%s must be a duration, is %q", envTime, text)
		}
		c.budget = d
	}
	return c
}

func envNumber(t *testing.T, name string) (uint64, bool) {
	text := os.Getenv(name)
	if text == "" {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s must be a number, is %q", name, text)
	}
	return n, true
}

// late reports whether the time is over.
func (c *campaign) late() bool { return c.budget > 0 && time.Since(c.began) > c.budget }

// seed yields the next seed to live through.
func (c *campaign) seed() (seed uint64, ok bool) {
	if c.late() || c.hours > 0 && c.planned.Hours() >= c.hours || c.counted && c.left == 0 {
		return 0, false
	}
	if c.counted {
		c.left--
	}
	if c.one != nil {
		return *c.one, true
	}
	return rand.Uint64() % 1e9, true
}

// run lives through what next yields, on every processor, until there is no more or
// something is wrong.
func (c *campaign) run(t *testing.T, next func() (Plan, bool)) {
	draw := func() (Plan, bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.stopped {
			return Plan{}, false
		}
		p, ok := next()
		c.planned += p.Length
		return p, ok
	}
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	t.Run("lanes", func(t *testing.T) {
		for range lanesEach * runtime.GOMAXPROCS(0) {
			t.Run("lane", func(t *testing.T) {
				t.Parallel() // as many as -test.parallel allows
				for p, ok := draw(); ok; p, ok = draw() {
					t.Run(fmt.Sprintf("seed=%d", p.Seed), func(t *testing.T) { c.add(simulate(t, p, c.only)) })
				}
			})
		}
	})
}

func simulate(t *testing.T, p Plan, only []Kind) (r Report) {
	began := time.Now()
	log := slog.DiscardHandler
	if os.Getenv(envLog) != "" {
		log = slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo})
	}
	again := fmt.Sprintf("%s=%d", envSeed, p.Seed)
	if len(only) == 1 {
		again += fmt.Sprintf(" %s=%s", envFaults, only[0])
	}
	t.Log(again) // shown even if the bubble is stuck
	live(t, func() { r = Run(p, log) }, func() bool { return r.Ended > 0 })
	t.Logf("%v (%.1f s)", r, time.Since(began).Seconds())
	if len(r.Violations) == 0 {
		return r
	}
	for _, v := range r.Violations {
		t.Error(v)
	}
	again = fmt.Sprintf("run it again, since the interleaving varies, some times: %s %s=10 make sim", again, envSeeds)
	t.Logf("plan of %v%s", p, again)
	if path, err := save(r, again); err != nil {
		t.Errorf("its report can't be saved: %v", err)
	} else {
		t.Logf("its report: %s", path)
	}
	return r
}

// live runs something in a bubble. A process that a fault ended may leave goroutines
// behind that wait for raft, as its real end would not.
func live(t *testing.T, run func(), mayLeave func() bool) {
	defer func() {
		if r := recover(); r != nil && (!mayLeave() || !strings.Contains(fmt.Sprint(r), "blocked goroutines remain")) {
			panic(r)
		}
	}()
	synctest.Test(t, func(*testing.T) { run() })
}

// save writes all that is known of a run to a file.
func save(r Report, again string) (path string, err error) {
	dir := os.Getenv(envReports)
	if dir == "" {
		dir = filepath.Join(os.TempDir(), "axd-sim")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(dir, fmt.Sprintf("seed-%d-*.txt", r.Plan.Seed))
	if err != nil {
		return "", err
	}
	defer f.Close()
	fmt.Fprintf(f, "%s\n\nplan of %v\n%v\n\nviolations:\n%s\n\nevents:\n", again, r.Plan, r, strings.Join(r.Violations, "\n"))
	for _, e := range r.Events {
		fmt.Fprintln(f, e)
	}
	_, err = fmt.Fprintf(f, "\nlast lines of servers and workers:\n%s\n", strings.Join(r.Log, "\n"))
	return f.Name(), err
}

func (c *campaign) add(r Report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs++
	c.stopped = c.stopped || len(r.Violations) > 0 && os.Getenv(envOnward) == ""
	c.total.Virtual += r.Virtual
	c.total.Calls += r.Calls
	c.total.Answered += r.Answered
	c.total.Attempts += r.Attempts
	c.total.Entries += r.Entries
	c.total.CalmStarts += r.CalmStarts
	c.total.CalmCalls += r.CalmCalls
	for k, n := range r.Faults {
		c.total.Faults[k] += n
	}
	for k, n := range r.Effects {
		c.total.Effects[k] += n
	}
}

// processorTime is what this process has used of processors.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // or it is 0, and so is the figure
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (c *campaign) tell(what string) {
	took, r := time.Since(c.began), c.total
	busy := processorTime() - c.busy
	fmt.Printf("%s: %d runs, %.2f virtual hours in %.1f s (%.1f per minute, %.1f per minute of a processor), %d calls (%d done), "+
		"%d attempts, %d log entries, judged for lateness %d starts and %d callbacks, %s\n", what, c.runs, r.Virtual.Hours(), took.Seconds(), r.Virtual.Hours()/took.Minutes(),
		r.Virtual.Hours()/busy.Minutes(), r.Calls, r.Answered, r.Attempts, r.Entries, r.CalmStarts, r.CalmCalls, FaultLine(r.Faults))
}
