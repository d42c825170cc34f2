package api

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

func TestTaskThroughItsLife(t *testing.T) {
	w := newWorld(t)
	task := w.submitted(`{"exec":{"command":["a"]},"retry":{"max_retries":0}}`)
	path := "/v1/tasks/" + task.ID
	attempt := w.assign(task.ID, "w1")
	shown := expect[client.Task](w, 200, "GET", path, "")
	if shown.State != "dispatched" || shown.Worker != "w1" || shown.WorkerAddress != "10.0.0.9:7481" || shown.Attempt != 1 {
		t.Errorf("dispatched: %+v", shown)
	}
	w.advance(2000)
	w.must(fsm.Started{AttemptRef: attempt, At: startOfTime + 10})
	if running := expect[client.AttemptList](w, 200, "GET", path+"/attempts", "").Attempts; running[0].LateMS != nil {
		t.Errorf("nobody has said yet how late it started, but it is shown as %d ms", *running[0].LateMS)
	}
	code := 3
	w.must(fsm.Finished{AttemptRef: attempt, Result: fsm.AttemptResult{
		Outcome: job.OutcomeFailed, ExitCode: &code, Error: "exit code 3", Started: startOfTime + 10, Ended: startOfTime + 1510,
		Stdout: []byte("a <b>\xff\n"), Stderr: []byte("oops\n"), Output: []byte(`{"n":9007199254740993}`), LateStart: 10,
	}})
	shown = expect[client.Task](w, 200, "GET", path, "")
	if shown.State != "failed" || *shown.ExitCode != 3 || shown.LastError != "exit code 3" || shown.Duration.String() != "1.5s" || shown.FinishedAt == nil {
		t.Errorf("failed: %+v", shown)
	}
	attempts := expect[client.AttemptList](w, 200, "GET", path+"/attempts", "").Attempts
	if len(attempts) != 1 {
		t.Fatalf("attempts %+v", attempts)
	}
	a := attempts[0]
	if a.Number != 1 || a.Outcome != "failed" || a.StdoutTail != "a <b>\ufffd\n" || a.StderrTail != "oops\n" ||
		string(a.Output) != `{"n":9007199254740993}` || *a.LateMS != 10 || a.Token != attempt.Token.String() || a.WorkerAddress == "" {
		t.Errorf("attempt %+v", a)
	}
	list := expect[client.TaskList](w, 200, "GET", "/v1/tasks?state=failed", "").Tasks
	if len(list) != 1 || list[0].WorkerAddress != "10.0.0.9:7481" || list[0].Executor != nil {
		t.Errorf("list %+v", list)
	}
	wantProblem(t, w.do("POST", path+"/reschedule", `{"delay":"1s"}`), 409, job.CodeConflict, "task")
}

// How late an attempt started is in the worker's report, which a lost one never sent.
func TestLostAttemptsLatenessIsNotKnown(t *testing.T) {
	for outcome, known := range map[job.Outcome]bool{0: false, job.OutcomeLost: false, job.OutcomeSuccess: true, job.OutcomeCancelled: true} {
		if a := showAttempt(fsm.Attempt{Started: 5, Outcome: outcome}); (a.LateMS != nil) != known {
			t.Errorf("outcome %v: late_ms is %v", outcome, a.LateMS)
		}
	}
}

func TestShowOutput(t *testing.T) {
	for in, want := range map[string]string{"": "", "{}": "{}", "not json": `"not json"`, "\xff": `"\ufffd"`} {
		if got := string(showOutput([]byte(in))); got != want {
			t.Errorf("%q shown as %s, want %s", in, got, want)
		}
	}
}

func TestCancel(t *testing.T) {
	w := newWorld(t)
	for _, body := range []string{"", "{}", `{"reason":"not needed"}`} {
		task := w.submitted(`{` + execTrue + `,"delay":"1h"}`)
		if got := expect[client.Task](w, 200, "POST", "/v1/tasks/"+task.ID+"/cancel", body); got.State != "cancelled" || got.ID != task.ID {
			t.Errorf("%q: %+v", body, got)
		}
	}
	active := w.submitted(`{` + execTrue + `}`)
	w.assign(active.ID, "w1")
	if got := expect[client.Task](w, 200, "POST", "/v1/tasks/"+active.ID+"/cancel", ""); got.State != "dispatched" || !got.CancelRequested {
		t.Errorf("active: %+v", got)
	}
	before := w.logged()
	wantProblem(t, w.do("POST", "/v1/tasks/"+active.ID+"/cancel", `{"reason":"`+strings.Repeat("x", 1025)+`"}`), 400, job.CodeInvalid, "reason")
	wantProblem(t, w.do("POST", "/v1/tasks/"+active.ID+"/cancel", `{"why":"x"}`), 400, job.CodeInvalid, "why")
	wantProblem(t, w.do("POST", "/v1/tasks/nope/cancel", ""), 404, job.CodeNotFound, "id")
	if w.logged() != before {
		t.Error("something reached the log")
	}
	wantProblem(t, w.do("POST", "/v1/tasks/01ARZ3NDEKTSV4RRFFQ69G5FAV/cancel", ""), 404, job.CodeNotFound, "task")
}

func TestReschedule(t *testing.T) {
	w := newWorld(t)
	task := w.submitted(`{` + execTrue + `,"delay":"1h"}`)
	path := "/v1/tasks/" + task.ID + "/reschedule"
	for _, tt := range []struct {
		body     string
		due      int64
		state    string
		priority string
	}{
		{`{"delay":"2h"}`, startOfTime + 7200_000, "scheduled", "normal"},
		{`{"priority":"low"}`, startOfTime + 7200_000, "scheduled", "low"},
		{`{"execute_time":"2026-03-29T01:00:00Z","priority":"high"}`, startOfTime + 3600_000, "scheduled", "high"},
		{`{"delay":"0s"}`, startOfTime, "waiting", "high"},
		{`{"delay":"1m"}`, startOfTime + 60_000, "scheduled", "high"},
		{`{"execute_time":"1970-01-01T00:00:00Z"}`, startOfTime, "waiting", "high"},
	} {
		got := expect[client.Task](w, 200, "POST", path, tt.body)
		if got.ExecuteTime.UnixMilli() != tt.due || got.State != tt.state || got.Priority != tt.priority {
			t.Errorf("%s: %+v", tt.body, got)
		}
	}
	before := w.logged()
	for body, field := range map[string]string{
		`{}`:                      "execute_time",
		`{"delay":"-1s"}`:         "delay",
		`{"execute_time":"soon"}`: "execute_time",
		`{"priority":"x"}`:        "priority",
		`{"delay":"1s","execute_time":"2026-03-29T01:00:00Z"}`: "delay",
		``: "body",
	} {
		wantProblem(t, w.do("POST", path, body), 400, job.CodeInvalid, field)
	}
	if w.logged() != before {
		t.Error("something reached the log")
	}
}

func TestListFilters(t *testing.T) {
	w := newWorld(t)
	expect[client.Job](w, 201, "PUT", "/v1/jobs/j1", `{"handler":"h","owner":"bob"}`)
	a := w.submitted(`{"job":"j1","app":"shop","delay":"1h"}`)
	if a.App != "shop" || a.Owner != "bob" { // the latter is the job's
		t.Errorf("app %q, owner %q", a.App, a.Owner)
	}
	b := w.submitted(`{` + execTrue + `,"owner":"ann"}`)
	w.advance(60_000)
	c := w.submitted(`{` + execTrue + `}`)
	w.assign(c.ID, "w1")
	for query, want := range map[string][]string{
		"":                             {a.ID, b.ID, c.ID},
		"state=scheduled":              {a.ID},
		"state=waiting":                {b.ID},
		"state=dispatched":             {c.ID},
		"job=j1":                       {a.ID},
		"job=j2":                       {},
		"worker=w1":                    {c.ID},
		"app=shop":                     {a.ID},
		"owner=ann":                    {b.ID},
		"owner=bob":                    {a.ID},
		"from=2026-03-29T00:30:00Z":    {a.ID},
		"to=2026-03-29T00:30:00Z":      {b.ID, c.ID},
		"after=2026-03-29T00:00:30Z":   {c.ID},
		"after=2026-03-28T00:00:00Z":   {a.ID, b.ID, c.ID},
		"after=2027-01-01T00:00:00Z":   {},
		"consistency=stale&limit=1000": {a.ID, b.ID, c.ID},
		"namespace=other":              {},
	} {
		list := expect[client.TaskList](w, 200, "GET", "/v1/tasks?"+query, "")
		got := map[string]bool{}
		for _, task := range list.Tasks {
			got[task.ID] = true
		}
		if len(got) != len(want) || len(list.Tasks) != len(want) || list.Tasks == nil {
			t.Errorf("%s: %d tasks, want %d", query, len(list.Tasks), len(want))
		}
		for _, id := range want {
			if !got[id] {
				t.Errorf("%s: %s is missing", query, id)
			}
		}
	}
}

func TestListCreatedAfterFillsPages(t *testing.T) {
	w := newWorld(t)
	want := map[string]bool{}
	for i := range 30 {
		if i == 20 {
			w.advance(60_000)
		}
		if task := w.submitted(`{` + execTrue + `}`); i >= 20 {
			want[task.ID] = true
		}
	}
	next := "/v1/tasks?limit=4&after=2026-03-29T00:00:30Z"
	for path, page := next, 0; ; page++ {
		list := expect[client.TaskList](w, 200, "GET", path, "")
		for _, task := range list.Tasks {
			if !want[task.ID] {
				t.Errorf("task %s twice or too old", task.ID)
			}
			delete(want, task.ID)
		}
		if list.NextCursor == "" {
			break
		}
		path = next + "&cursor=" + url.QueryEscape(list.NextCursor)
		if len(list.Tasks) != 4 {
			t.Errorf("page %d has %d tasks", page, len(list.Tasks))
		}
	}
	if len(want) != 0 {
		t.Errorf("%d tasks missing", len(want))
	}
}

func TestBadParameters(t *testing.T) {
	w := newWorld(t)
	for query, field := range map[string]string{
		"stat=failed":                "query.stat",
		"State=failed":               "query.State",
		"state=pending":              "state",
		"state=":                     "state",
		"job=":                       "job",
		"cursor=":                    "cursor",
		"cursor=%00%ff":              "cursor",
		"cursor=nonsense":            "cursor",
		"limit=0":                    "limit",
		"limit=-1":                   "limit",
		"limit=1.5":                  "limit",
		"limit=":                     "limit",
		"limit=1&limit=2":            "limit",
		"limit=%EF%BC%91":            "limit",
		"from=yesterday":             "from",
		"to=2026-03-29T02:30:00":     "to",
		"after=99999999999999999999": "after",
		"from=20&to=10":              "to",
		"namespace=":                 "namespace",
		"namespace=a/b":              "namespace",
		"consistency=weak":           "consistency",
		"consistency=":               "consistency",
		"job=%ff":                    "job",
		"job=%zz":                    "query",
		"a;b":                        "query",
	} {
		t.Run(query, func(t *testing.T) {
			wantProblem(t, w.do("GET", "/v1/tasks?"+query, ""), http.StatusBadRequest, job.CodeInvalid, field)
		})
	}
	// A write takes no parameter of a read.
	wantProblem(t, w.do("POST", "/v1/tasks?consistency=stale", `{`+execTrue+`}`), 400, job.CodeInvalid, "query.consistency")
}

func TestConsistency(t *testing.T) {
	w := newWorld(t)
	w.stale = nil
	w.do("GET", "/v1/tasks", "")
	w.do("GET", "/v1/tasks?consistency=linearizable", "")
	w.do("GET", "/v1/tasks?consistency=stale", "")
	if len(w.stale) != 3 || w.stale[0] || w.stale[1] || !w.stale[2] {
		t.Errorf("stale reads: %v", w.stale)
	}
	w.readErr = job.Errorf(job.CodeNoLeader, "no leader")
	wantProblem(t, w.do("GET", "/v1/tasks", ""), 503, job.CodeNoLeader, "")
	expect[client.TaskList](w, 200, "GET", "/v1/tasks?consistency=stale", "")
}
