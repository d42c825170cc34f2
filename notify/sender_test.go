package notify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// memOutbox is an outbox in memory: what fails is due again after retry.
type memOutbox struct {
	mu     sync.Mutex
	owed   map[string]*owedRow
	retry  time.Duration
	refuse int // of the next Settles, how many fail
	ok     []string
}

type owedRow struct {
	d      Delivery
	target string
	due    time.Time
	since  time.Time
}

func (b *memOutbox) add(id, host string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.owed == nil {
		b.owed = map[string]*owedRow{}
	}
	b.owed[id] = &owedRow{Delivery{ID: id, URL: "http://" + host + "/", Body: []byte("{}")}, host, time.Now(), time.Now()}
}

func (b *memOutbox) rows(target string) []*owedRow {
	var rows []*owedRow
	for _, r := range b.owed {
		if target == "" || r.target == target {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(x, y *owedRow) int { return cmp.Or(x.due.Compare(y.due), strings.Compare(x.d.ID, y.d.ID)) })
	return rows
}

func (b *memOutbox) Targets(after string, limit int) []Target {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := map[string]int64{}
	for _, r := range b.rows("") {
		if _, ok := first[r.target]; !ok && r.target > after {
			first[r.target] = r.due.UnixMilli()
		}
	}
	var out []Target
	for name, due := range first {
		out = append(out, Target{name, due})
	}
	slices.SortFunc(out, func(x, y Target) int { return strings.Compare(x.Name, y.Name) })
	return out[:min(limit, len(out))]
}

func (b *memOutbox) Due(target string, limit int) (list []Delivery, next int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.rows(target) {
		if len(list) == limit || r.due.After(time.Now()) {
			return list, r.due.UnixMilli()
		}
		list = append(list, r.d)
	}
	return list, 0
}

func (b *memOutbox) Settle(_ context.Context, d Delivery, o Outcome) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.refuse > 0:
		b.refuse--
		return errors.New("no leader")
	case o.OK:
		delete(b.owed, d.ID)
		b.ok = append(b.ok, d.ID)
	case b.owed[d.ID] != nil:
		b.owed[d.ID].due = time.Now().Add(b.retry)
	}
	return nil
}

// sink answers requests in the place of a network.
type sink struct {
	mu     sync.Mutex
	took   func(host string) time.Duration
	status func(host string) int
	at     map[string][]time.Time // arrivals by delivery id
	now    map[string]int         // requests by host
	most   map[string]int
}

func newSink() *sink {
	return &sink{
		took: func(string) time.Duration { return time.Millisecond }, status: func(string) int { return 204 },
		at: map[string][]time.Time{}, now: map[string]int{}, most: map[string]int{},
	}
}

// sent counts the deliveries that have arrived.
func (k *sink) sent() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.at)
}

func (k *sink) RoundTrip(r *http.Request) (*http.Response, error) {
	host, id := r.URL.Host, r.Header.Get(HeaderID)
	k.mu.Lock()
	k.at[id] = append(k.at[id], time.Now())
	k.now[host]++
	k.most[host] = max(k.most[host], k.now[host])
	took, status := k.took(host), k.status(host)
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		k.now[host]--
		k.mu.Unlock()
	}()
	select {
	case <-time.After(took):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader("")), Request: r}, nil
}

func newTestSender(k http.RoundTripper) *Sender {
	return New(Config{
		Transport: k, Now: func() int64 { return time.Now().UnixMilli() },
		Logger: slog.New(slog.DiscardHandler),
	})
}

// runs runs a sender until the returned function is called.
func runs(s *Sender, b *memOutbox) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx, b) }()
	return func() { cancel(); <-done }
}

// TestSlowTargetDelaysNoOther: among 200 targets one takes 8 s for each request; of
// the others' callbacks the 99th percentile is sent within 100 ms.
func TestSlowTargetDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, b := newSink(), &memOutbox{retry: time.Minute}
		k.took = func(host string) time.Duration {
			if host == "slow:80" {
				return 8 * time.Second
			}
			return 5 * time.Millisecond
		}
		s := newTestSender(k)
		defer runs(s, b)()
		owedAt := map[string]time.Time{}
		for i := range 2000 {
			for _, host := range []string{"slow:80", fmt.Sprintf("h%d:80", i%199)} {
				id := fmt.Sprintf("%s-%d", host, i)
				b.add(id, host)
				owedAt[id] = time.Now()
				s.Owed(host, time.Now().UnixMilli())
			}
			pass(5 * time.Millisecond)
		}
		pass(time.Second)
		k.mu.Lock()
		defer k.mu.Unlock()
		var late []time.Duration
		for id, at := range owedAt {
			if strings.HasPrefix(id, "slow") {
				continue
			}
			if len(k.at[id]) != 1 {
				t.Fatalf("%s was sent %d times", id, len(k.at[id]))
			}
			late = append(late, k.at[id][0].Sub(at))
		}
		slices.Sort(late)
		p99 := late[len(late)*99/100]
		t.Logf("p99 of the rest %v, most %v; slow: %d at once", p99, late[len(late)-1], k.most["slow:80"])
		if p99 > 100*time.Millisecond {
			t.Errorf("p99 of the rest is %v", p99)
		}
		if k.most["slow:80"] != DefaultPerTarget {
			t.Errorf("%d requests to the slow target at once, want %d", k.most["slow:80"], DefaultPerTarget)
		}
	})
}

// TestSlowPathOfATarget: a target is a host and port; what is slow there leaves the
// target's other requests free as far as its limit goes.
func TestSlowDeliveryLeavesItsTargetTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, b := newSink(), &memOutbox{retry: time.Minute}
		slow := true
		k.took = func(string) time.Duration {
			if slow { // the first alone
				slow = false
				return 8 * time.Second
			}
			return 5 * time.Millisecond
		}
		s := newTestSender(k)
		for i := range 50 {
			b.add(fmt.Sprintf("c%02d", i), "a:80")
		}
		defer runs(s, b)()
		pass(time.Second)
		if len(b.ok) != 49 {
			t.Errorf("%d of 49 delivered beside the slow one", len(b.ok))
		}
	})
}

// TestFailingTargetIsProbed: a target that takes nothing gets one request at a time;
// what it did not take is sent again under the same id, until it is taken.
func TestFailingTargetIsProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, b := newSink(), &memOutbox{retry: 5 * time.Second}
		down := true
		k.status = func(string) int {
			if down {
				return 503
			}
			return 200
		}
		s := newTestSender(k)
		b.add("first", "a:80")
		defer runs(s, b)()
		pass(time.Second)
		k.mu.Lock()
		k.most = map[string]int{}
		k.mu.Unlock()
		for i := range 20 {
			b.add(fmt.Sprintf("c%02d", i), "a:80")
			s.Owed("a:80", time.Now().UnixMilli())
		}
		pass(7 * time.Second)
		k.mu.Lock()
		if n := len(k.at["first"]); n != 2 {
			t.Errorf("the first was sent %d times in 8s, want 2", n)
		}
		down = false
		k.mu.Unlock()
		pass(7 * time.Second)
		if len(b.ok) != 21 {
			t.Errorf("%d of 21 delivered", len(b.ok))
		}
		if s.Delivered() != 21 || s.Failed() < 22 || s.InFlight() != 0 {
			t.Errorf("counted %d delivered, %d failed, %d in flight", s.Delivered(), s.Failed(), s.InFlight())
		}
	})
}

// TestUnrecordedIsSentAgain: what was taken but could not be recorded is sent again,
// with the same id: at least once.
func TestUnrecordedIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, b := newSink(), &memOutbox{retry: time.Minute, refuse: 1}
		b.add("c1", "a:80")
		defer runs(newTestSender(k), b)()
		pass(2 * time.Second)
		if len(b.ok) != 1 || len(k.at["c1"]) != 2 {
			t.Errorf("sent %d times, recorded %v", len(k.at["c1"]), b.ok)
		}
	})
}

// TestNewSenderGoesOn: one that ends in the middle leaves what is not recorded owed,
// and the next one, which knows nothing, sends it.
func TestNewSenderGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, b := newSink(), &memOutbox{retry: time.Minute}
		k.took = func(string) time.Duration { return 3 * time.Second }
		for i := range 300 { // more than a page of targets
			b.add(fmt.Sprintf("c%03d", i), fmt.Sprintf("h%03d:80", i))
		}
		stop := runs(newTestSender(k), b)
		pass(time.Second)
		stop()
		if n := k.sent(); len(b.ok) != 0 || n != 300 {
			t.Fatalf("after a second %d sent, %d recorded", n, len(b.ok))
		}
		defer runs(newTestSender(k), b)()
		pass(4 * time.Second)
		if len(b.ok) != 300 {
			t.Errorf("%d of 300 delivered", len(b.ok))
		}
	})
}

// TestLostHint: without any hint what is owed is found by a look at all targets.
func TestLostHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, b := newSink(), &memOutbox{retry: time.Minute}
		defer runs(newTestSender(k), b)()
		pass(time.Second)
		b.add("c1", "a:80")
		pass(rescan)
		if len(b.ok) != 1 {
			t.Error("not delivered")
		}
	})
}

// TestTotalIsBounded: however many targets are slow, so many requests and no more.
func TestTotalIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, b := newSink(), &memOutbox{retry: time.Minute}
		k.took = func(string) time.Duration { return 5 * time.Second }
		s := New(Config{Transport: k, Total: 10, Now: func() int64 { return time.Now().UnixMilli() }, Logger: slog.New(slog.DiscardHandler)})
		for i := range 30 {
			b.add(fmt.Sprintf("c%03d", i), fmt.Sprintf("h%03d:80", i))
		}
		defer runs(s, b)()
		pass(time.Second)
		if n := k.sent(); s.InFlight() != 10 || n != 10 {
			t.Errorf("%d in flight, %d sent, want 10", s.InFlight(), n)
		}
		pass(15 * time.Second)
		if len(b.ok) != 30 {
			t.Errorf("%d of 30 delivered", len(b.ok))
		}
	})
}

// pass lets time go by, until nothing more happens at that moment: then what others
// have noted may be read.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
