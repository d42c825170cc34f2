package main

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

// A long text goes on below itself, in its own column.
func TestLongTextsAreWrapped(t *testing.T) {
	var buf bytes.Buffer
	tb := newTable(&buf)
	tb.row("ALERT", "TEXT")
	tb.wrapped(20, "disk_low/s2", "only 7.0 % of the disk is free; below 5 % new tasks are refused")
	tb.wrapped(20, "clock\x1b/s1", "")
	if err := tb.flush(); err != nil {
		t.Fatal(err)
	}
	const want = `ALERT        TEXT
disk_low/s2  only 7.0 % of the
             disk is free; below
             5 % new tasks are
             refused
clock /s1    -
`
	if buf.String() != want {
		t.Errorf("got\n%s\nwant\n%s", buf.String(), want)
	}
}

func TestOutputFormats(t *testing.T) {
	code := 3
	due := time.Date(2026, 12, 1, 2, 0, 0, 5e6, time.UTC)
	task := client.Task{ID: "X", State: "failed", ExitCode: &code, ExecuteTime: &due, CreatedAt: due, Payload: []byte(`{"n":9007199254740993,"h":"<&>"}`)}
	for format, want := range map[outputFlag]string{
		"table": "X  failed  -\n",
		"json": `{
  "id": "X",
  "namespace": "",
  "state": "failed",
  "priority": "",
  "execute_time": "2026-12-01T02:00:00.005Z",
  "created_at": "2026-12-01T02:00:00.005Z",
  "exit_code": 3,
  "retry_count": 0,
  "max_retries": 0,
  "attempt": 0,
  "payload": {
    "n": 9007199254740993,
    "h": "<&>"
  }
}
`,
		"yaml": `id: X
namespace: ""
state: failed
priority: ""
execute_time: "2026-12-01T02:00:00.005Z"
created_at: "2026-12-01T02:00:00.005Z"
exit_code: 3
retry_count: 0
max_retries: 0
attempt: 0
payload:
  "n": 9007199254740993
  h: <&>
`,
	} {
		var buf bytes.Buffer
		if err := format.print(&buf, task, func(tb *table) { tb.row(task.ID, task.State, "") }); err != nil {
			t.Fatal(err)
		}
		if buf.String() != want {
			t.Errorf("%s:\n%s\nwant\n%s", format, buf.String(), want)
		}
	}
}

func TestTablesKeepTheTerminalSafe(t *testing.T) {
	var buf bytes.Buffer
	tb := newTable(&buf)
	tb.row("a\x1b[31m\nb\tc", "d")
	if err := tb.flush(); err != nil || buf.String() != "a [31m b c  d\n" {
		t.Errorf("%q, %v", buf.String(), err)
	}
}

func TestErrorsKeepTheTerminalSafe(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(client.Problem{Code: job.CodeInvalid, Detail: "clear \x1b[2J it"})
	}))
	defer srv.Close()
	var stdout, stderr bytes.Buffer
	code := run([]string{"stats", "--addr", srv.URL}, nil, &stdout, &stderr)
	if code != exitUsage || stderr.String() != "axd: clear  [2J it\n" {
		t.Errorf("%d, %q", code, stderr.String())
	}
	if got := printableLines("one\x1b\ntwo\xff"); got != "one \ntwo\uFFFD" {
		t.Errorf("%q", got)
	}
}

func TestDescribe(t *testing.T) {
	for want, x := range map[string]job.Executor{
		`sh -c 'echo "it'\''s"' ''`: {Exec: &job.Exec{Command: []string{"sh", "-c", `echo "it's"`, ""}}},
		"POST http://a/b":           {HTTP: &job.HTTP{URL: "http://a/b"}},
		"handler mail":              {Handler: "mail"},
		"":                          {},
	} {
		if got := describe(x); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestShort(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"12ms": 12300 * time.Microsecond, "1.235s": 1234567 * time.Microsecond, "12.3s": 12345 * time.Millisecond, "2h": 2 * time.Hour,
		"90h": 90 * time.Hour, "4d4h": 100 * time.Hour, "9000d": 9000 * 24 * time.Hour, "over 290 years": math.MaxInt64,
	} {
		if got := short(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}
