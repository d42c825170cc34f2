package job

import "testing"

func TestSettings(t *testing.T) {
	s := Settings{SuspendLow: new(true)}.Merge(Settings{HighSlots: new(5)})
	if !s.SuspendLowOrDefault() || s.HighSlotsOrDefault() != 5 {
		t.Errorf("merged: %+v", s)
	}
	if d := (Settings{}); d.SuspendLowOrDefault() || d.HighSlotsOrDefault() != DefaultHighSlots || d.Validate() != nil {
		t.Errorf("defaults: %+v", d)
	}
	for _, n := range []int{-1, 91} {
		if e := (Settings{HighSlots: new(n)}).Validate(); e == nil || e.Field != "high_slots" {
			t.Errorf("high_slots %d: %v", n, e)
		}
	}
	s = s.Merge(Settings{Weights: Quotas{"a": 3, "b": 2}}).Merge(Settings{Weights: Quotas{"b": 0}})
	if s.WeightOf("a") != 3 || s.WeightOf("b") != 1 || s.WeightOf("c") != 1 || len(s.Weights) != 1 {
		t.Errorf("weights: %v", s.Weights)
	}
	for name, n := range map[string]int{"a": -1, "b": MaxNamespaceWeight + 1, "a/b": 1} {
		if e := (Settings{Weights: Quotas{name: n}}).Validate(); e == nil {
			t.Errorf("the weight %d of %q is taken", n, name)
		}
	}
	for _, p := range [][]Priority{{0}, {4}, {1, 2, 3, 1}} {
		if e := ValidatePriorities("priorities", p); e == nil {
			t.Errorf("priorities %v are taken", p)
		}
	}
}
