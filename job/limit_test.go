package job

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func TestLimitRules(t *testing.T) {
	con := func(c Concurrency) Policy { return Policy{Concurrency: &c} }
	rate := func(r Rate) Policy { return Policy{Rate: &r} }
	second := Duration(time.Second)
	cases := []struct {
		name  string
		in    Policy
		field string
	}{
		{"concurrency", con(Concurrency{Max: 1, Key: "/customer/id", Name: "api"}), ""},
		{"none", con(Concurrency{}), "concurrency.max"},
		{"too many", con(Concurrency{Max: MaxConcurrency + 1}), "concurrency.max"},
		{"dotted", con(Concurrency{Max: 1, Key: "customer.0.id"}), ""},
		{"empty step", con(Concurrency{Max: 1, Key: "customer..id"}), "concurrency.key"},
		{"bad escape", con(Concurrency{Max: 1, Key: "/a~2"}), "concurrency.key"},
		{"escape cut short", con(Concurrency{Max: 1, Key: "/a~"}), "concurrency.key"},
		{"escapes", con(Concurrency{Max: 1, Key: "/a~0~1b"}), ""},
		{"17 steps", con(Concurrency{Max: 1, Key: strings.Repeat("/a", 17)}), "concurrency.key"},
		{"control", con(Concurrency{Max: 1, Key: "a\n"}), "concurrency.key"},
		{"name", con(Concurrency{Max: 1, Name: "a b"}), "concurrency.name"},
		{"rate", rate(Rate{Max: 100, Per: second, Burst: 100}), ""},
		{"rate of 0", rate(Rate{Per: second}), "rate.max"},
		{"no time", rate(Rate{Max: 1}), "rate.per"},
		{"burst above max", rate(Rate{Max: 1, Per: second, Burst: 2}), "rate.burst"},
		{"too fine", rate(Rate{Max: MaxRate, Per: second / 2}), "rate.per"},
		{"rate's key", rate(Rate{Max: 1, Per: second, Key: "."}), "rate.key"},
	}
	for _, c := range cases {
		wantError(t, c.name, c.in.Validate(), c.field)
	}
	own := TaskSpec{Executor: command("true"), Policy: con(Concurrency{Max: 1})}
	wantError(t, "without job or name", own.Validate(), "concurrency.name")
	own.Policy = rate(Rate{Max: 1, Per: second})
	wantError(t, "without job or name", own.Validate(), "rate.name")
	own.Rate.Name = "api"
	wantError(t, "without job", own.Validate(), "")
}

func TestPayloadKey(t *testing.T) {
	doc := `{"a":{"b":[10,"x",{"c":"é\u00e9"}]},"n":9007199254740993,"t":true,"z":null,"":1,"a/b":2,"m~n":3,"dup":1,"dup":2,"q\"":"esc","deep":"` +
		`} ] , {"} `
	cases := []struct{ path, want, field string }{
		{"/a/b/0", "10", ""}, {"a.b.1", "x", ""}, {"/a/b/2/c", "éé", ""}, {"/n", "9007199254740993", ""}, {"t", "true", ""},
		{"z", "", ""}, {"/", "1", ""}, {"/a~1b", "2", ""}, {"/m~0n", "3", ""}, {"dup", "2", ""}, {`q"`, "esc", ""},
		{"/deep", `} ] , {`, ""}, {"nothing", "", ""}, {"/a/b/3", "", ""}, {"/a/b/-1", "", ""}, {"/a/b/00", "", ""}, {"/n/x", "", ""},
		{"a", "", "payload"}, {"/a/b", "", "payload"}, {"", "", ""},
	}
	for _, c := range cases {
		got, err := PayloadKey([]byte(doc), c.path)
		wantError(t, c.path, err, c.field)
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.path, got, c.want)
		}
	}
	for _, bad := range []string{`{"k":"a\u0000"}`, `{"k":"` + strings.Repeat("a", 256) + `"}`, `{"k":` + strings.Repeat("1", 256) + `}`} {
		_, err := PayloadKey([]byte(bad), "k")
		wantError(t, bad[:10], err, "payload")
	}
}

// What is no JSON leads nowhere, and never panics; nesting costs no stack.
func FuzzPayloadKey(f *testing.F) {
	for _, s := range []string{`{"a":1}`, `{"a"`, `{"a":`, `[1,`, `"`, `{"a":"\`, `{,}`, `[[[[`, `}`, `{"a" 1}`, ``, `{"a":{"b":2}} {"a":3}`} {
		f.Add([]byte(s), "/a/b")
		f.Add([]byte(s), "a")
	}
	f.Fuzz(func(t *testing.T, b []byte, path string) {
		got, err := PayloadKey(b, path)
		var doc map[string]any
		if err == nil && path == "a" && json.Unmarshal(b, &doc) == nil {
			if s, ok := doc["a"].(string); ok && s != got {
				t.Errorf("%q: %q, want %q", b, got, s)
			}
		}
	})
}

func TestPayloadKeyOfDeepNesting(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 100_000) + `1` + strings.Repeat(`}`, 100_000)
	if _, err := PayloadKey([]byte(deep), "a.a"); err == nil {
		t.Error("an object is no key")
	}
}

// In no time of Per do more than Max + Burst - 1 attempts begin, and a caller that
// comes when it may is never refused.
func TestRateKeepsItsBound(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		r := Rate{Max: 1 + rng.IntN(20), Per: Duration(time.Duration(1+rng.IntN(2000)) * time.Millisecond)}
		r.Burst = 1 + rng.IntN(r.Max)
		var state, now int64 = 0, 1_000_000_000
		var begun []int64
		for range 400 {
			if at := r.ReadyAt(state, now); at > now {
				if rng.IntN(2) == 0 {
					now = at
				} else {
					now += rng.Int64N(at - now + 1)
				}
				if r.ReadyAt(state, now) > now {
					continue
				}
			}
			state = r.Take(state, now)
			begun = append(begun, now)
		}
		per := r.Per.Std().Microseconds()
		for i, from := range begun {
			n := 0
			for _, at := range begun[i:] {
				if at < from+per-int64(r.Max) { // intervals are whole microseconds
					n++
				}
			}
			if n > r.Max+r.Burst-1 {
				t.Fatalf("%+v: %d within %v", r, n, r.Per)
			}
		}
	}
	slow, fast := Rate{Max: 1, Per: Duration(time.Hour)}, Rate{Max: 10, Per: Duration(time.Second)}
	if at := fast.ReadyAt(slow.Take(0, 5_000_000), 5_000_000); at > 5_100_000 {
		t.Errorf("a rate that was raised waits %d µs for the slower one", at-5_000_000)
	}
}
