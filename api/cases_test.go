package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// The tests here restate bug reports about other schedulers; each is named
// after its case.

func TestK8_01_PayloadsStayAsSent(t *testing.T) {
	w := newWorld(t)
	for _, payload := range []string{
		`{"a":9007199254740993,"b":3889108265204450030,"c":-9223372036854775808,"d":18446744073709551615,"e":1.0,"f":1e400,"g":0.1,"z":1,"y":2}`,
		`null`, `{}`, `[]`, `""`, `0`, `-0`, `false`, ``,
		"{ \"b\" : 1,\n\t\"a\":\"<\\u003c&\",\"a\":\"\\ud800\" }",
	} {
		member := ""
		if payload != "" {
			member = `,"payload": ` + payload + " "
		}
		single := w.submitted(`{` + execTrue + member + `}`)
		batched := expect[client.BatchResponse](w, 200, "POST", "/v1/tasks/batch", batchOf(`{`+execTrue+member+`}`))
		for _, id := range []string{single.ID, batched.Results[0].ID} {
			rec := w.do("GET", "/v1/tasks/"+id, "")
			shown := decoded[client.Task](t, 200, rec)
			if string(shown.Payload) != payload {
				t.Errorf("shown as %s, want %s", shown.Payload, payload)
			}
			if payload != "" && !strings.Contains(rec.Body.String(), `"payload":`+payload+"}\n") {
				t.Errorf("answer %s", rec.Body)
			}
			err := w.Read(context.Background(), true, func(v fsm.Reader) error {
				task, _ := fsm.GetTask(v, w.ref(id))
				body, _ := fsm.BodyOf(v, &task)
				if string(body.Payload) != payload {
					t.Errorf("the worker gets %q, want %q", body.Payload, payload)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestK8_02_NamesCanBeHandledAfterwards(t *testing.T) {
	w := newWorld(t)
	refused := []string{
		"srv/demo/app", "a b", "@x", "100%", "a?b#c", "..", ".", "-rf", "日報", "café", "cafe\u0301", "💥",
		strings.Repeat("x", 1000), "a\tb", "a\x00b", "a\n", "\xff", "a/", "_x", strings.Repeat("x", job.MaxName+1),
	}
	before := w.logged()
	for _, name := range refused {
		p := wantProblem(t, w.do("PUT", "/v1/jobs/"+url.PathEscape(name), `{"handler":"h"}`), http.StatusBadRequest, job.CodeInvalid, "name")
		if !strings.Contains(p.Detail, "[A-Za-z0-9]") && !strings.Contains(p.Detail, "letter") {
			t.Errorf("%q: the text doesn't tell the allowed form: %s", name, p.Detail)
		}
		for _, method := range []string{"GET", "DELETE"} {
			rec := w.do(method, "/v1/jobs/"+url.PathEscape(name), "")
			if rec.Code < 400 || rec.Code > 499 {
				t.Errorf("%s %q: %d", method, name, rec.Code)
			}
		}
	}
	wantProblem(t, w.do("PUT", "/v1/jobs/", `{"handler":"h"}`), http.StatusNotFound, job.CodeNotFound, "")
	if list := expect[client.JobList](w, 200, "GET", "/v1/jobs", ""); len(list.Jobs) != 0 {
		t.Errorf("created: %+v", list.Jobs)
	}
	if n := w.logged() - before; n > len(refused) { // the deletions may reach it, no creation
		t.Errorf("%d entries", n)
	}
	for _, name := range []string{"a", "0", "A-b_c.d", "batch", strings.Repeat("x", job.MaxName), "a..b"} {
		path := "/v1/jobs/" + url.PathEscape(name)
		expect[client.Job](w, 201, "PUT", path, `{"handler":"h"}`)
		if j := expect[client.Job](w, 200, "GET", path, ""); j.Name != name {
			t.Errorf("shown as %q", j.Name)
		}
		task := w.submitted(`{"job":"` + name + `"}`)
		expect[client.Task](w, 200, "POST", "/v1/tasks/"+task.ID+"/cancel", "")
		if v := expect[client.Job](w, 200, "PUT", path, `{"handler":"h2"}`).Version; v != 2 {
			t.Errorf("%q: version %d", name, v)
		}
		if rec := w.do("DELETE", path, ""); rec.Code != http.StatusNoContent {
			t.Errorf("delete %q: %s", name, rec.Body)
		}
		wantProblem(t, w.do("GET", path, ""), 404, job.CodeNotFound, "name")
	}
}

func TestK8_03_PayloadTooLarge(t *testing.T) {
	w := newWorld(t)
	ofSize := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
	for _, n := range []int{job.MaxPayload - 1, job.MaxPayload} {
		task := w.submitted(`{` + execTrue + `,"payload":` + ofSize(n) + `}`)
		if got := expect[client.Task](w, 200, "GET", "/v1/tasks/"+task.ID, ""); string(got.Payload) != ofSize(n) {
			t.Errorf("%d bytes came back as %d", n, len(got.Payload))
		}
	}
	before := w.logged()
	for body, numbers := range map[string][]string{
		`{` + execTrue + `,"payload":` + ofSize(job.MaxPayload+1) + `}`: {"262144", "262145"},
		`{` + execTrue + `,"payload":` + ofSize(20<<20) + `}`:           {"1048576", fmt.Sprint(20<<20 + len(`{`+execTrue+`,"payload":}`))},
	} {
		p := decoded[client.Problem](t, http.StatusRequestEntityTooLarge, w.do("POST", "/v1/tasks", body))
		for _, n := range numbers {
			if !strings.Contains(p.Detail, n) {
				t.Errorf("%q lacks %s", p.Detail, n)
			}
		}
	}
	deep := `{` + execTrue + `,"payload":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`
	wantProblem(t, w.do("POST", "/v1/tasks", deep), 400, job.CodeInvalid, "body")
	many := w.do("POST", "/v1/tasks/batch", batchOf(repeated(100_000, `{"job":"a","payload":%d}`)...))
	if p := wantProblem(t, many, http.StatusRequestEntityTooLarge, job.CodeTooLarge, "tasks"); !strings.Contains(p.Detail, "100000") {
		t.Errorf("detail %q", p.Detail)
	}
	if w.logged() != before {
		t.Error("something reached the log")
	}
	w.submitted(`{` + execTrue + `}`)
}

func TestK9_02_PlusInATimeParameter(t *testing.T) {
	w := newWorld(t)
	one := int64(1774746000_000) // 2026-03-29T01:00:00Z
	for param, want := range map[string]int64{
		"2026-03-29T03:00:00+02:00":          one,
		"2026-03-29T03:00:00%2B02:00":        one,
		"1774746000":                         one,
		"2026-03-28T20:00:00-05:00":          one,
		"2026-03-29T01:00:00Z":               one,
		"2026-03-29T03:00:00.123456789Z":     one + 2*3600_000 + 124,
		"2026-03-29T03:00:00.5+02:00":        one + 500,
		"0":                                  1,
		"1970-01-01T00:00:00Z":               1,
		"1969-12-31T23:59:59Z":               -1,
		"9999-12-31T23:59:59Z":               job.MaxTime - 999,
		"2026-03-29T02:30:00":                -1,
		"2026-02-30T00:00:00Z":               -1,
		"2026-03-29":                         -1,
		"2026-03-29T03:00:00%2002:00+":       -1,
		"2026-03-29+03:00:00Z":               -1,
		"":                                   -1,
		"-1":                                 -1,
		"1774746000.5":                       -1,
		"99999999999":                        99999999999_000,
		"253402300800":                       -1,
		"9999999999999999999999999999999999": -1,
	} {
		q, err := parseQuery("from="+param, true, listParams)
		if err != nil {
			t.Fatal(err)
		}
		got, err := q.time("from")
		switch {
		case want < 0:
			if err == nil || err.Field != "from" {
				t.Errorf("%s: taken as %d (%v)", param, got, err)
			}
			wantProblem(t, w.do("GET", "/v1/tasks?from="+param, ""), 400, job.CodeInvalid, "from")
		case err != nil || got != want:
			t.Errorf("%s: %d, want %d (%v)", param, got, want, err)
		}
	}
	if p := wantProblem(t, w.do("GET", "/v1/tasks?from=2026-03-29T03:00:00+2:00", ""), 400, job.CodeInvalid, "from"); !strings.Contains(p.Detail, "%2B") {
		t.Errorf("detail %q", p.Detail)
	}
}

func TestK9_03_PagesNeitherOverlapNorLose(t *testing.T) {
	w := newWorld(t)
	for i := range 120 {
		expect[client.Job](w, 201, "PUT", fmt.Sprintf("/v1/jobs/job-%03d", i), `{"handler":"h"}`)
	}
	for i := range 4 {
		w.do("DELETE", fmt.Sprintf("/v1/jobs/job-%03d", 20*i), "")
	}
	seen := map[string]int{}
	for path := "/v1/jobs?limit=2"; path != ""; {
		list := expect[client.JobList](w, 200, "GET", path, "")
		if len(list.Jobs) != 2 {
			t.Errorf("%s: %d jobs", path, len(list.Jobs))
		}
		for _, j := range list.Jobs {
			seen[j.Name]++
		}
		if path = ""; list.NextCursor != "" {
			path = "/v1/jobs?limit=2&cursor=" + url.QueryEscape(list.NextCursor)
		}
	}
	wantOnce(t, seen, 116)
	if n := len(expect[client.JobList](w, 200, "GET", "/v1/jobs?limit=1000", "").Jobs); n != 116 {
		t.Errorf("the largest limit gives %d", n)
	}
	for _, limit := range []string{"0", "-1", "1001", "5000", "100000000000000000000", "+5"} {
		wantProblem(t, w.do("GET", "/v1/jobs?limit="+url.QueryEscape(limit), ""), 400, job.CodeInvalid, "limit")
	}

	// Tasks due at one time, read while others arrive.
	ids := map[string]int{}
	for range 250 {
		ids[w.submitted(`{`+execTrue+`,"execute_time":"2026-04-01T00:00:00Z"}`).ID] = 0
	}
	for path := "/v1/tasks?limit=100"; path != ""; {
		list := expect[client.TaskList](w, 200, "GET", path, "")
		for _, task := range list.Tasks {
			if _, old := ids[task.ID]; old {
				ids[task.ID]++
			}
		}
		w.submitted(`{` + execTrue + `,"execute_time":"2026-04-01T00:00:00Z"}`)
		if path = ""; list.NextCursor != "" {
			path = "/v1/tasks?limit=100&cursor=" + url.QueryEscape(list.NextCursor)
		}
	}
	wantOnce(t, ids, 250)
}

func wantOnce(t *testing.T, seen map[string]int, total int) {
	t.Helper()
	if len(seen) != total {
		t.Errorf("%d in all, want %d", len(seen), total)
	}
	for name, n := range seen {
		if n != 1 {
			t.Errorf("%s came %d times", name, n)
		}
	}
}
