package job

import (
	"strings"
	"testing"
)

func TestRequirements(t *testing.T) {
	labels := map[string]string{"zone": "eu", "cores": "8", "gpu": "a100", "a/b.c-d": "x y", "mem": "many"}
	for text, want := range map[string]bool{
		"zone=eu": true, "zone = us": false, "zone == eu": true, "zone!=us": true, "zone != eu": false, "none != eu": true, "none = ": false,
		"zone in (eu, us)": true, "zone in (us)": false, "none in (eu)": false, "zone notin (us,de)": true, "zone notin(eu)": false,
		"none notin (eu)": true, "gpu": true, "gpu exists": true, "none exists": false, "!gpu": false, "! none": true,
		"cores > 7.5": true, "cores > 8": false, "cores >= 8": true, "cores < 10": true, "cores < 8": false, "cores <= 8": true,
		"mem > 1": false, "none < 1": false, "a/b.c-d = x y": true, "zone = eu ": true,
	} {
		r, rule := ParseRequirement(text)
		if rule != "" {
			t.Errorf("%q: %s", text, rule)
		} else if got := r.Holds(labels); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	for _, text := range []string{
		"", "!", "= eu", "zone ~ eu", "zone in eu", "zone in (", "zone in ()", "zone in (eu,)", "cores > many", "cores > NaN", "cores > Inf",
		"!gpu = x", "-a = b", "zone\x00 = eu", strings.Repeat("k", 64) + " = v", "zone = " + strings.Repeat("v", 2000), "gpu exist",
	} {
		if r, rule := ParseRequirement(text); rule == "" {
			t.Errorf("%q is taken as %+v", text, r)
		}
	}
}

func TestRouteIsChecked(t *testing.T) {
	for field, r := range map[string]Route{
		"":                  {Require: []string{"a = b"}, Strategy: RoundRobin},
		"route.require[1]":  {Require: []string{"a", "?"}},
		"route.require":     {Require: make([]string, MaxRequirements+1)},
		"route.strategy":    {Strategy: "fastest"},
		"route.sticky":      {Sticky: strings.Repeat("k", MaxSticky+1)},
		"route.strategy ":   {Sticky: "k", Strategy: Random},
		"route.require[0] ": {Require: []string{""}},
	} {
		e := Policy{Route: &r}.Validate()
		if field = strings.TrimSpace(field); field == "" && e != nil || field != "" && (e == nil || e.Field != field) {
			t.Errorf("%+v: %v, want a fault of %q", r, e, field)
		}
	}
	if p := (Policy{Route: &Route{Sticky: "a"}}).Merge(Policy{Route: &Route{Strategy: Random}}); p.Route.Sticky != "" {
		t.Errorf("merged: %+v", p.Route)
	}
}
