package api

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

func (w *world) explain(id string) client.Explanation {
	w.t.Helper()
	e := expect[client.Explanation](w, 200, "GET", "/v1/tasks/"+id+"/explain", "")
	for _, r := range e.Reasons {
		if r.Code == "" || r.Text == "" || strings.Contains(r.Next, "$") {
			w.t.Errorf("incomplete: %+v", r)
		}
	}
	return e
}

// codesOf lists the codes in order.
func codesOf(e client.Explanation) string {
	var out []string
	for _, r := range e.Reasons {
		out = append(out, r.Code)
	}
	return strings.Join(out, " ")
}

func (w *world) leaderSays(id string, reasons ...job.Reason) {
	w.t.Helper()
	w.explained = Explained{Version: w.version(id), Reasons: reasons}
}

func (w *world) version(id string) (v uint64) {
	w.t.Helper()
	err := w.Read(w.t.Context(), true, func(r fsm.Reader) error {
		t, _ := fsm.GetTask(r, w.ref(id))
		v = t.Version
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

func TestExplainInTheOrderOfWhatBlocksFirst(t *testing.T) {
	w := newWorld(t)
	expect[client.Job](w, 201, "PUT", "/v1/jobs/j1", `{"handler":"h","app":"shop","owner":"bob"}`)
	task := w.submitted(`{"job":"j1","delay":"1h","owner":"ann"}`)
	w.leaderSays(task.ID, job.Reason{Code: job.ReasonDiskFull, Text: "x"}, job.Reason{Code: job.ReasonNoSlot, Text: "y", Slots: 4},
		job.Reason{Code: "of_a_newer_server", Text: "z"}, job.Reason{Code: job.ReasonNoMatch, Text: "n", Unmet: []job.Unmet{{Constraint: "offer h", Workers: 2}}})
	e := w.explain(task.ID)
	if got := codesOf(e); got != "not_due no_match no_slot disk_full of_a_newer_server" {
		t.Errorf("reasons %s", got)
	}
	if e.State != "scheduled" || e.App != "shop" || e.Owner != "ann" || e.Stale || e.ID != task.ID || e.Job != "j1" {
		t.Errorf("%+v", e)
	}
	if !e.Reasons[0].Until.Equal(*task.ExecuteTime) || !strings.Contains(e.Reasons[0].Next, task.ID) ||
		*e.Reasons[2].Ahead != 0 || e.Reasons[1].Unmet[0] != (client.Unmet{Constraint: "offer h", Workers: 2}) {
		t.Errorf("%+v", e.Reasons)
	}
	wantProblem(t, w.do("GET", "/v1/tasks/01ARZ3NDEKTSV4RRFFQ69G5FAV/explain", ""), 404, job.CodeNotFound, "id")
}

func TestExplainAfterAFailure(t *testing.T) {
	w := newWorld(t)
	task := w.submitted(`{` + execTrue + `,"success_codes":[0,2],"retry":{"max_retries":1}}`)
	code := 3
	failed := fsm.AttemptResult{Outcome: job.OutcomeFailed, ExitCode: &code}
	w.must(fsm.Finished{AttemptRef: w.assign(task.ID, "w1"), Result: failed})
	r := w.explain(task.ID).Reasons[0]
	if r.Code != "retrying" || r.Until == nil || *r.RetriesUsed != 1 || *r.ExitCode != 3 || !strings.Contains(r.Text, "exit code 3") {
		t.Errorf("%+v", r)
	}
	w.advance(600_000)
	w.must(fsm.Finished{AttemptRef: w.assign(task.ID, "w1"), Result: failed})
	e := w.explain(task.ID)
	r = e.Reasons[0]
	if e.State != "failed" || len(e.Reasons) != 1 || r.Code != "retries_spent" || *r.RetriesUsed != 1 || r.Outcome != "failed" || *r.ExitCode != 3 ||
		!strings.Contains(r.Text, "success is 0, 2") || !strings.Contains(r.Text, "1 of 1 retries are spent") {
		t.Errorf("%+v", e)
	}
	once := w.submitted(`{` + execTrue + `,"retry":{"max_retries":0}}`)
	w.must(fsm.Finished{AttemptRef: w.assign(once.ID, "w1"), Result: failed})
	if got := codesOf(w.explain(once.ID)); got != "no_retries" {
		t.Errorf("without retries: %s", got)
	}
	for retries, want := range map[string]string{"0": "Attempt 1 was lost with worker w1: no contact. It asks", "1": "Attempt 1 was lost with worker w1: no contact: retry 1"} {
		lost := w.submitted(`{` + execTrue + `,"retry":{"max_retries":` + retries + `}}`)
		w.must(fsm.Finished{AttemptRef: w.assign(lost.ID, "w1"), Result: fsm.AttemptResult{Outcome: job.OutcomeLost, Error: "no contact"}})
		if r := w.explain(lost.ID).Reasons[0]; !strings.HasPrefix(r.Text, want) {
			t.Errorf("%+v", r)
		}
	}
}

func TestExplainWhatIsNotRetried(t *testing.T) {
	w := newWorld(t)
	code := 3
	for want, result := range map[string]fsm.AttemptResult{
		"retry rule says": {Outcome: job.OutcomeFailed, ExitCode: &code},
		"worker says":     {Outcome: job.OutcomeFailed, Error: "no such customer", RetryMS: -1},
	} {
		task := w.submitted(`{` + execTrue + `,"retry":{"non_retryable":{"exit_codes":[3]}}}`)
		w.must(fsm.Finished{AttemptRef: w.assign(task.ID, "w1"), Result: result})
		if e := w.explain(task.ID); codesOf(e) != "non_retryable" || !strings.Contains(e.Reasons[0].Text, want) {
			t.Errorf("%s: %+v", want, e)
		}
	}
}

func TestExplainEndsAndWishes(t *testing.T) {
	w := newWorld(t)
	good := w.submitted(`{` + execTrue + `}`)
	code := 0
	w.must(fsm.Finished{AttemptRef: w.assign(good.ID, "w1"), Result: fsm.AttemptResult{Outcome: job.OutcomeSuccess, ExitCode: &code}})
	if e := w.explain(good.ID); codesOf(e) != "succeeded" || e.Reasons[0].Outcome != "success" || !strings.Contains(e.Reasons[0].Text, "exit code 0") {
		t.Errorf("%+v", e)
	}
	never := w.submitted(`{` + execTrue + `,"delay":"1h"}`)
	r := newRequest("POST", "/v1/tasks/"+never.ID+"/cancel", `{"reason":"wrong file"}`)
	r.Header.Set(client.ActorHeader, "ann")
	w.serve(r)
	if e := w.explain(never.ID); codesOf(e) != "cancelled" || e.Reasons[0].Text != "Cancelled by ann: wrong file. It never started." {
		t.Errorf("%+v", e)
	}
	tried := w.submitted(`{` + execTrue + `}`)
	w.must(fsm.Finished{AttemptRef: w.assign(tried.ID, "w1"), Result: fsm.AttemptResult{Outcome: job.OutcomeFailed, Error: "no luck"}})
	w.advance(1)
	w.do("POST", "/v1/tasks/"+tried.ID+"/cancel", "")
	if e := w.explain(tried.ID); e.Reasons[0].Text != "Cancelled. Attempt 1 had ended before; no other starts." {
		t.Errorf("%+v", e)
	}
	for want, result := range map[string]fsm.AttemptResult{
		"Cancelled. Attempt 1 was ended for it on worker w1.":             {Outcome: job.OutcomeCancelled, Started: startOfTime},
		"Cancelled. It never started.":                                    {Outcome: job.OutcomeCancelled},
		"Cancelled. Attempt 1 ended meanwhile (failed); no other starts.": {Outcome: job.OutcomeFailed, Started: startOfTime},
	} {
		running := w.submitted(`{` + execTrue + `}`)
		ended := w.assign(running.ID, "w1")
		w.do("POST", "/v1/tasks/"+running.ID+"/cancel", "")
		w.must(fsm.Finished{AttemptRef: ended, Result: result})
		if e := w.explain(running.ID); e.Reasons[0].Text != want {
			t.Errorf("%+v, want %s", e, want)
		}
	}
	armed := w.submitted(`{` + execTrue + `,"delay":"2s"}`)
	attempt := w.assign(armed.ID, "w1")
	w.do("POST", "/v1/tasks/"+armed.ID+"/reschedule", `{"delay":"1h"}`)
	if e := w.explain(armed.ID); codesOf(e) != "reschedule_requested" {
		t.Errorf("%+v", e)
	}
	w.advance(2000)
	w.must(fsm.Started{AttemptRef: attempt, At: startOfTime + 2000})
	w.do("POST", "/v1/tasks/"+armed.ID+"/cancel", "")
	w.leaderSays(armed.ID, job.Reason{Code: job.ReasonWorkerSuspect, Text: "x"})
	if e := w.explain(armed.ID); codesOf(e) != "worker_suspect cancel_requested running reschedule_too_late" {
		t.Errorf("%s", codesOf(e))
	}
}

// An explanation is wanted most where no server leads: it is answered from what
// the asked one has, and says so.
func TestExplainWithoutALeader(t *testing.T) {
	w := newWorld(t)
	task := w.submitted(`{` + execTrue + `,"delay":"1h"}`)
	w.readErr = job.Errorf(job.CodeNoLeader, "no leader")
	for code, err := range map[string]error{
		"no_leader not_due":     job.Errorf(job.CodeNoLeader, "no leader"),
		"no_quorum not_due":     NoQuorum("1 of 3 voting servers answer: s2, s3 can't be reached"),
		"leader_silent not_due": errors.New("the connection broke"),
	} {
		w.explainErr = err
		if e := w.explain(task.ID); codesOf(e) != code || !e.Stale {
			t.Errorf("%v: %s", err, codesOf(e))
		}
	}
	w.explainErr = NoQuorum("1 of 3 voting servers answer")
	rec := w.do("GET", "/v1/tasks/01ARZ3NDEKTSV4RRFFQ69G5FAV/explain", "")
	wantProblem(t, rec, http.StatusServiceUnavailable, job.CodeNoLeader, "") // another server may know it
}

func TestExplainTimeouts(t *testing.T) {
	w := newWorld(t)
	task := w.submitted(`{` + execTrue + `,"queue_timeout":"30s","total_timeout":"1h"}`)
	if e := w.explain(task.ID); codesOf(e) != "deadline" || e.Reasons[0].Until.UnixMilli() != startOfTime+30_000 {
		t.Errorf("%+v", e)
	}
	w.advance(31_000)
	w.must(fsm.TimeOut{Term: 1, Tasks: []fsm.TaskVersion{{Ref: w.ref(task.ID), Version: w.version(task.ID)}}})
	if e := w.explain(task.ID); codesOf(e) != "queue_timeout" || !strings.Contains(e.Reasons[0].Text, "never started") {
		t.Errorf("%+v", e)
	}
	again := w.submitted(`{` + execTrue + `,"total_timeout":"1s","timeout":"900ms"}`)
	attempt := w.assign(again.ID, "w1")
	w.must(fsm.Started{AttemptRef: attempt, At: startOfTime + 31_000})
	if e := w.explain(again.ID); codesOf(e) != "running" || e.Reasons[0].Until.UnixMilli() != startOfTime+31_900 {
		t.Errorf("%+v", e)
	}
	w.must(fsm.Finished{AttemptRef: attempt, Result: fsm.AttemptResult{Outcome: job.OutcomeFailed, Error: "no luck"}})
	if e := w.explain(again.ID); codesOf(e) != "total_timeout" || !strings.Contains(e.Reasons[0].Text, "no luck") {
		t.Errorf("%+v", e)
	}
}

func TestExplainWhatADrainEnds(t *testing.T) {
	w := newWorld(t)
	task := w.submitted(`{` + execTrue + `,"timeout":"20s"}`)
	w.must(fsm.Started{AttemptRef: w.assign(task.ID, "w1"), At: startOfTime})
	for deadline, until := range map[job.Duration]int64{job.Duration(10 * time.Second): 10_000, job.Duration(time.Minute): 20_000} {
		w.must(fsm.DrainWorker{Name: "w1", Deadline: deadline})
		e := w.explain(task.ID)
		if drains := strings.Contains(e.Reasons[0].Text, "drains and gives it back"); codesOf(e) != "running" ||
			e.Reasons[0].Until.UnixMilli() != startOfTime+until || drains != (until == 10_000) {
			t.Errorf("%v: %+v", deadline, e)
		}
	}
}

func TestExplainAPausedJob(t *testing.T) {
	w := newWorld(t)
	expect[client.Job](w, 201, "PUT", "/v1/jobs/j1", `{"handler":"h"}`)
	due, later := w.submitted(`{"job":"j1"}`), w.submitted(`{"job":"j1","delay":"1h"}`)
	r := newRequest("POST", "/v1/jobs/j1/pause", `{"reason":"the warehouse moves"}`)
	r.Header.Set(client.ActorHeader, "ann")
	paused := decoded[client.Job](t, 200, w.serve(r))
	if p := paused.Paused; p == nil || p.Reason != "the warehouse moves" || p.Actor != "ann" || paused.Version != 1 {
		t.Errorf("%+v", paused)
	}
	wantProblem(t, w.do("POST", "/v1/jobs/j1/pause", ""), 409, job.CodeConflict, "job")
	wantProblem(t, w.do("POST", "/v1/jobs/j1/pause", `{"reason":"`+strings.Repeat("x", 2000)+`"}`), 413, job.CodeTooLarge, "reason")
	wantProblem(t, w.do("POST", "/v1/jobs/none/pause", ""), 404, job.CodeNotFound, "job")
	e := w.explain(due.ID)
	if one := e.Reasons[0]; codesOf(e) != "paused" || one.Since == nil || !strings.Contains(one.Text, "paused by ann: the warehouse moves") ||
		!strings.Contains(one.Next, "axd job resume j1") {
		t.Errorf("%+v", e)
	}
	if e := w.explain(later.ID); codesOf(e) != "not_due paused" {
		t.Errorf("%+v", e)
	}
	if j := expect[client.Job](w, 200, "PUT", "/v1/jobs/j1", `{"handler":"h2"}`); j.Version != 2 || j.Paused == nil {
		t.Errorf("a new version: %+v", j)
	}
	if j := expect[client.Job](w, 200, "POST", "/v1/jobs/j1/resume", ""); j.Paused != nil {
		t.Errorf("resumed: %+v", j)
	}
	if e := w.explain(due.ID); codesOf(e) != "" {
		t.Errorf("%+v", e)
	}
	wantProblem(t, w.do("POST", "/v1/jobs/j1/resume", ""), 409, job.CodeConflict, "job")
}
