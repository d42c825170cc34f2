package chaos

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// TestSimulation lives through random plans: for simBudget, or as many as
// AXD_SIM_SEEDS says, or the one of AXD_SIM_SEED (AXD_SIM_SEEDS times). AXD_SIM_LOG=1
// shows what servers and workers log.
func TestSimulation(t *testing.T) {
	began := time.Now()
	var total Report
	total.Faults = map[Kind]int{}
	runs := 0
	for seed := range seeds(t, began) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			r := simulate(t, NewPlan(seed, simLength))
			total.add(r)
		})
		runs++
		if t.Failed() {
			break
		}
	}
	took := time.Since(began)
	fmt.Printf("simulation: %d runs, %.2f virtual hours in %.1f s (%.1f per minute), %d calls (%d done), %d attempts, %d log entries, %s\n",
		runs, total.Virtual.Hours(), took.Seconds(), total.Virtual.Hours()/took.Minutes(), total.Calls, total.Answered,
		total.Attempts, total.Entries, FaultLine(total.Faults))
}

// seeds yields the seeds to run.
func seeds(t *testing.T, began time.Time) func(yield func(uint64) bool) {
	number := func(name string) (uint64, bool) {
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
	seed, one := number("AXD_SIM_SEED")
	count, many := number("AXD_SIM_SEEDS")
	return func(yield func(uint64) bool) {
		switch {
		case one:
			for n := max(count, 1); n > 0 && yield(seed); n-- {
			}
		case many:
			for ; count > 0 && yield(rand.Uint64()%1e9); count-- {
			}
		default:
			for time.Since(began) < simBudget && yield(rand.Uint64()%1e9) {
			}
		}
	}
}

func simulate(t *testing.T, p Plan) (r Report) {
	began := time.Now()
	log := slog.DiscardHandler
	if os.Getenv("AXD_SIM_LOG") != "" {
		log = slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo})
	}
	t.Logf("AXD_SIM_SEED=%d", p.Seed) // shown even if the bubble is stuck
	synctest.Test(t, func(*testing.T) { r = Run(p, log) })
	t.Logf("%v (%.1f s)", r, time.Since(began).Seconds())
	if len(r.Violations) == 0 {
		return r
	}
	t.Logf("plan of %v", p)
	for _, v := range r.Violations {
		t.Error(v)
	}
	t.Logf("run it again, since the interleaving varies, some times: AXD_SIM_SEED=%d AXD_SIM_SEEDS=10 make sim", p.Seed)
	return r
}

func (r *Report) add(o Report) {
	r.Virtual += o.Virtual
	r.Calls += o.Calls
	r.Answered += o.Answered
	r.Attempts += o.Attempts
	r.Entries += o.Entries
	for k, n := range o.Faults {
		r.Faults[k] += n
	}
}
