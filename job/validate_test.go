package job

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
)

func ptr[T any](v T) *T { return &v }

func command(args ...string) Executor { return Executor{Exec: &Exec{Command: args}} }

func request(url string) Executor { return Executor{HTTP: &HTTP{URL: url}} }

// wantError checks that an error is about a field ("" for none at all).
func wantError(t *testing.T, name string, err *Error, field string) {
	t.Helper()
	switch {
	case err == nil && field != "":
		t.Errorf("%s: accepted, want an error at %s", name, field)
	case err != nil && field == "":
		t.Errorf("%s: refused: %v", name, err)
	case err != nil && err.Field != field:
		t.Errorf("%s: error at %q, want it at %q (%v)", name, err.Field, field, err)
	case err != nil && err.Rule == "":
		t.Errorf("%s: the error names no rule", name)
	}
}

func TestValidateName(t *testing.T) {
	for _, name := range []string{"a", "Z", "0", "a.b_c-d", "0day", strings.Repeat("a", 253)} {
		wantError(t, name, ValidateName("name", name), "")
		wantError(t, name, ValidateNamespace(name), "")
	}
	for _, name := range []string{"", ".a", "-a", "_a", "a b", "a/b", "é", "a\n", "a\x00", "任务", strings.Repeat("a", 254)} {
		wantError(t, name, ValidateName("name", name), "name")
		wantError(t, name, ValidateNamespace(name), "namespace")
	}
}

func TestExecutorRules(t *testing.T) {
	long := strings.Repeat("x", MaxSpecBytes)
	exec := func(change func(*Exec)) Executor {
		x := &Exec{Command: []string{"/bin/true"}}
		change(x)
		return Executor{Exec: x}
	}
	http := func(change func(*HTTP)) Executor {
		h := &HTTP{URL: "https://example.org/hook"}
		change(h)
		return Executor{HTTP: h}
	}
	cases := []struct {
		name  string
		in    Executor
		field string
	}{
		{"command", command("echo", "hi"), ""},
		{"an empty argument", command("echo", ""), ""},
		{"url", request("http://[::1]:8080/a?b=c"), ""},
		{"handler", Executor{Handler: "reports.daily"}, ""},
		{"nothing", Executor{}, "exec"},
		{"two kinds", Executor{Handler: "h", HTTP: &HTTP{URL: "http://a"}}, "exec"},
		{"no command", Executor{Exec: &Exec{}}, "exec.command"},
		{"empty program", command("", "a"), "exec.command[0]"},
		{"NUL in an argument", command("echo", "a\x00b"), "exec.command[1]"},
		{"env", exec(func(x *Exec) { x.Env = map[string]string{"PATH": "", "_a1": "=,\n"} }), ""},
		{"env name empty", exec(func(x *Exec) { x.Env = map[string]string{"": "x"} }), "exec.env"},
		{"env name with digit first", exec(func(x *Exec) { x.Env = map[string]string{"1A": "x"} }), "exec.env"},
		{"env name with =", exec(func(x *Exec) { x.Env = map[string]string{"A=B": "x"} }), "exec.env"},
		{"env name of axd", exec(func(x *Exec) { x.Env = map[string]string{"AXD_TOKEN": "x"} }), "exec.env"},
		{"env value with NUL", exec(func(x *Exec) { x.Env = map[string]string{"A": "\x00"} }), `exec.env["A"]`},
		{"dir", exec(func(x *Exec) { x.Dir = "/srv/../tmp" }), ""},
		{"relative dir", exec(func(x *Exec) { x.Dir = "tmp" }), "exec.dir"},
		{"NUL in dir", exec(func(x *Exec) { x.Dir = "/tmp\x00" }), "exec.dir"},
		{"NUL in user", exec(func(x *Exec) { x.User = "ro\x00ot" }), "exec.user"},
		{"NUL in stdin is data", exec(func(x *Exec) { x.Stdin = "a\x00b" }), ""},
		{"limits", exec(func(x *Exec) { x.Limits = Limits{CPU: 0.5, Memory: 1 << 20} }), ""},
		{"cpu below 0", exec(func(x *Exec) { x.Limits.CPU = -1 }), "exec.limits.cpu"},
		{"cpu NaN", exec(func(x *Exec) { x.Limits.CPU = math.NaN() }), "exec.limits.cpu"},
		{"cpu infinite", exec(func(x *Exec) { x.Limits.CPU = math.Inf(1) }), "exec.limits.cpu"},
		{"memory in MiB, as it seems", exec(func(x *Exec) { x.Limits.Memory = 12 }), "exec.limits.memory"},
		{"the least memory", exec(func(x *Exec) { x.Limits.Memory = MinMemory }), ""},
		{"memory below 0", exec(func(x *Exec) { x.Limits.Memory = -1 }), "exec.limits.memory"},
		{"stdin too large", exec(func(x *Exec) { x.Stdin = long }), "exec"},
		{"body too large", http(func(h *HTTP) { h.Body = long }), "http"},
		{"method", http(func(h *HTTP) { h.Method = "PROPFIND" }), ""},
		{"method with space", http(func(h *HTTP) { h.Method = "GET /" }), "http.method"},
		{"no url", http(func(h *HTTP) { h.URL = "" }), "http.url"},
		{"relative url", http(func(h *HTTP) { h.URL = "/hook" }), "http.url"},
		{"url without host", http(func(h *HTTP) { h.URL = "http:///a" }), "http.url"},
		{"url with port alone", http(func(h *HTTP) { h.URL = "http://:80/a" }), "http.url"},
		{"url of a file", http(func(h *HTTP) { h.URL = "file:///etc/passwd" }), "http.url"},
		{"url with newline", http(func(h *HTTP) { h.URL = "http://a/\nb" }), "http.url"},
		{"url with wild port", http(func(h *HTTP) { h.URL = "http://a:99999/" }), "http.url"},
		{"header", http(func(h *HTTP) { h.Headers = map[string]string{"X-A": "b\tc é"} }), ""},
		{"header name", http(func(h *HTTP) { h.Headers = map[string]string{"X A": "b"} }), "http.headers"},
		{"header name empty", http(func(h *HTTP) { h.Headers = map[string]string{"": "b"} }), "http.headers"},
		{"header split", http(func(h *HTTP) { h.Headers = map[string]string{"X-A": "b\r\nX-B: c"} }), `http.headers["X-A"]`},
		{"header twice", http(func(h *HTTP) { h.Headers = map[string]string{"X-A": "b", "x-a": "c"} }), "http.headers"},
		{"header that frames", http(func(h *HTTP) { h.Headers = map[string]string{"Content-Length": "3"} }), "http.headers"},
		{"handler's name", Executor{Handler: "a b"}, "handler"},
	}
	for _, c := range cases {
		wantError(t, c.name, c.in.Validate(""), c.field)
	}
	if e := command().Validate("tasks[3]"); e == nil || e.Field != "tasks[3].exec.command" {
		t.Errorf("below a parent: %v", e)
	}
}

func TestSecretsAreNotRepeated(t *testing.T) {
	for _, e := range []Executor{
		{Exec: &Exec{Command: []string{"a"}, Env: map[string]string{"PASSWORD": "hunter2\x00"}}},
		{HTTP: &HTTP{URL: "http://a", Headers: map[string]string{"Authorization": "hunter2\n"}}},
	} {
		if err := e.Validate(""); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v", err)
		}
	}
}

func TestPolicyRules(t *testing.T) {
	labels := func(n int) map[string]string {
		m := map[string]string{}
		for i := range n {
			m["k"+strconv.Itoa(i)] = "v"
		}
		return m
	}
	cases := []struct {
		name  string
		in    Policy
		field string
	}{
		{"nothing", Policy{}, ""},
		{"app", Policy{App: "Wetterdienst Köln 天气"}, ""},
		{"app too long", Policy{App: strings.Repeat("a", 129)}, "app"},
		{"app with newline", Policy{App: "a\nb"}, "app"},
		{"app not UTF-8", Policy{App: "\xff"}, "app"},
		{"owner with NUL", Policy{Owner: "\x00"}, "owner"},
		{"priority", Policy{Priority: Low}, ""},
		{"no such priority", Policy{Priority: 4}, "priority"},
		{"timeout 0", Policy{Timeout: ptr(Duration(0))}, ""},
		{"timeout below 0", Policy{Timeout: ptr(Duration(-1))}, "timeout"},
		{"queue_timeout", Policy{QueueTimeout: ptr(Duration(1))}, ""},
		{"queue_timeout below 0", Policy{QueueTimeout: ptr(Duration(-1))}, "queue_timeout"},
		{"total_timeout", Policy{TotalTimeout: ptr(Duration(math.MaxInt64))}, ""},
		{"total_timeout below 0", Policy{TotalTimeout: ptr(Duration(-1))}, "total_timeout"},
		{"heartbeat_timeout 0", Policy{HeartbeatTimeout: ptr(Duration(0))}, ""},
		{"heartbeat_timeout 1s", Policy{HeartbeatTimeout: ptr(MinHeartbeatTimeout)}, ""},
		{"heartbeat_timeout below 1s", Policy{HeartbeatTimeout: ptr(MinHeartbeatTimeout - 1)}, "heartbeat_timeout"},
		{"heartbeat_timeout below 0", Policy{HeartbeatTimeout: ptr(Duration(-1))}, "heartbeat_timeout"},
		{"grace 0", Policy{Grace: ptr(Duration(0))}, ""},
		{"grace 1h", Policy{Grace: ptr(MaxGrace)}, ""},
		{"grace above 1h", Policy{Grace: ptr(MaxGrace + 1)}, "grace"},
		{"grace below 0", Policy{Grace: ptr(Duration(-1))}, "grace"},
		{"64 labels", Policy{Selector: labels(64)}, ""},
		{"65 labels", Policy{Selector: labels(65)}, "selector"},
		{"label", Policy{Selector: map[string]string{"axd.dev/arch": "loong64", "zone": ""}}, ""},
		{"label key", Policy{Selector: map[string]string{"a b": "c"}}, "selector"},
		{"label key empty", Policy{Selector: map[string]string{"": "c"}}, "selector"},
		{"label value with comma", Policy{Selector: map[string]string{"a": "b,c"}}, `selector["a"]`},
		{"label value with outer space", Policy{Selector: map[string]string{"a": "b "}}, `selector["a"]`},
		{"label value too long", Policy{Selector: map[string]string{"a": strings.Repeat("b", 254)}}, `selector["a"]`},
		{"on_disconnect", Policy{OnDisconnect: "ignore"}, "on_disconnect"},
		{"codes", Policy{SuccessCodes: []int{0, 599}}, ""},
		{"code below 0", Policy{SuccessCodes: []int{0, -1}}, "success_codes[1]"},
		{"code above all", Policy{SuccessCodes: []int{600}}, "success_codes[0]"},
		{"very many codes", Policy{SuccessCodes: make([]int, 601)}, "success_codes"},
		{"retry", Policy{Retry: &Retry{MaxRetries: new(1001)}}, "retry.max_retries"},
	}
	for _, c := range cases {
		wantError(t, c.name, c.in.Validate(), c.field)
	}
}

func TestPolicyAgainstKind(t *testing.T) {
	run := Policy{OnDisconnect: DisconnectContinue}
	cases := []struct {
		name, kind string
		in         Policy
		field      string
	}{
		{"continue without timeout", KindExec, run, "on_disconnect"},
		{"continue with timeout 0", KindExec, run.Merge(Policy{Timeout: ptr(Duration(0))}), "on_disconnect"},
		{"continue with timeout", KindExec, run.Merge(Policy{Timeout: ptr(Duration(1))}), ""},
		{"heartbeat of a command", KindExec, Policy{HeartbeatTimeout: ptr(MinHeartbeatTimeout)}, ""},
		{"heartbeat of a handler", KindHandler, Policy{HeartbeatTimeout: ptr(MinHeartbeatTimeout)}, ""},
		{"heartbeat of a request", KindHTTP, Policy{HeartbeatTimeout: ptr(MinHeartbeatTimeout)}, "heartbeat_timeout"},
		{"heartbeat 0 of a request", KindHTTP, Policy{HeartbeatTimeout: ptr(Duration(0))}, ""},
		{"exit code", KindExec, Policy{SuccessCodes: []int{0, 255}}, ""},
		{"exit code 256", KindExec, Policy{SuccessCodes: []int{256}}, "success_codes[0]"},
		{"status", KindHTTP, Policy{SuccessCodes: []int{100, 599}}, ""},
		{"status 0", KindHTTP, Policy{SuccessCodes: []int{0}}, "success_codes[0]"},
		{"handler", KindHandler, Policy{}, ""},
		{"handler with codes", KindHandler, Policy{SuccessCodes: []int{0}}, "success_codes"},
	}
	for _, c := range cases {
		wantError(t, c.name, c.in.ValidateFor(c.kind), c.field)
	}
}

func TestSpecRules(t *testing.T) {
	cases := []struct {
		name  string
		in    Spec
		field string
	}{
		{"full", Spec{Description: "Räumt auf.\n\t- jede Nacht", Executor: command("true"), Policy: Policy{App: "a"}}, ""},
		{"no executor", Spec{}, "exec"},
		{"description too long", Spec{Description: strings.Repeat("a", 4097), Executor: command("true")}, "description"},
		{"description with ESC", Spec{Description: "\x1b[31m", Executor: command("true")}, "description"},
		{"kind and codes", Spec{Executor: request("http://a"), Policy: Policy{SuccessCodes: []int{1}}}, "success_codes[0]"},
		{"policy", Spec{Executor: command("true"), Policy: Policy{Owner: "\r"}}, "owner"},
	}
	for _, c := range cases {
		wantError(t, c.name, c.in.Validate(), c.field)
	}
}

func TestTaskRules(t *testing.T) {
	task := func(change func(*TaskSpec)) TaskSpec {
		s := TaskSpec{Job: "nightly"}
		change(&s)
		return s
	}
	big := `"` + strings.Repeat("a", MaxPayload-2) + `"`
	cases := []struct {
		name  string
		in    TaskSpec
		field string
	}{
		{"job", TaskSpec{Job: "nightly"}, ""},
		{"command", TaskSpec{Executor: command("true")}, ""},
		{"neither", TaskSpec{}, "job"},
		{"both", TaskSpec{Job: "nightly", Executor: request("http://a")}, "http"},
		{"job's name", TaskSpec{Job: "a b"}, "job"},
		{"executor", TaskSpec{Executor: command("")}, "exec.command[0]"},
		{"own executor, continue", TaskSpec{Executor: command("a"), Policy: Policy{OnDisconnect: DisconnectContinue}}, "on_disconnect"},
		{"the job may hold the timeout", TaskSpec{Job: "a", Policy: Policy{OnDisconnect: DisconnectContinue}}, ""},
		{"payload", task(func(s *TaskSpec) { s.Payload = []byte(` {"n":9007199254740993} `) }), ""},
		{"payload as large as may be", task(func(s *TaskSpec) { s.Payload = []byte(big) }), ""},
		{"payload too large", task(func(s *TaskSpec) { s.Payload = []byte(big + " ") }), "payload"},
		{"last time", task(func(s *TaskSpec) { s.Due = MaxTime }), ""},
		{"after the last time", task(func(s *TaskSpec) { s.Due = MaxTime + 1 }), "execute_time"},
		{"before 1970", task(func(s *TaskSpec) { s.Due = -1 }), "execute_time"},
		{"longest delay", task(func(s *TaskSpec) { s.Delay = math.MaxInt64 }), ""},
		{"delay below 0", task(func(s *TaskSpec) { s.Delay = -1 }), "delay"},
		{"time and delay", task(func(s *TaskSpec) { s.Due, s.Delay = 1, 1 }), "delay"},
		{"key", task(func(s *TaskSpec) { s.IdempotencyKey = strings.Repeat("é", 127) + "." }), ""},
		{"key too long", task(func(s *TaskSpec) { s.IdempotencyKey = strings.Repeat("é", 128) }), "idempotency_key"},
		{"key with newline", task(func(s *TaskSpec) { s.IdempotencyKey = "a\n" }), "idempotency_key"},
		{"key not UTF-8", task(func(s *TaskSpec) { s.IdempotencyKey = "\xc3" }), "idempotency_key"},
		{"window", task(func(s *TaskSpec) { s.IdempotencyWindow = MaxIdempotencyWindow }), ""},
		{"window too long", task(func(s *TaskSpec) { s.IdempotencyWindow = MaxIdempotencyWindow + 1 }), "idempotency_window"},
		{"window below 0", task(func(s *TaskSpec) { s.IdempotencyWindow = -1 }), "idempotency_window"},
	}
	for _, c := range cases {
		wantError(t, c.name, c.in.Validate(), c.field)
	}
}

func TestTooLargeNamesBothNumbers(t *testing.T) {
	e := TaskSpec{Job: "a", Payload: make([]byte, MaxPayload+1)}.Validate()
	if !errors.Is(e, ErrTooLarge) || !strings.Contains(e.Error(), "262144") || !strings.Contains(e.Error(), "262145") {
		t.Errorf("%v", e)
	}
}

func TestDueAt(t *testing.T) {
	const now = 1_796_000_000_000
	cases := []struct {
		name string
		in   TaskSpec
		want int64
	}{
		{"now", TaskSpec{}, now},
		{"later", TaskSpec{Due: now + 5}, now + 5},
		{"passed", TaskSpec{Due: 1}, now},
		{"delay", TaskSpec{Delay: Duration(90 * time.Second)}, now + 90_000},
		{"part of a millisecond", TaskSpec{Delay: 1}, now + 1},
		{"longest", TaskSpec{Delay: math.MaxInt64}, now + 9223372036855},
		{"end of time", TaskSpec{Due: MaxTime}, MaxTime},
	}
	for _, c := range cases {
		if got, err := c.in.DueAt(now); got != c.want || err != nil {
			t.Errorf("%s: %d, %v; want %d", c.name, got, err, c.want)
		}
	}
	_, err := TaskSpec{Delay: math.MaxInt64}.DueAt(MaxTime - 1)
	wantError(t, "past the end of time", err, "delay")
}
