package server

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/notify"
	"github.com/axd-project/axd/worker"
)

var allowLoopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// hook is a receiver of callbacks.
type hook struct {
	*httptest.Server
	mu   sync.Mutex
	down bool
	got  map[string][]job.CallbackBody // by task
	ids  map[string]int                // by webhook-id, refused ones too
}

func newHook(t *testing.T) *hook {
	h := &hook{got: map[string][]job.CallbackBody{}, ids: map[string]int{}}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	var body job.CallbackBody
	_ = json.Unmarshal(b, &body)
	h.mu.Lock()
	defer h.mu.Unlock()
	id := r.Header.Get(notify.HeaderID)
	h.ids[id]++
	if h.down || id != body.ID {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	h.got[body.Task] = append(h.got[body.Task], body)
}

// of waits for the callback of a task.
func (h *hook) of(t *testing.T, task string) job.CallbackBody {
	t.Helper()
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		h.mu.Lock()
		got := h.got[task]
		h.mu.Unlock()
		if len(got) > 0 {
			return got[0]
		}
	}
	t.Fatalf("no callback of task %s", task)
	return job.CallbackBody{}
}

func submitWith(t *testing.T, c *client.Client, req client.SubmitRequest) client.Task {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	task, err := c.Submit(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	return task
}

// TestK9_04_WhenIsTheCallbackSent: once per run, at its end, whatever the end; the
// loss of a worker at the last attempt is in the script callbacks of fsm.
func TestK9_04_WhenIsTheCallbackSent(t *testing.T) {
	gossip := freeAddress(t)
	n := start(t, Config{Name: "s1", DataDir: t.TempDir(), Gossip: gossip, CallbackAllow: allowLoopback})
	n.await(t)
	startFlaky(t, "w1", []string{gossip})
	c, h := clientOf(t, n), newHook(t)
	req := func(failures int) client.SubmitRequest {
		none := job.JitterNone
		r := client.SubmitRequest{Executor: job.Executor{Handler: "flaky"}, Payload: []byte(strconv.Itoa(failures))}
		r.Retry = &job.Retry{MaxRetries: new(3), Initial: job.Duration(10 * time.Millisecond), Factor: 1, Jitter: &none}
		r.CallbackURL = h.URL
		return r
	}
	spent, third := submitWith(t, c, req(9)), submitWith(t, c, req(2))
	later := req(0)
	hour := job.Duration(time.Hour)
	later.Delay = &hour
	cancelled := submitWith(t, c, later)
	if _, err := c.Cancel(context.Background(), cancelled.ID, "enough"); err != nil {
		t.Fatal(err)
	}
	quiet := req(0)
	quiet.CallbackOn = []string{"failed"}
	silent := submitWith(t, c, quiet)
	wait(t, c, silent.ID, "success")
	for _, want := range []struct {
		task     client.Task
		state    string
		attempts int
	}{{spent, "failed", 4}, {third, "success", 3}, {cancelled, "cancelled", 0}} {
		got := h.of(t, want.task.ID)
		if got.State != want.state || got.Attempts != want.attempts || got.ExecuteTime.IsZero() || got.Namespace != "default" {
			t.Errorf("want %s after %d attempts: %+v", want.state, want.attempts, got)
		}
		if want.state == "success" && string(got.Output) != `"done"` {
			t.Errorf("output %s", got.Output)
		}
		shown := &client.Callback{}
		for end := time.Now().Add(within); shown.State != "delivered" && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			task, err := c.Task(context.Background(), want.task.ID)
			if err != nil {
				t.Fatal(err)
			}
			shown = task.Callback
		}
		if shown.State != "delivered" || shown.ID != got.ID || shown.LastStatus != 200 || shown.Tries != 1 {
			t.Errorf("shown is %+v", shown)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.ids) != 3 || len(h.got[silent.ID]) != 0 {
		t.Errorf("sent were %v", h.ids)
	}
	for id, n := range h.ids {
		if n != 1 {
			t.Errorf("%s was sent %d times", id, n)
		}
	}
}

// startFlaky runs a worker whose handler fails in as many attempts as its payload says.
func startFlaky(t *testing.T, name string, join []string) {
	t.Helper()
	w, err := worker.New(worker.Config{Name: name, Slots: 8, DataDir: t.TempDir(), Join: join, Logger: testLog(t), DrainTime: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	w.Handle("flaky", func(_ context.Context, task worker.Task) ([]byte, error) {
		if n, _ := strconv.Atoi(string(task.Payload)); task.Attempt <= n {
			return nil, io.ErrUnexpectedEOF
		}
		return []byte(`"done"`), nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("worker %s ended with %v", name, err)
		}
	})
}

// TestANewLeaderSendsWhatIsOwed: what the old one could not deliver the new one does,
// under the same id.
func TestANewLeaderSendsWhatIsOwed(t *testing.T) {
	base := t.TempDir()
	var nodes []*node
	var join []string
	for range 3 {
		join = append(join, freeAddress(t))
	}
	for i, gossip := range join {
		name := "s" + strconv.Itoa(i+1)
		nodes = append(nodes, start(t, Config{
			Name: name, DataDir: base + "/" + name, Gossip: gossip, Join: join, BootstrapExpect: 3, CallbackAllow: allowLoopback,
		}))
	}
	for _, n := range nodes {
		n.await(t)
	}
	h := newHook(t)
	h.down = true
	req := client.SubmitRequest{Executor: job.Executor{Handler: "nobody-offers-this"}}
	req.CallbackURL = h.URL
	c := clientOf(t, nodes...)
	task := submitWith(t, c, req)
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if _, err := c.Cancel(ctx, task.ID, ""); err != nil {
		t.Fatal(err)
	}
	id := task.ID + "-2"
	for b, err := c.Callback(ctx, id); ; b, err = c.Callback(ctx, id) {
		if err != nil {
			t.Fatal(err)
		}
		if b.Tries > 0 {
			break
		}
	}
	leader := slices.IndexFunc(nodes, func(n *node) bool { return n.leading.Load() })
	if leader < 0 {
		t.Fatal("no server leads")
	}
	if err := nodes[leader].stop(); err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	h.down = false
	h.mu.Unlock()
	if got := h.of(t, task.ID); got.ID != id || got.State != "cancelled" {
		t.Errorf("delivered %+v, want %s", got, id)
	}
}

// TestInnerAddressesAreRefused: without the operator's word a callback doesn't reach
// this machine, and says why.
func TestInnerAddressesAreRefused(t *testing.T) {
	n := start(t, Config{Name: "s1", DataDir: t.TempDir(), Gossip: freeAddress(t)})
	n.await(t)
	h, c := newHook(t), clientOf(t, n)
	req := client.SubmitRequest{Executor: job.Executor{Handler: "nobody-offers-this"}}
	req.CallbackURL = h.URL
	task := submitWith(t, c, req)
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if _, err := c.Cancel(ctx, task.ID, ""); err != nil {
		t.Fatal(err)
	}
	for {
		b, err := c.Callback(ctx, task.ID+"-2")
		if err != nil {
			t.Fatal(err)
		}
		if b.Tries > 0 {
			if b.State != "owed" || b.LastStatus != 0 || b.LastError == "" {
				t.Errorf("%+v", b)
			}
			break
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.ids) > 0 {
		t.Error("the request arrived")
	}
}

// newHookOf starts a receiver that takes all, and returns its URL.
func newHookOf(t *testing.T, take func(r *http.Request, body []byte)) string {
	t.Helper()
	h := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		take(r, body)
	}))
	t.Cleanup(h.Close)
	return h.URL
}
