package job

import (
	"testing"
	"time"
)

func TestKeyRules(t *testing.T) {
	task := func(change func(*TaskSpec)) TaskSpec {
		s := TaskSpec{Job: "nightly", IdempotencyKey: "k"}
		change(&s)
		return s
	}
	cases := []struct {
		name  string
		in    TaskSpec
		field string
	}{
		{"policy", task(func(s *TaskSpec) { s.IdempotencyPolicy = IdempotencyReplace }), ""},
		{"no such policy", task(func(s *TaskSpec) { s.IdempotencyPolicy = "Return" }), "idempotency_policy"},
		{"policy without key", TaskSpec{Job: "a", IdempotencyPolicy: IdempotencyReturn}, "idempotency_policy"},
		{"unique key", TaskSpec{Job: "a", UniqueKey: "é 1"}, ""},
		{"unique key with newline", TaskSpec{Job: "a", UniqueKey: "a\n"}, "unique_key"},
		{"unique key too long", TaskSpec{Job: "a", UniqueKey: string(make([]byte, 256))}, "unique_key"},
		{"period", task(func(s *TaskSpec) { s.IdempotencyPeriod = Duration(12 * time.Minute) }), ""},
		{"period too short", task(func(s *TaskSpec) { s.IdempotencyPeriod = 1 }), "idempotency_period"},
		{"period below 0", task(func(s *TaskSpec) { s.IdempotencyPeriod = -1 }), "idempotency_period"},
		{"period too long", task(func(s *TaskSpec) { s.IdempotencyPeriod = MaxIdempotencyWindow + 1 }), "idempotency_period"},
		{"period without key", TaskSpec{Job: "a", IdempotencyPeriod: Duration(time.Minute)}, "idempotency_period"},
		{"period and window", task(func(s *TaskSpec) { s.IdempotencyPeriod, s.IdempotencyWindow = Duration(time.Minute), 1 }), "idempotency_period"},
	}
	for _, c := range cases {
		wantError(t, c.name, c.in.Validate(), c.field)
	}
}

func TestKeyPeriod(t *testing.T) {
	const noon = 1_796_040_000_000 - 1_796_040_000_000%86_400_000 + 43_200_000
	const minute = 60_000
	none := TaskSpec{IdempotencyWindow: Duration(time.Hour)}
	if period, expiry := none.KeyPeriod(noon, noon+5*minute); period != "" || expiry != noon+60*minute {
		t.Errorf("a window: %q until %d", period, expiry-noon)
	}
	twelve := TaskSpec{IdempotencyPeriod: Duration(12 * time.Minute)}
	first, expiry := twelve.KeyPeriod(noon-minute, noon)
	if expiry != noon+12*minute {
		t.Errorf("ends at %d", expiry-noon)
	}
	for due, same := range map[int64]bool{noon + 5*minute: true, noon + 12*minute - 1: true, noon + 12*minute: false, noon - 1: false} {
		if got, _ := twelve.KeyPeriod(noon-30*minute, due); (got == first) != same {
			t.Errorf("%d: %q beside %q", due-noon, got, first)
		}
	}
	if got, _ := (TaskSpec{IdempotencyPeriod: Duration(6 * time.Minute)}).KeyPeriod(noon, noon); got == first {
		t.Error("another length is another period")
	}
}

func TestRequestHashAndKeys(t *testing.T) {
	a := TaskSpec{Job: "a", Due: 1, IdempotencyKey: "k", IdempotencyPeriod: Duration(time.Minute)}
	b := a
	b.Due, b.IdempotencyPolicy = 2, IdempotencyReject
	if RequestHash(a) != RequestHash(b) {
		t.Error("with a period the time is not part of the content, and the policy never is")
	}
	b.UniqueKey = "u"
	if RequestHash(a) == RequestHash(b) {
		t.Error("the unique key is part of the content")
	}
}
