package api

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestProbes(t *testing.T) {
	w := newWorld(t)
	w.readErr = job.Errorf(job.CodeNoLeader, "no leader")
	for _, path := range []string{"/healthz", "/livez"} {
		if rec := w.do("GET", path, ""); rec.Code != 200 || !strings.Contains(rec.Body.String(), "alive") {
			t.Errorf("%s: %d %s", path, rec.Code, rec.Body)
		}
	}
	if rec := w.do("GET", "/readyz", ""); rec.Code != 200 {
		t.Errorf("ready: %s", rec.Body)
	}
	for _, tt := range []struct {
		err    error
		code   job.Code
		reason string
	}{
		{job.Errorf(job.CodeNoLeader, "knows no leader"), job.CodeNoLeader, "knows no leader"},
		{errors.New("1,200 entries behind"), job.CodeNoLeader, "1,200 entries behind"},
		{job.Errorf(job.CodeTimeout, "no answer"), job.CodeNoLeader, "no answer"},
		{job.Errorf(job.CodeDiskFull, "2 % free"), job.CodeDiskFull, "2 % free"},
	} {
		w.serving = tt.err
		if p := wantProblem(t, w.do("GET", "/readyz", ""), 503, tt.code, ""); !strings.Contains(p.Detail, tt.reason) {
			t.Errorf("%v: detail %q", tt.err, p.Detail)
		}
	}
}

func TestTellsWhoLeads(t *testing.T) {
	w := newWorld(t)
	if rec := w.do("GET", "/v1/workers", ""); rec.Header().Get(client.LeaderHeader) != "" {
		t.Errorf("a server that leads, or can't tell, names %q", rec.Header().Get(client.LeaderHeader))
	}
	w.leaderAddress = "10.0.0.2:7480"
	for _, path := range []string{"/v1/workers", "/v1/tasks/none"} {
		if got := w.do("GET", path, "").Header().Get(client.LeaderHeader); got != w.leaderAddress {
			t.Errorf("%s: %q", path, got)
		}
	}
}

func TestWorkers(t *testing.T) {
	w := newWorld(t)
	a := w.assign(w.submitted(`{`+execTrue+`}`).ID, "w1")
	w.must(fsm.RegisterWorker{Term: 1, Name: "w2", Boot: "b", Address: "10.0.0.2:1", Slots: 2})
	w.must(fsm.RegisterWorker{Term: 1, Name: "w3", Boot: "b", Address: "10.0.0.3:1", Slots: 8})
	w.must(fsm.WorkerState{Term: 1, Name: "w3", Alive: false})
	w.liveness["w2"] = workerLost // gossip's opinion alone
	list := expect[client.WorkerList](w, 200, "GET", "/v1/workers", "").Workers
	if len(list) != 3 {
		t.Fatalf("workers %+v", list)
	}
	if one := list[0]; one.Name != "w1" || one.State != workerAlive || one.Running != 1 || one.Slots != 4 || one.Version != "v1" || one.Address == "" {
		t.Errorf("w1: %+v", one)
	}
	if list[1].State != workerSuspect || list[2].State != workerLost {
		t.Errorf("states %s, %s", list[1].State, list[2].State)
	}
	w.liveness["w3"] = workerStopped // it said goodbye, whatever its lease came to
	if list := expect[client.WorkerList](w, 200, "GET", "/v1/workers", "").Workers; list[2].State != workerStopped {
		t.Errorf("after an orderly stop: %s", list[2].State)
	}
	delete(w.liveness, "w3")
	stats := expect[client.Stats](w, 200, "GET", "/v1/stats", "")
	if stats.Slots != 6 || stats.Busy != 1 || stats.Workers[workerAlive] != 1 || stats.Workers[workerLost] != 1 || stats.Tasks["dispatched"] != 1 {
		t.Errorf("stats %+v", stats)
	}
	if other := expect[client.Stats](w, 200, "GET", "/v1/stats?namespace=other", ""); other.Tasks["dispatched"] != 0 || other.Namespace != "other" {
		t.Errorf("stats of another namespace %+v", other)
	}

	for range 2 { // draining twice is no error
		if got := expect[client.Worker](w, 200, "POST", "/v1/workers/w1/drain", ""); got.State != workerDraining || got.Running != 1 {
			t.Errorf("drained: %+v", got)
		}
	}
	for _, bad := range []string{"0s", "-1s", "169h"} {
		wantProblem(t, w.do("POST", "/v1/workers/w1/drain", `{"deadline": "`+bad+`"}`), 400, job.CodeInvalid, "deadline")
	}
	if got := expect[client.Worker](w, 200, "POST", "/v1/workers/w1/drain", `{"deadline": "10m"}`); !got.Draining || got.DrainDeadline == nil || !got.DrainDeadline.Equal(at(w.now).Add(10*time.Minute)) {
		t.Errorf("drained by a deadline: %+v", got)
	}
	w.liveness["w1"] = workerSuspect // it drains, and cannot be reached
	if got := expect[client.Worker](w, 200, "POST", "/v1/workers/w1/drain", ""); got.State != workerSuspect || !got.Draining || got.DrainDeadline != nil {
		t.Errorf("drained without a deadline again: %+v", got)
	}
	delete(w.liveness, "w1")
	if got := expect[client.Worker](w, 200, "POST", "/v1/workers/w1/resume", "{}"); got.State != workerAlive || got.Draining {
		t.Errorf("resumed: %+v", got)
	}
	wantProblem(t, w.do("POST", "/v1/workers/nope/drain", ""), 404, job.CodeNotFound, "worker")
	if rec := w.do("DELETE", "/v1/workers/w1", ""); rec.Code != http.StatusConflict {
		t.Errorf("forget a busy worker: %d %s", rec.Code, rec.Body)
	}
	if rec := w.do("DELETE", "/v1/workers/w3", ""); rec.Code != http.StatusNoContent || rec.Body.Len() != 0 {
		t.Errorf("forget: %d %s", rec.Code, rec.Body)
	}
	if rec := w.do("DELETE", "/v1/workers/w3", ""); rec.Code != http.StatusNotFound {
		t.Errorf("forget twice: %d", rec.Code)
	}
	w.finish(a, "", "")

	cluster := expect[client.Cluster](w, 200, "GET", "/v1/cluster?namespace=default", "")
	if cluster.Leader != "s1" || len(cluster.Workers) != 2 || cluster.Servers == nil {
		t.Errorf("cluster %+v", cluster)
	}
	w.readErr = job.Errorf(job.CodeNoLeader, "no leader")
	expect[client.Cluster](w, 200, "GET", "/v1/cluster", "") // that is when it is needed
}

func TestJobs(t *testing.T) {
	w := newWorld(t)
	path := "/v1/jobs/report"
	rec := w.do("PUT", path, `{"description":"d","exec":{"command":["a"]},"timeout":"90s","app":"shop"}`)
	created := decoded[client.Job](t, http.StatusCreated, rec)
	if created.Name != "report" || created.Version != 1 || created.CreatedAt == nil || rec.Header().Get("Location") != path {
		t.Errorf("created %+v", created)
	}
	// What GET shows can be put back, and changes nothing.
	shown := w.do("GET", path, "").Body.String()
	if !strings.Contains(shown, `"timeout":"1m30s"`) || !strings.Contains(shown, `"tasks":{`) {
		t.Errorf("shown %s", shown)
	}
	if same := expect[client.Job](w, 200, "PUT", path, shown); same.Version != 1 {
		t.Errorf("put back: %+v", same)
	}
	// A file set is noted beside the definition: no version, and who leaves it out keeps it.
	if set := expect[client.Job](w, 200, "PUT", path, shown[:1]+`"file_set":"shop",`+shown[1:]); set.Version != 1 || set.FileSet != "shop" {
		t.Errorf("file set: %+v", set)
	}
	if same := expect[client.Job](w, 200, "PUT", path, shown); same.Version != 1 || same.FileSet != "shop" {
		t.Errorf("put back without its file set: %+v", same)
	}
	wantProblem(t, w.do("PUT", path, `{"handler":"h","file_set":"no/name"}`), 400, job.CodeInvalid, "file_set")
	w.submitted(`{"job":"report"}`)
	if j := expect[client.Job](w, 200, "GET", path, ""); j.Tasks["pending"] != 1 {
		t.Errorf("counts %v", j.Tasks)
	}
	wantProblem(t, w.do("PUT", path, `{"name":"other","handler":"h"}`), 400, job.CodeInvalid, "name")
	wantProblem(t, w.do("PUT", path, `{"namespace":"other","handler":"h"}`), 400, job.CodeInvalid, "namespace")
	if rec := w.do("DELETE", path, ""); rec.Code != http.StatusConflict {
		t.Errorf("delete a job with a task: %d %s", rec.Code, rec.Body)
	}
	wantProblem(t, w.do("DELETE", "/v1/jobs/nope", ""), 404, job.CodeNotFound, "job")

	// A read that fails after the write doesn't make the write look failed.
	w.readErr = job.Errorf(job.CodeNoLeader, "no leader")
	if got := expect[client.Job](w, 200, "PUT", path, `{"handler":"h"}`); got.Version != 2 || got.Handler != "h" {
		t.Errorf("without a read: %+v", got)
	}
}

func TestMetrics(t *testing.T) {
	w := newWorld(t)
	w.submitted(`{` + execTrue + `}`)
	w.gauges = map[string]float64{"raft_term": 7, "raft_commits_total": 9, "tasks": 1, "Bad name\n": 1}
	w.do("GET", "/nope-1", "")
	w.do("GET", "/nope-2", "")
	w.do("BREW", "/v1/tasks", "")
	w.do("GET", "/v1/tasks/01ARZ3NDEKTSV4RRFFQ69G5FAV", "")
	rec := w.do("GET", "/metrics", "")
	if rec.Code != 200 || !strings.HasPrefix(rec.Header().Get("Content-Type"), "text/plain") {
		t.Fatalf("%d %v %s", rec.Code, rec.Header(), rec.Body)
	}
	text := rec.Body.String()
	for _, line := range []string{
		`axd_tasks{state="pending"} 1`, `axd_tasks{state="success"} 0`, `axd_ready_tasks 0`, `axd_raft_term 7`,
		`# TYPE axd_raft_commits_total counter`, `axd_build_info{version="test"} 1`,
		`axd_http_requests_total{code="201",method="POST",route="/v1/tasks"} 1`,
		`axd_http_requests_total{code="404",method="GET",route="none"} 2`,
		`axd_http_requests_total{code="405",method="other",route="none"} 1`,
		`axd_http_requests_total{code="404",method="GET",route="/v1/tasks/:id"} 1`,
		`axd_http_request_duration_seconds_count{method="POST",route="/v1/tasks"} 1`, `go_goroutines `,
	} {
		if !strings.Contains(text, line) {
			t.Errorf("%s is missing", line)
		}
	}
	if strings.Contains(text, "Bad name") {
		t.Error("a gauge with a bad name is shown")
	}
}
