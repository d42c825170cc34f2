package job

import (
	"testing"
	"time"
)

func plan(t *testing.T, s ScheduleSpec) *Plan {
	t.Helper()
	p, err := NewPlan(&s, PlanFor{Namespace: "default", Name: "nightly", Created: instant(t, "2026-05-01T10:00:07.5Z")})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func instant(t *testing.T, s string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func stamp(t *testing.T, s string) Timestamp { return Timestamp(instant(t, s).UnixMilli()) }

func times(p *Plan, from time.Time, n int) (all []string) {
	for at, ok := p.Next(from); ok && len(all) < n; at, ok = p.Next(at) {
		all = append(all, at.Format("01-02T15:04:05.999"))
	}
	return all
}

func same(t *testing.T, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

func TestPlanTriggers(t *testing.T) {
	from := instant(t, "2026-05-01T10:00:07.5Z")
	p := plan(t, ScheduleSpec{Cron: "0 2 * * *", Timezone: "Europe/Berlin"})
	same(t, times(p, from, 2), "05-02T02:00:00", "05-03T02:00:00")

	// An interval goes by its anchor, which is when the schedule was created
	// unless it says another.
	p = plan(t, ScheduleSpec{Every: Duration(15 * time.Minute)})
	same(t, times(p, from, 2), "05-01T10:15:07.5", "05-01T10:30:07.5")
	p = plan(t, ScheduleSpec{Every: Duration(15 * time.Minute), Anchor: stamp(t, "2027-01-01T00:05:00Z")})
	same(t, times(p, from, 2), "05-01T10:05:00", "05-01T10:20:00")

	p = plan(t, ScheduleSpec{At: stamp(t, "2026-12-24T18:00:00+01:00"), Timezone: "Europe/Berlin"})
	same(t, times(p, from, 2), "12-24T18:00:00")
	if at, ok := p.Prev(instant(t, "2027-01-01T00:00:00Z")); !ok || at.Format(time.RFC3339) != "2026-12-24T18:00:00+01:00" {
		t.Error(at, ok)
	}
	if p = plan(t, ScheduleSpec{}); p.Timed() || len(times(p, from, 1)) != 0 {
		t.Error("a plan without trigger has times")
	}
}

func TestPlanBounds(t *testing.T) {
	p := plan(t, ScheduleSpec{Cron: "0 0 * * *", Start: stamp(t, "2026-06-01T00:00:00Z"), End: stamp(t, "2026-06-03T00:00:00Z")})
	same(t, times(p, instant(t, "2026-05-01T00:00:00Z"), 5), "06-01T00:00:00", "06-02T00:00:00")
	if at, ok := p.Prev(instant(t, "2026-07-01T00:00:00Z")); !ok || at.Day() != 2 {
		t.Error(at, ok)
	}
	if at, ok := p.Prev(instant(t, "2026-06-01T00:00:00Z")); ok {
		t.Error(at)
	}
	if n := len(p.Between(instant(t, "2026-05-01T00:00:00Z"), instant(t, "2026-06-02T00:00:00Z"), 9)); n != 2 {
		t.Errorf("%d times, want 2: the last instant belongs to the span", n)
	}
}

func TestPlanJitterIsStableAndSpreads(t *testing.T) {
	of := func(name string) time.Duration {
		s := ScheduleSpec{Cron: "0 0 * * *", Jitter: Duration(time.Minute)}
		p, err := NewPlan(&s, PlanFor{Namespace: "default", Name: name})
		if err != nil {
			t.Fatal(err)
		}
		return p.Delay()
	}
	if of("nightly") != 4263*time.Millisecond {
		t.Errorf("%v: the delay of a stored schedule must never change", of("nightly"))
	}
	quarters := [4]int{}
	for i := range 1000 {
		d := of("job-" + string(rune('a'+i%26)) + string(rune('a'+i/26)))
		if d < 0 || d > time.Minute {
			t.Fatal(d)
		}
		quarters[min(3, d/(15*time.Second))]++
	}
	for _, n := range quarters {
		if n < 150 {
			t.Errorf("uneven: %v", quarters)
		}
	}
}

func TestPlanRefusals(t *testing.T) {
	for _, c := range []struct {
		spec        ScheduleSpec
		field, rule string
	}{
		{ScheduleSpec{Cron: "61 * * * *"}, "cron", "minute must be from 0 to 59"},
		{ScheduleSpec{Cron: "* * * *"}, "cron", "must have 5 fields, or 6 with seconds first: it has 4"},
		{ScheduleSpec{Cron: "0 0 30 2 *"}, "cron", "day-of-month must be a date that exists: none of the months has such a day"},
		{ScheduleSpec{Cron: "0 5 * * *", Timezone: "Mars/Olympus_Mons"}, "timezone", "must be an IANA name such as Europe/Berlin: there is no such zone"},
		{ScheduleSpec{Cron: "0 5 * * *", DST: &DST{Gap: "later"}}, "dst.gap", "must be after or skip"},
		{ScheduleSpec{Every: 1}, "cron", "every must be from 1s to 36525d"},
	} {
		_, err := NewPlan(&c.spec, PlanFor{})
		if err == nil || err.Code != CodeInvalid || err.Field != c.field || err.Rule != c.rule {
			t.Errorf("%+v: got %v, want %s: %s", c.spec, err, c.field, c.rule)
		}
	}
}
