package job

import (
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"
)

// full returns a policy with every field set; n tells two of them apart.
func full(n int) Policy {
	d := Duration(n)
	return Policy{
		App: "app" + string(rune('0'+n)), Owner: "owner" + string(rune('0'+n)), Priority: Priority(n),
		Timeout: &d, Grace: &d, Retry: &Retry{MaxRetries: new(n)}, Selector: map[string]string{"n": string(rune('0' + n))},
		Route: &Route{Sticky: string(rune('0' + n))}, QueueTimeout: &d, TotalTimeout: &d, HeartbeatTimeout: &d,
		Idempotent:   new(n == 2),
		SuccessCodes: []int{n}, OnDisconnect: OnDisconnect("mode" + string(rune('0'+n))), CallbackSecret: "secret" + string(rune('0'+n)), FairnessKey: "fair" + string(rune('0'+n)), Compensation: "comp" + string(rune('0'+n)), OnExhausted: OnExhausted("end" + string(rune('0'+n))),
		Concurrency: &Concurrency{Max: n}, Rate: &Rate{Max: n},
		CallbackURL: "url" + string(rune('0'+n)), CallbackJob: "job" + string(rune('0'+n)), CallbackOn: []string{string(rune('0' + n))},
	}
}

// Field by field by reflection, so that a field added to Policy and forgotten
// in Merge fails here.
func TestMergeTakesEveryFieldThatIsSet(t *testing.T) {
	under, over := full(1), full(2)
	if got := under.Merge(Policy{}); !reflect.DeepEqual(got, under) {
		t.Errorf("an empty policy changed something: %+v", got)
	}
	if got := (Policy{}).Merge(over); !reflect.DeepEqual(got, over) {
		t.Errorf("not all was taken: %+v", got)
	}
	typ := reflect.TypeFor[Policy]()
	for i := range typ.NumField() {
		if reflect.ValueOf(over).Field(i).IsZero() {
			t.Fatalf("%s is not set by full", typ.Field(i).Name)
		}
		var one Policy
		reflect.ValueOf(&one).Elem().Field(i).Set(reflect.ValueOf(over).Field(i))
		want := under
		switch typ.Field(i).Name { // one replaces the other
		case "CallbackURL":
			want.CallbackJob = ""
		case "CallbackJob":
			want.CallbackURL, want.CallbackSecret = "", ""
		}
		reflect.ValueOf(&want).Elem().Field(i).Set(reflect.ValueOf(over).Field(i))
		if got := under.Merge(one); !reflect.DeepEqual(got, want) {
			t.Errorf("%s alone: %+v", typ.Field(i).Name, got)
		}
	}
}

func TestDefaults(t *testing.T) {
	var p Policy
	if p.TimeoutOrDefault() != 0 || p.GraceOrDefault() != DefaultGrace || p.PriorityOrDefault() != Normal ||
		p.OnDisconnectOrDefault() != DisconnectKill {
		t.Errorf("defaults of %+v", p)
	}
	if e := p.Validate(); e != nil {
		t.Error(e)
	}
	p = Policy{Grace: ptr(Duration(0)), Priority: High, OnDisconnect: DisconnectContinue}
	if p.GraceOrDefault() != 0 || p.PriorityOrDefault() != High ||
		p.OnDisconnectOrDefault() != DisconnectContinue {
		t.Errorf("what is set was replaced in %+v", p)
	}
	if (TaskSpec{}).IdempotencyWindowOrDefault() != DefaultIdempotencyWindow ||
		(TaskSpec{IdempotencyWindow: 1}).IdempotencyWindowOrDefault() != 1 {
		t.Error("idempotency window")
	}
}

func TestIsSuccess(t *testing.T) {
	cases := []struct {
		kind  string
		codes []int
		code  int
		want  bool
	}{
		{KindExec, nil, 0, true}, {KindExec, nil, 1, false}, {KindExec, nil, 200, false},
		{KindExec, []int{3, 4}, 4, true}, {KindExec, []int{3, 4}, 0, false},
		{KindHTTP, nil, 200, true}, {KindHTTP, nil, 299, true}, {KindHTTP, nil, 199, false},
		{KindHTTP, nil, 300, false}, {KindHTTP, nil, 0, false},
		{KindHTTP, []int{404}, 404, true}, {KindHTTP, []int{404}, 200, false},
		{KindHandler, nil, 0, true}, {KindHandler, nil, 1, false},
	}
	for _, c := range cases {
		if got := (Policy{SuccessCodes: c.codes}).IsSuccess(c.kind, c.code); got != c.want {
			t.Errorf("%s %v with %d: %v", c.kind, c.codes, c.code, got)
		}
	}
}

func TestRequestHash(t *testing.T) {
	base := func() TaskSpec {
		return TaskSpec{
			Executor: Executor{Exec: &Exec{Command: []string{"a", "b"}, Env: map[string]string{"A": "1", "B": "2", "C": "3"}}},
			Policy:   Policy{App: "app", Selector: map[string]string{"x": "1", "y": "2"}},
			Payload:  []byte(`{"a":1}`), Due: 5, IdempotencyKey: "k", IdempotencyWindow: 7,
		}
	}
	want := RequestHash(base())
	for range 100 { // maps must not show their order
		if RequestHash(base()) != want {
			t.Fatal("the hash of one request varies")
		}
	}
	same := base()
	same.IdempotencyKey, same.IdempotencyWindow = "other", 0
	if RequestHash(same) != want {
		t.Error("key and window must not count")
	}
	seen := map[[16]byte]string{want: "the request itself"}
	for name, change := range map[string]func(*TaskSpec){
		"job":       func(s *TaskSpec) { s.Job = "j" },
		"arguments": func(s *TaskSpec) { s.Exec.Command = []string{"ab"} },
		"env":       func(s *TaskSpec) { s.Exec.Env["A"] = "2" },
		"stdin":     func(s *TaskSpec) { s.Exec.Stdin = "x" },
		"app":       func(s *TaskSpec) { s.App = "" },
		"timeout":   func(s *TaskSpec) { s.Timeout = ptr(Duration(0)) },
		"queue":     func(s *TaskSpec) { s.QueueTimeout = ptr(Duration(0)) },
		"total":     func(s *TaskSpec) { s.TotalTimeout = ptr(Duration(0)) },
		"heartbeat": func(s *TaskSpec) { s.HeartbeatTimeout = ptr(Duration(0)) },
		"idem":      func(s *TaskSpec) { s.Idempotent = ptr(false) },
		"payload":   func(s *TaskSpec) { s.Payload = []byte(`{"a": 1}`) },
		"due":       func(s *TaskSpec) { s.Due = 6 },
		"delay":     func(s *TaskSpec) { s.Due, s.Delay = 0, 5 },
		"kind":      func(s *TaskSpec) { s.Exec, s.Handler = nil, "a" },
	} {
		s := base()
		change(&s)
		h := RequestHash(s)
		if other, found := seen[h]; found {
			t.Errorf("%s has the hash of %s", name, other)
		}
		seen[h] = name
	}
}

// The hash is kept in state, so a new version must find the same one.
func TestRequestHashIsStable(t *testing.T) {
	s := TaskSpec{Job: "nightly", Policy: Policy{Priority: High}, Payload: []byte("1"), Delay: 1000}
	const want = "24bbd4bae04e20179936313e3f9b50b3"
	if got := fmt.Sprintf("%x", RequestHash(s)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestTimeoutEndsWhereItBegan(t *testing.T) {
	for _, c := range []struct {
		d          Duration
		from, want int64
	}{
		{0, 5, 0}, {1, 5, 6}, {Duration(2 * time.Second), 5, 2005}, {Duration(time.Millisecond), MaxTime - 1, MaxTime},
		{Duration(time.Millisecond), MaxTime, 0}, {math.MaxInt64, MaxTime - 10, 0},
	} {
		if got := c.d.Until(c.from); got != c.want {
			t.Errorf("%v from %d: until %d, want %d", c.d, c.from, got, c.want)
		}
	}
}
