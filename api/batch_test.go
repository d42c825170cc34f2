package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

func batchOf(tasks ...string) string { return `{"tasks":[` + strings.Join(tasks, ",") + `]}` }

// repeated returns n tasks; %d in the pattern is the task's number.
func repeated(n int, pattern string) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf(pattern, i)
	}
	return out
}

func TestBatchEachStandsAlone(t *testing.T) {
	w := newWorld(t)
	good := `{` + execTrue + `,"idempotency_key":"k"}`
	got := expect[client.BatchResponse](w, http.StatusOK, "POST", "/v1/tasks/batch", batchOf(
		good, `{"jobb":"a"}`, `5`, `null`, `{`+execTrue+`,"delay":"-1s"}`, good, `{"job":"nope"}`,
		`{`+execTrue+`,"payload":"`+strings.Repeat("x", job.MaxPayload)+`"}`,
		`{`+execTrue+`,"payload":"`+strings.Repeat("x", maxBody)+`"}`,
		`{`+execTrue+`,"exec":null}`, `{`+execTrue+`}`,
	)).Results
	wants := []string{
		"new", "invalid tasks[1].jobb", "invalid tasks[2]", "invalid tasks[3]", "invalid tasks[4].delay", "deduplicated",
		"not_found tasks[6].job", "too_large tasks[7].payload", "too_large tasks[8]", "invalid tasks[9].exec", "new",
	}
	if len(got) != len(wants) {
		t.Fatalf("%d results", len(got))
	}
	for i, want := range wants {
		var is string
		switch r := got[i]; {
		case r.Error != nil:
			is = string(r.Error.Code) + " " + r.Error.Field
		case *r.Deduplicated:
			is = "deduplicated"
		default:
			is = "new"
		}
		if is != want {
			t.Errorf("result %d: %s, want %s", i, is, want)
		}
	}
	if got[0].ID != got[5].ID || got[0].ID == got[10].ID {
		t.Errorf("ids %s %s %s", got[0].ID, got[5].ID, got[10].ID)
	}
}

func TestBatchRefusedAsAWhole(t *testing.T) {
	w := newWorld(t)
	tests := []struct {
		name, body string
		status     int
		code       job.Code
		field      string
	}{
		{"not JSON", `{"tasks":[{},]}`, 400, job.CodeInvalid, "body"},
		{"no tasks", `{}`, 400, job.CodeInvalid, "tasks"},
		{"null", `{"tasks":null}`, 400, job.CodeInvalid, "tasks"},
		{"not an array", `{"tasks":{}}`, 400, job.CodeInvalid, "tasks"},
		{"unknown field", `{"tasks":[],"atomic":true}`, 400, job.CodeInvalid, "atomic"},
		{"bare array", `[{}]`, 400, job.CodeInvalid, ""},
		{"10,001 tasks", batchOf(repeated(job.MaxBatch+1, `{"job":"a","payload":%d}`)...), 413, job.CodeTooLarge, "tasks"},
	}
	before := w.logged()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := wantProblem(t, w.do("POST", "/v1/tasks/batch", tt.body), tt.status, tt.code, tt.field)
			if tt.status == 413 && (!strings.Contains(p.Detail, "10000") || !strings.Contains(p.Detail, "10001")) {
				t.Errorf("detail %q", p.Detail)
			}
		})
	}
	r := newRequest("POST", "/v1/tasks/batch", batchOf())
	r.Header.Set(idempotencyHeader, "k")
	wantProblem(t, w.serve(r), 400, job.CodeInvalid, idempotencyHeader)
	if w.logged() != before {
		t.Error("something reached the log")
	}
	if got := expect[client.BatchResponse](w, 200, "POST", "/v1/tasks/batch", batchOf()); got.Results == nil || len(got.Results) != 0 {
		t.Errorf("empty batch: %+v", got)
	}
}

// Whatever a batch holds, each of its commands fits a log entry, and the order
// of the batch is the order of creation.
func TestBatchChunks(t *testing.T) {
	w := newWorld(t)
	env := `{"exec":{"command":["a"],"env":{"E":"` + strings.Repeat("e", 60<<10) + `"}},"payload":%d}`
	retry := `{"exec":{"command":["h"]},"retry":{},"success_codes":[1],"timeout":"1s","grace":"1s","selector":{"a":"b"},"payload":%d}`
	tasks := repeated(1200, `{"handler":"h","payload":%d}`)
	tasks = append(tasks, repeated(20, env)...)
	tasks = append(tasks, repeated(3, `{"handler":"h","payload":[%d,"`+strings.Repeat("x", job.MaxPayload-20)+`"]}`)...)
	tasks = append(tasks, repeated(1200, retry)...)
	before := w.logged()
	got := expect[client.BatchResponse](w, http.StatusOK, "POST", "/v1/tasks/batch", batchOf(tasks...)).Results
	last := ""
	for i, r := range got {
		if r.Error != nil {
			t.Fatalf("result %d: %+v", i, r.Error)
		}
		if r.ID <= last {
			t.Fatalf("result %d: id %s after %s", i, r.ID, last)
		}
		last = r.ID
	}
	for _, e := range w.entries[before:] {
		if len(e) > fsm.MaxEntryBytes {
			t.Errorf("an entry of %d bytes", len(e))
		}
	}
	if n := w.logged() - before; n < 10 || n > 25 {
		t.Errorf("%d entries", n)
	}
}

func TestBatchFailures(t *testing.T) {
	noLeader := job.Errorf(job.CodeNoLeader, "no leader")
	unknown := job.Errorf(job.CodeUnknownOutcome, "leadership lost")
	body := batchOf(append([]string{`{"bad":1}`}, repeated(3*chunkTasks, `{"handler":"h","payload":%d}`)...)...)
	failing := func(t *testing.T, errs ...error) (*world, int) {
		w := newWorld(t)
		base := w.asked
		w.refuse = func(n int, _ fsm.Command) error {
			if n -= base; n <= len(errs) {
				return errs[n-1]
			}
			return nil
		}
		return w, base
	}
	codes := func(results []client.BatchResult) map[job.Code]int {
		m := map[job.Code]int{}
		for _, r := range results {
			if r.Error == nil {
				m["ok"]++
			} else {
				m[r.Error.Code]++
			}
		}
		return m
	}
	t.Run("never a leader", func(t *testing.T) {
		w, base := failing(t, noLeader, noLeader, noLeader)
		wantProblem(t, w.do("POST", "/v1/tasks/batch", body), 503, job.CodeNoLeader, "")
		if w.asked-base != 1 {
			t.Errorf("asked %d times", w.asked-base)
		}
	})
	t.Run("leader lost after a part", func(t *testing.T) {
		w, _ := failing(t, nil, noLeader)
		got := codes(expect[client.BatchResponse](w, 200, "POST", "/v1/tasks/batch", body).Results)
		if got["ok"] != chunkTasks || got[job.CodeNoLeader] != 2*chunkTasks || got[job.CodeInvalid] != 1 {
			t.Errorf("got %v", got)
		}
	})
	t.Run("one part unknown", func(t *testing.T) {
		w, _ := failing(t, unknown)
		got := codes(expect[client.BatchResponse](w, 200, "POST", "/v1/tasks/batch", body).Results)
		if got["ok"] != 2*chunkTasks || got[job.CodeUnknownOutcome] != chunkTasks || got[job.CodeInvalid] != 1 {
			t.Errorf("got %v", got)
		}
	})
	t.Run("unknown, then no leader", func(t *testing.T) {
		w, _ := failing(t, unknown, noLeader, noLeader)
		wantProblem(t, w.do("POST", "/v1/tasks/batch", body), 503, job.CodeUnknownOutcome, "")
	})
}
