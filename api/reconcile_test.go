package api

import (
	"strings"
	"testing"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

func (w *world) reconcile(body string) client.ReconcileResponse {
	w.t.Helper()
	return expect[client.ReconcileResponse](w, 200, "POST", "/v1/reconcile", body)
}

func TestReconcileTellsTheDifferences(t *testing.T) {
	w := newWorld(t)
	done := w.submitted(`{` + execTrue + `,"idempotency_key":"done"}`)
	failed := w.submitted(`{` + execTrue + `,"idempotency_key":"failed","retry":{"max_retries":0}}`)
	w.submitted(`{` + execTrue + `,"idempotency_key":"open","delay":"1h"}`)
	w.must(fsm.Finished{AttemptRef: w.assign(done.ID, "w1"), Result: fsm.AttemptResult{Outcome: job.OutcomeSuccess}})
	w.must(fsm.Finished{AttemptRef: w.assign(failed.ID, "w1"), Result: fsm.AttemptResult{Outcome: job.OutcomeFailed}})
	before := w.logged()
	out := w.reconcile(`{"tasks":[{"idempotency_key":"done","state":"success"},{"idempotency_key":"failed","state":"success"},
		{"idempotency_key":"open","state":"open"},{"idempotency_key":"done","state":"open"},{"idempotency_key":"failed"},
		{"idempotency_key":"nobody","task":{` + execTrue + `}},{"idempotency_key":"done","state":"fine"},{"idempotency_key":""},
		{"idempotency_key":"bad","task":{"exec":{}}},{"idempotency_key":"other","task":{` + execTrue + `,"idempotency_key":"x"}}]}`)
	var verdicts []string
	for _, r := range out.Results {
		if r.Error != nil {
			verdicts = append(verdicts, r.Error.Field)
			continue
		}
		verdicts = append(verdicts, r.Verdict+" "+r.State)
	}
	want := "same success|differs failed|same scheduled|differs success|same failed|missing |tasks[6].state|tasks[7].idempotency_key|" +
		"tasks[8].task.exec.command|tasks[9].task.idempotency_key"
	if got := strings.Join(verdicts, "|"); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if out.Same != 3 || out.Differs != 2 || out.Missing != 1 || out.Submitted != 0 || out.Results[1].ID != failed.ID || w.logged() != before {
		t.Errorf("%+v", out)
	}
	// A key is known as long as its task, also after its window.
	w.advance(48 * 3600_000)
	if out := w.reconcile(`{"tasks":[{"idempotency_key":"done","state":"success"}],"replay":true}`); out.Same != 1 {
		t.Errorf("%+v", out)
	}
}

func TestReconcileSubmitsWhatIsMissing(t *testing.T) {
	w := newWorld(t)
	there := w.submitted(`{` + execTrue + `,"idempotency_key":"k1"}`)
	body := `{"tasks":[{"idempotency_key":"k1","task":{` + execTrue + `}},{"idempotency_key":"k2","task":{` + execTrue + `,"delay":"1h"}},
		{"idempotency_key":"k3"},{"idempotency_key":"k4","task":{"job":"nope"}}],"replay":true}`
	out := w.reconcile(body)
	r := out.Results
	if out.Submitted != 1 || out.Missing != 3 || r[0].ID != there.ID || !r[1].Submitted || r[1].ID == "" || r[2].Submitted ||
		r[3].Submitted || r[3].Error == nil || r[3].Error.Code != job.CodeNotFound {
		t.Errorf("%+v", out)
	}
	if task := expect[client.Task](w, 200, "GET", "/v1/tasks/"+r[1].ID, ""); task.State != "scheduled" || task.IdempotencyKey != "k2" {
		t.Errorf("%+v", task)
	}
	again := w.reconcile(body)
	if again.Submitted != 0 || again.Same != 2 || again.Results[1].ID != r[1].ID {
		t.Errorf("again: %+v", again)
	}
}

func TestReconcileLimits(t *testing.T) {
	w := newWorld(t)
	wantProblem(t, w.do("POST", "/v1/reconcile", `{"tasks":[]}`), 400, job.CodeInvalid, "tasks")
	many := strings.Repeat(`{"idempotency_key":"a"},`, maxReconcile)
	wantProblem(t, w.do("POST", "/v1/reconcile", `{"tasks":[`+many+`{"idempotency_key":"a"}]}`), 400, job.CodeInvalid, "tasks")
	if out := w.reconcile(`{"tasks":[` + strings.TrimSuffix(many, ",") + `]}`); out.Missing != maxReconcile {
		t.Errorf("%d of %d are missing", out.Missing, maxReconcile)
	}
	w.readErr = job.Errorf(job.CodeNoLeader, "no leader")
	wantProblem(t, w.do("POST", "/v1/reconcile", `{"tasks":[{"idempotency_key":"a"}]}`), 503, job.CodeNoLeader, "")
}

// Two leaders that compare the same list for one fire replay and submit once, also where
// what was replayed has failed again meanwhile.
func TestAListIsReplayedOnce(t *testing.T) {
	w := newWorld(t)
	dead := w.bury(`{`+execTrue+`,"idempotency_key":"dead","retry":{"max_retries":0}}`, "no")
	list := FetchedList{
		Namespace: "default", Schedule: "s", Replay: true, Before: w.Now(),
		Body: []byte(`{"tasks":[{"idempotency_key":"dead","state":"success"},{"idempotency_key":"new","task":{` + execTrue + `}}]}`),
	}
	compare := func() client.ReconcileResponse {
		t.Helper()
		out, _, err := ReconcileList(t.Context(), w, list)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if out := compare(); out.Replayed != 1 || out.Submitted != 1 {
		t.Errorf("the first: %+v", out)
	}
	if out := compare(); out.Replayed+out.Submitted != 0 || out.Same != 1 || out.Differs != 1 {
		t.Errorf("the second: %+v", out)
	}
	w.must(fsm.Finished{AttemptRef: w.assign(dead.ID, "w1"), Result: fsm.AttemptResult{Outcome: job.OutcomeFailed, Error: "no"}})
	if out := compare(); out.Replayed != 0 || out.Differs != 1 || out.Results[0].Error == nil || !strings.Contains(out.Results[0].Error.Detail, "has failed since") {
		t.Errorf("after it failed again: %+v", out)
	}
	w.advance(1000)
	list.Before = w.Now() // of the next fire
	if out := compare(); out.Replayed != 1 {
		t.Errorf("the next fire: %+v", out)
	}
	for body, field := range map[string]string{`{"tasks":[],"replay":true}`: "replay", `[]`: "", `{"tasks":1}`: "tasks"} {
		list.Body = []byte(body)
		if _, _, err := ReconcileList(t.Context(), w, list); job.AsError(err).Code != job.CodeInvalid || job.AsError(err).Field != field {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestReconcileReplaysWhatFailed(t *testing.T) {
	w := newWorld(t)
	fail := func(key string, more string) string {
		task := w.submitted(`{` + execTrue + `,"idempotency_key":"` + key + `","retry":{"max_retries":0}` + more + `}`)
		w.must(fsm.Finished{AttemptRef: w.assign(task.ID, "w1"), Result: fsm.AttemptResult{Outcome: job.OutcomeFailed}})
		return task.ID
	}
	dead := fail("dead", "")
	fail("known", "")
	fail("ignored", `,"on_exhausted":"ignore"`)
	body := `{"tasks":[{"idempotency_key":"dead","state":"success"},{"idempotency_key":"dead","state":"open"},
		{"idempotency_key":"known","state":"failed"},{"idempotency_key":"ignored","state":"open"}]`
	if out := w.reconcile(body + `}`); out.Differs != 3 || out.Replayed != 0 {
		t.Errorf("%+v", out)
	}
	out := w.reconcile(body + `,"replay":true}`)
	r := out.Results
	if out.Replayed != 1 || !r[0].Replayed || r[1].Replayed || r[2].Replayed || r[3].Replayed || r[3].Error == nil || r[3].Error.Code != job.CodeConflict {
		t.Errorf("%+v", out)
	}
	if task := expect[client.Task](w, 200, "GET", "/v1/tasks/"+dead, ""); task.State != "waiting" || task.RetryCount != 0 {
		t.Errorf("%+v", task)
	}
	if out := w.reconcile(body + `,"replay":true}`); out.Replayed != 0 {
		t.Errorf("again: %+v", out)
	}
}
