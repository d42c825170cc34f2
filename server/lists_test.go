package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/notify"
)

const listKey = "a secret of the list's owner"

// listServer answers a list: with 503 at first, then with what it holds, to requests
// that are signed alone.
func listServer(t *testing.T, list string) (url string, asked *atomic.Int32) {
	asked = new(atomic.Int32)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		at, _ := strconv.ParseInt(r.Header.Get(notify.HeaderTimestamp), 10, 64)
		signed := notify.Sign([][]byte{[]byte(listKey)}, r.Header.Get(notify.HeaderID), at, nil)
		_, wrong := job.ParseTime(r.Header.Get("Axd-Nominal-Time"))
		if r.Method != http.MethodGet || r.Header.Get(notify.HeaderSignature) != signed || r.Header.Get("Axd-Schedule") != "default/nightly" || wrong != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(list))
	}))
	t.Cleanup(h.Close)
	return h.URL, asked
}

// listedBy waits until the list of a schedule's newest fire is no longer owed.
func listedBy(ctx context.Context, t *testing.T, c *client.Client, schedule string) client.ComparedList {
	t.Helper()
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		fires, err := c.Fires(ctx, schedule, client.FireFilter{}, 1, "")
		if err != nil {
			t.Fatal(err)
		}
		if len(fires.Fires) == 1 && fires.Fires[0].List != nil && fires.Fires[0].List.State != "owed" {
			return *fires.Fires[0].List
		}
	}
	t.Fatal("the list is owed still")
	return client.ComparedList{}
}

// A schedule fetches a list, again where that failed, submits what is missing and
// replays what failed; what came of it is kept with its fire.
func TestAScheduleComparesAList(t *testing.T) {
	gossip := freeAddress(t)
	n := start(t, Config{
		Name: "s1", DataDir: t.TempDir(), Gossip: gossip, CallbackAllow: allowLoopback, SecretKeyFile: keyFile(t, 1),
	})
	n.await(t)
	startFlaky(t, "w1", []string{gossip})
	c := clientOf(t, n)
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	failed := client.SubmitRequest{Executor: job.Executor{Handler: "flaky"}, Payload: []byte("1"), IdempotencyKey: "failed"}
	failed.Retry = &job.Retry{MaxRetries: new(0)}
	wait(t, c, submitWith(t, c, failed).ID, "failed")
	done := submitWith(t, c, client.SubmitRequest{Executor: job.Executor{Handler: "flaky"}, Payload: []byte("0"), IdempotencyKey: "done"})
	wait(t, c, done.ID, "success")

	if _, err := c.PutSecret(ctx, "lists", client.SecretRequest{Value: listKey}); err != nil {
		t.Fatal(err)
	}
	url, asked := listServer(t, `{"tasks": [{"idempotency_key": "failed", "state": "success"}, {"idempotency_key": "done", "state": "success"},
		{"idempotency_key": "new", "task": {"handler": "flaky", "payload": 0}}, {"idempotency_key": "", "state": "open"}]}`)
	spec := job.ScheduleSpec{ReconcileURL: url, ReconcileSecret: "lists", ReconcileReplay: true}
	if _, err := c.PutSchedule(ctx, "nightly", spec); err != nil {
		t.Fatal(err)
	}
	if f, err := c.TriggerSchedule(ctx, "nightly", client.TriggerRequest{}); err != nil || f.List == nil || f.List.State != "owed" {
		t.Fatalf("triggered: %+v, %v", f, err)
	}
	got := listedBy(ctx, t, c, "nightly")
	if got.State != "done" || got.Tries != 2 || got.Same != 1 || got.Differs != 1 || got.Missing != 1 || got.Submitted != 1 || got.Replayed != 1 ||
		got.Wrong != 1 || got.LastStatus != 200 || asked.Load() != 2 {
		t.Fatalf("%+v, asked %d times", got, asked.Load())
	}
	if d := got.Differences; len(d) != 3 || d[0].IdempotencyKey != "failed" || !d[0].Replayed || d[0].Believed != "success" || d[0].State != "failed" ||
		!d[1].Submitted || d[1].Verdict != "missing" || d[1].ID == "" || !strings.Contains(d[2].Error, "idempotency_key") {
		t.Errorf("differences %+v", d)
	}
	for _, d := range got.Differences[:2] {
		wait(t, c, d.ID, "success")
	}
	if _, err := c.TriggerSchedule(ctx, "nightly", client.TriggerRequest{}); err != nil {
		t.Fatal(err)
	}
	if got := listedBy(ctx, t, c, "nightly"); got.Same != 3 || got.Differs+got.Missing+got.Replayed+got.Submitted != 0 {
		t.Errorf("once more: %+v", got)
	}
	records, err := c.Audit(ctx, client.AuditFilter{Verb: "replay"}, 10, "")
	if err != nil || len(records.Records) != 1 || records.Records[0].Actor != "schedule nightly" {
		t.Errorf("the record of the replay: %+v, %v", records, err)
	}
}

// A server doesn't fetch from its own neighbours unless the operator says so, and the
// fire tells why.
func TestAListOfAnInnerAddressIsRefused(t *testing.T) {
	n := start(t, Config{Name: "s1", DataDir: t.TempDir(), Gossip: freeAddress(t)})
	n.await(t)
	c := clientOf(t, n)
	url, asked := listServer(t, `{"tasks": []}`)
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if _, err := c.PutSchedule(ctx, "s", job.ScheduleSpec{ReconcileURL: url}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.TriggerSchedule(ctx, "s", client.TriggerRequest{}); err != nil {
		t.Fatal(err)
	}
	for {
		fires, err := c.Fires(ctx, "s", client.FireFilter{}, 1, "")
		if err != nil {
			t.Fatal(err)
		}
		if l := fires.Fires[0].List; l.Tries > 0 {
			if l.State != "owed" || l.NextTry == nil || !strings.Contains(l.LastError, "is a loopback address") || asked.Load() != 0 {
				t.Errorf("%+v, asked %d times", l, asked.Load())
			}
			break
		}
	}
}
