package api

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/store"
)

// startOfTime is the cluster's clock when a test begins: 2026-03-29T00:00:00Z.
const startOfTime int64 = 1774742400000

// oneNode is a cluster of one: the real state machine over the in-memory
// store, without the log between. What only a cluster or a worker can do is
// set by the test.
type oneNode struct {
	operations
	t       testing.TB
	mu      sync.Mutex
	store   *store.Memory
	machine *fsm.Machine
	index   uint64
	now     int64
	entries [][]byte // as they would stand in the log

	refuse  func(n int, c fsm.Command) error // asked before the n-th proposal, from 1 on
	readErr error
	serving error
	noKey   bool

	leaderAddress string

	explained  Explained // by the leader
	explainErr error

	liveness map[string]string
	follow   func(ctx context.Context, send func(client.LogChunk) error) error
	gauges   map[string]float64
	asked    int
	stale    []bool // of each read
}

func (n *oneNode) Propose(ctx context.Context, c fsm.Command) (fsm.Result, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked++
	if n.refuse != nil {
		if err := n.refuse(n.asked, c); err != nil {
			return fsm.Result{}, err
		}
	}
	if err := ctx.Err(); err != nil {
		return fsm.Result{}, err
	}
	encoded, err := fsm.EncodeCommand(c)
	if err != nil {
		return fsm.Result{}, err
	}
	entry, err := fsm.EncodeEntry(fsm.Entry{At: n.now, Commands: [][]byte{encoded}})
	if err != nil {
		return fsm.Result{}, err
	}
	n.index++
	n.entries = append(n.entries, entry)
	tx := n.store.Batch()
	results, _, err := n.machine.Apply(tx, fsm.Meta{Index: n.index, Term: 1}, entry)
	if err != nil {
		tx.Discard()
		return fsm.Result{}, err
	}
	tx.Commit()
	return results[0], nil
}

func (n *oneNode) Read(ctx context.Context, stale bool, fn func(fsm.Reader) error) error {
	n.mu.Lock()
	n.stale = append(n.stale, stale)
	err := n.readErr
	n.mu.Unlock()
	if err != nil && !stale {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	v := n.store.View()
	defer v.Close()
	return fn(v)
}

func (n *oneNode) Now() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.now
}

func (n *oneNode) advance(ms int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.now += ms
}

func (n *oneNode) Cluster(context.Context) (client.Cluster, error) {
	return client.Cluster{ID: "c1", Leader: "s1", Term: 1, Now: at(n.Now())}, nil
}

func (n *oneNode) Liveness(context.Context) func(string) (string, time.Time) {
	return func(worker string) (string, time.Time) { return n.liveness[worker], time.Time{} }
}

// SealSecret seals nothing: a value that it is given has "sealed " before it.
func (n *oneNode) SealSecret(_, _ string, value []byte) ([]byte, error) {
	if n.noKey {
		return nil, job.Errorf(job.CodeUnsupported, "no key")
	}
	return append([]byte("sealed "), value...), nil
}

func (n *oneNode) ReadyTasks() int64 { return 0 }

func (n *oneNode) Follow(ctx context.Context, _ fsm.TaskRef, send func(client.LogChunk) error) error {
	if n.follow == nil { // the worker has no output any more
		return nil
	}
	return n.follow(ctx, send)
}

func (n *oneNode) Explain(context.Context, fsm.TaskRef) (Explained, error) {
	return n.explained, n.explainErr
}

func (n *oneNode) LeaderAddress() string { return n.leaderAddress }

func (n *oneNode) Serving(context.Context) error { return n.serving }

func (n *oneNode) ClockOffsets() map[string]time.Duration {
	return map[string]time.Duration{"s2": 1500 * time.Microsecond}
}

func (n *oneNode) Metrics() map[string]float64 { return n.gauges }

// must applies a command that has to succeed.
func (n *oneNode) must(c fsm.Command) fsm.Result {
	n.t.Helper()
	result, err := n.Propose(context.Background(), c)
	if err != nil {
		n.t.Fatalf("%T: %v", c, err)
	}
	if result.Err != nil {
		n.t.Fatalf("%T: %v", c, result.Err)
	}
	return result
}

// world is an API over oneNode.
type world struct {
	*oneNode
	api *api
}

func newWorld(t testing.TB) *world {
	t.Helper()
	n := &oneNode{t: t, store: store.NewMemory(), machine: fsm.NewMachine(), now: startOfTime, liveness: map[string]string{}}
	n.must(fsm.Configure{ClusterID: "c1", FeatureLevel: 1})
	t.Cleanup(func() {
		v := n.store.View()
		defer v.Close()
		for _, broken := range fsm.Check(v, 10) {
			t.Error("invariant:", broken)
		}
	})
	return &world{n, newAPI(Config{
		Backend: n, Version: "test", AllowedHosts: []string{"axd.example:7480"},
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})}
}

// newRequest is a request as a well-behaved client sends it.
func newRequest(method, target, body string) *http.Request {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Host = "localhost:7480"
	if method == http.MethodPost || method == http.MethodPut {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

func (w *world) do(method, target, body string) *httptest.ResponseRecorder {
	return w.serve(newRequest(method, target, body))
}

func (w *world) serve(r *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	w.api.ServeHTTP(rec, r)
	return rec
}

// expect makes a request, wants a status and decodes the answer.
func expect[T any](w *world, status int, method, target, body string) T {
	w.t.Helper()
	return decoded[T](w.t, status, w.do(method, target, body))
}

func decoded[T any](t testing.TB, status int, rec *httptest.ResponseRecorder) T {
	t.Helper()
	var out T
	if rec.Code != status {
		t.Fatalf("status %d, want %d: %s", rec.Code, status, rec.Body)
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &out); err != nil {
		t.Fatalf("answer %q: %v", rec.Body, err)
	}
	return out
}

// wantProblem wants an answer to be a whole problem document.
func wantProblem(t testing.TB, rec *httptest.ResponseRecorder, status int, code job.Code, field string) client.Problem {
	t.Helper()
	p := decoded[client.Problem](t, status, rec)
	if p.Code != code || p.Field != field {
		t.Fatalf("code %q field %q, want %q %q: %s", p.Code, p.Field, code, field, rec.Body)
	}
	if media := rec.Header().Get("Content-Type"); media != "application/problem+json" {
		t.Errorf("Content-Type %q", media)
	}
	if p.Status != status || p.Type == "" || p.Title == "" || p.Detail == "" {
		t.Errorf("incomplete problem: %s", rec.Body)
	}
	if (status == 429 || status == 503) && rec.Header().Get("Retry-After") == "" {
		t.Errorf("no Retry-After: %s", rec.Body)
	}
	return p
}

// logged tells how many entries the log has got since it was asked first.
func (w *world) logged() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.entries)
}

const execTrue = `"exec":{"command":["true"]}`

// submitted submits a task that has to be created.
func (w *world) submitted(body string) client.Task {
	w.t.Helper()
	return expect[client.Task](w, http.StatusCreated, "POST", "/v1/tasks", body)
}

func (w *world) ref(id string) fsm.TaskRef {
	w.t.Helper()
	parsed, err := job.ParseID(id)
	if err != nil {
		w.t.Fatal(err)
	}
	return fsm.TaskRef{Namespace: job.DefaultNamespace, ID: parsed}
}

// assign dispatches a task to a worker that it registers, and returns the token.
func (w *world) assign(id, worker string) fsm.AttemptRef {
	w.t.Helper()
	w.must(fsm.RegisterWorker{Term: 1, Name: worker, Boot: "b1", Address: "10.0.0.9:7481", Slots: 4, Version: "v1"})
	ref := w.ref(id)
	var task fsm.Task
	if err := w.Read(context.Background(), true, func(v fsm.Reader) error { task, _ = fsm.GetTask(v, ref); return nil }); err != nil {
		w.t.Fatal(err)
	}
	result := w.must(fsm.Assign{Term: 1, Items: []fsm.AssignItem{{Ref: ref, Version: task.Version, Worker: worker, Boot: "b1"}}})
	if err := result.Assigned[0].Err; err != nil {
		w.t.Fatal(err)
	}
	return fsm.AttemptRef{Ref: ref, Token: result.Assigned[0].Token}
}
