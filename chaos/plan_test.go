package chaos

import (
	"testing"
	"time"
)

func TestPlanFollowsFromItsSeed(t *testing.T) {
	seen := map[Kind]bool{}
	for seed := range uint64(100) {
		p := NewPlan(seed, 2*time.Minute)
		if p.String() != NewPlan(seed, 2*time.Minute).String() {
			t.Fatalf("seed %d gives two plans", seed)
		}
		until := map[string]time.Duration{}
		for _, f := range p.Faults {
			seen[f.Kind] = true
			if f.At < until[f.takes()] || f.At+f.For > p.Length-quietEnd {
				t.Errorf("seed %d: %v overlaps or comes too late", seed, f)
			}
			until[f.takes()] = f.At + f.For
		}
		if len(p.Faults) < 8 {
			t.Errorf("seed %d has %d faults only", seed, len(p.Faults))
		}
	}
	for _, k := range Kinds() {
		if !seen[k] {
			t.Errorf("no plan has %s", k)
		}
	}
}
