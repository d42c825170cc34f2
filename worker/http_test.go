package worker

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/axd-project/axd/cluster"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
)

// webBench is a worker and a web server that it calls.
type webBench struct {
	server   *httptest.Server
	run      func(job.HTTP, func(*rpc.DispatchItem)) (rpc.DispatchItem, finish)
	requests chan *http.Request
	bodies   chan string
}

func none(*rpc.DispatchItem) {}

func newWebBench(t *testing.T) webBench {
	t.Helper()
	requests := make(chan *http.Request, 16)
	bodies := make(chan string, 16)
	mux := http.NewServeMux()
	mux.HandleFunc("/status/{code}", func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		requests <- r
		bodies <- string(b)
		code := 0
		for _, c := range r.PathValue("code") {
			code = code*10 + int(c-'0')
		}
		w.Header().Set("Location", "/status/200")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, strings.Repeat("x", 5000)+"end")
	})
	mux.HandleFunc("/hang", func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body) // or the server would not notice that the client is gone
		<-r.Context().Done()
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	l := newLeader(t)
	startWorker(t, l, withExec(t.TempDir()))
	run := func(x job.HTTP, change func(*rpc.DispatchItem)) (rpc.DispatchItem, finish) {
		x.URL = server.URL + x.URL
		item := l.item(job.Executor{HTTP: &x}, change)
		l.dispatch(item)
		return item, receive(t, l.finished, patience)
	}
	return webBench{server, run, requests, bodies}
}

func TestHTTPRequest(t *testing.T) {
	t.Parallel()
	b := newWebBench(t)
	item, f := b.run(job.HTTP{URL: "/status/200", Headers: map[string]string{"X-Mine": "1", "Axd-Fencing-Token": "forged", "Host": "example"}}, none)
	r, body := <-b.requests, <-b.bodies
	if job.Outcome(f.Outcome) != job.OutcomeSuccess || *f.ExitCode != 200 || len(f.Stdout) != rpc.MaxTailBytes || !strings.HasSuffix(string(f.Stdout), "xend") {
		t.Errorf("got %+v", f)
	}
	id := job.ID(item.Ref.ID).String()
	if r.Method != "POST" || body != `{"a":1}` || r.Host != "example" {
		t.Errorf("got %s %s to %s", r.Method, body, r.Host)
	}
	for key, want := range map[string]string{
		"Axd-Task-Id": id, "Idempotency-Key": id, "Axd-Attempt": "1", "Axd-Fencing-Token": tokenOf(item.Ref).String(),
		"X-Mine": "1", "Content-Type": "application/json", "User-Agent": "axd",
	} {
		if got := r.Header.Get(key); got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
}

func TestHTTPOutcomes(t *testing.T) {
	t.Parallel()
	b, g := newWebBench(t), newGauge(t)
	_, f := b.run(job.HTTP{URL: "/status/204", Method: "PUT", Body: "mine"}, none)
	if r, body := <-b.requests, <-b.bodies; job.Outcome(f.Outcome) != job.OutcomeSuccess || r.Method != "PUT" || body != "mine" || r.Header.Get("Content-Type") != "" {
		t.Errorf("got %+v, %s %s", f, r.Method, body)
	}
	_, f = b.run(job.HTTP{URL: "/status/302"}, none)
	if job.Outcome(f.Outcome) != job.OutcomeFailed || *f.ExitCode != 302 || f.Error != "the server answered 302 Found" || len(b.requests) != 1 {
		t.Errorf("got %+v after %d requests", f, len(b.requests))
	}
	_, f = b.run(job.HTTP{URL: "/status/503"}, func(i *rpc.DispatchItem) { i.SuccessCodes = []int{503} })
	if job.Outcome(f.Outcome) != job.OutcomeSuccess {
		t.Errorf("got %+v", f)
	}
	_, f = b.run(job.HTTP{URL: "/hang"}, func(i *rpc.DispatchItem) { i.TimeoutMS = 100 })
	if job.Outcome(f.Outcome) != job.OutcomeTimeout || f.ExitCode != nil || f.Ended-f.Started > g.within(time.Second).Milliseconds() {
		t.Errorf("got %+v", f)
	}
	b.server.Close()
	_, f = b.run(job.HTTP{URL: "/gone"}, none)
	if job.Outcome(f.Outcome) != job.OutcomeFailed || !strings.Contains(f.Error, "connection refused") || f.Class != job.ClassNetwork {
		t.Errorf("got %+v", f)
	}
}

// A worker that is given gossip addresses finds the leader by itself.
func TestFindsTheLeaderByGossip(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	server, err := cluster.Start(cluster.Config{
		Self:   cluster.Member{Role: cluster.RoleServer, Name: "s1", Boot: "b1", RPC: l.addr},
		Bind:   "127.0.0.1:0",
		Logger: testLog(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	self, ok := server.Member(cluster.RoleServer, "s1")
	if !ok {
		t.Fatal("a server that doesn't know itself")
	}
	w := newWorker(t, l, func(c *Config) { c.Servers, c.Join = nil, []string{self.Gossip} })
	end := runWorker(t, w)
	h := receive(t, l.hellos, patience)
	eventually(t, patience, "gossip says the same", func() bool { // the server may answer a member before it knows it
		m, ok := server.Member(cluster.RoleWorker, "w1")
		return ok && m.Slots == 2 && h.Address != "" && h.Address == m.Gossip
	})
	if err := end(); err != nil {
		t.Error(err)
	}
	eventually(t, patience, "it has left", func() bool {
		m, ok := server.Member(cluster.RoleWorker, "w1")
		return !ok || m.Liveness == cluster.Left
	})
}

// A worker with the data of another cluster is refused by gossip, in silence; the
// worker says so, and what to do.
func TestAWorkerOfAnotherClusterSaysSo(t *testing.T) {
	t.Parallel()
	server, err := cluster.Start(cluster.Config{
		Self: cluster.Member{Role: cluster.RoleServer, Name: "s1", Boot: "b1", ClusterID: "theirs"},
		Bind: "127.0.0.1:0", Logger: testLog(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	l := newLeader(t)
	var said lines
	w := newWorker(t, l, func(c *Config) {
		c.DataDir = t.TempDir()
		c.Servers, c.Join, c.Logger = nil, []string{server.Self().Gossip}, slog.New(slog.NewTextHandler(&said, nil))
		own := fmt.Sprintf(`{"format":1,"name":%q,"cluster_id":"ours"}`, c.Name)
		if err := os.WriteFile(filepath.Join(c.DataDir, "worker.json"), []byte(own), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	end := runWorker(t, w)
	eventually(t, patience, "it says so", func() bool {
		s := said.String()
		return strings.Contains(s, "an empty data directory") && strings.Contains(s, "its_cluster=theirs own_cluster=ours")
	})
	if err := end(); err != nil {
		t.Error(err)
	}
}

// lines keeps what is logged.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func TestRunNamesHandlersThatDoNotReturn(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	l := newLeader(t)
	w := newWorker(t, l)
	w.Handle("stuck", func(context.Context, Task) ([]byte, error) {
		<-release
		return nil, nil
	})
	a := &attempt{executor: handler("stuck"), hub: newHub(new(headRoom)), item: l.item(handler("stuck"))}
	a.ctx, a.cancel = context.WithCancelCause(t.Context())
	w.table.accept(a, false)
	done := make(chan struct{})
	if err := w.awaitStopped(done, 50*time.Millisecond); err == nil || !strings.Contains(err.Error(), "handler stuck") {
		t.Errorf("got %v", err)
	}
	close(done)
	if err := w.awaitStopped(done, patience); err != nil {
		t.Error(err)
	}
}
