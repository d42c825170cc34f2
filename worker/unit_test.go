package worker

import (
	"bufio"
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
)

func TestConfigIsChecked(t *testing.T) {
	servers := func() []string { return nil }
	for field, cfg := range map[string]Config{
		"name":       {Servers: servers},
		"slots":      {Name: "w", Servers: servers, Slots: -1},
		"drain_time": {Name: "w", Servers: servers, DrainTime: -1},
		"join":       {Name: "w"},
		"data_dir":   {Name: "w", Servers: servers, Exec: true, Supervisor: []string{"axd"}},
		"supervisor": {Name: "w", Servers: servers, Exec: true, DataDir: "d"},
		"labels":     {Name: "w", Servers: servers, Labels: map[string]string{"a b": ""}},
	} {
		_, err := New(cfg)
		var e *job.Error
		if !errors.As(err, &e) || e.Field != field {
			t.Errorf("%s: got %v", field, err)
		}
	}
	w, err := New(Config{Name: "w", Servers: servers})
	if err != nil || w.cfg.Slots < 2 || w.cfg.DrainTime != defaultDrainTime {
		t.Errorf("got %+v, %v", w, err)
	}
}

func TestHandleRefusesProgrammersErrors(t *testing.T) {
	w, err := New(Config{Name: "w", Servers: func() []string { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	w.Handle("a", testHandlers["echo"])
	for name, h := range map[string]HandlerFunc{"a": testHandlers["echo"], "b c": testHandlers["echo"], "d": nil} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("handler %q is taken", name)
				}
			}()
			w.Handle(name, h)
		}()
	}
}

func TestTailIsTheLastBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 32).Draw(t, "limit")
		tail := newTail(limit)
		var all []byte
		for _, b := range rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), 0, 80)).Draw(t, "writes") {
			tail.add(b)
			all = append(all, b...)
			want := all[max(0, len(all)-limit):]
			if !bytes.Equal(tail.bytes(), want) || tail.skipped() != int64(len(all)-len(want)) {
				t.Fatalf("got %q and %d skipped, want %q of %d", tail.bytes(), tail.skipped(), want, len(all))
			}
		}
		if cap(tail.data) > 8*max(limit, 64) {
			t.Fatalf("%d bytes are held for a tail of %d", cap(tail.data), limit)
		}
	})
}

func TestShortenKeepsCharactersWhole(t *testing.T) {
	for in, want := range map[string]string{"short": "short", "0123456789": "0123456789", "0123456789a": "0123456…", "012345é89ab": "012345…"} {
		if got := shorten(in, 10); got != want {
			t.Errorf("%q: got %q", in, got)
		}
	}
}

func TestJoinTextsSaysNothingTwice(t *testing.T) {
	t.Parallel()
	for want, texts := range map[string][]string{
		"":                {"", ""},
		"a":               {"a", "a", ""},
		"stopped; failed": {"stopped", "", "failed"},
		"Get x: stopped":  {"stopped", "Get x: stopped"},
	} {
		if got := joinTexts(texts); got != want {
			t.Errorf("%q: got %q", texts, got)
		}
	}
}

func TestDecide(t *testing.T) {
	const s = time.Second
	lease := leaseView{until: 100 * s, ttl: 10 * s}
	for name, c := range map[string]struct {
		command command
		now     time.Duration
		act     action
		reason  stopReason
		next    time.Duration
	}{
		"quiet":                   {command{order: startOrder{Grace: int64(3 * s)}}, 90 * s, actNothing, stopNone, 97 * s},
		"lease near its end":      {command{order: startOrder{Grace: int64(3 * s)}}, 97 * s, actTerm, stopLease, 97 * s},
		"grace over half a lease": {command{order: startOrder{Grace: int64(60 * s)}}, 94 * s, actNothing, stopNone, 95 * s},
		"lease over":              {command{}, 100 * s, actKill, stopLease, 100 * s},
		"continue":                {command{order: startOrder{Continue: true}}, 500 * s, actNothing, stopNone, 1<<63 - 1},
		"time-out":                {command{startedAt: 80 * s, order: startOrder{Timeout: int64(9 * s)}}, 89 * s, actTerm, stopTimeout, 89 * s},
		"beats":                   {command{pulse: &pulse{pipe: -1, limit: 9 * s, last: 80 * s, look: 89*s + 1}}, 89 * s, actNothing, stopNone, 89*s + 1},
		"before the time-out":     {command{startedAt: 80 * s, order: startOrder{Timeout: int64(9 * s)}}, 89*s - 1, actNothing, stopNone, 89 * s},
		"in its grace":            {command{killAt: 95 * s, reason: stopCancel}, 94 * s, actNothing, stopCancel, 95 * s},
		"after its grace":         {command{killAt: 95 * s, reason: stopCancel}, 95 * s, actKill, stopCancel, 95 * s},
		"grace cut by the lease":  {command{killAt: 120 * s, reason: stopTimeout}, 100 * s, actKill, stopLease, 100 * s},
		"continue after TERM":     {command{killAt: 120 * s, reason: stopTimeout, order: startOrder{Continue: true}}, 100 * s, actNothing, stopTimeout, 120 * s},
	} {
		act, reason := c.command.decide(c.now, lease)
		if act != c.act || reason != c.reason || c.command.next(lease) != c.next {
			t.Errorf("%s: got %v %q, next %v", name, act, reason, c.command.next(lease))
		}
	}
}

func TestLeaseNeverShrinksAndEndsExactly(t *testing.T) {
	now := 10 * time.Second
	var l lease
	if l.valid(now) {
		t.Error("valid before the first renewal")
	}
	l.renew(8*time.Second, 3*time.Second)
	if _, extended := l.renew(7*time.Second, 3*time.Second); extended {
		t.Error("an older answer extended it")
	}
	if !l.valid(now) {
		t.Error("ended early")
	}
	now = 11 * time.Second
	if l.valid(now) {
		t.Error("valid at its end")
	}
}

// The bound must hold for every true clock that fits the stamps, and be near it.
func TestClusterClockIsABound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// The cluster's clock runs at any rate down to the least that is allowed for.
		const million = 1_000_000
		rate := million + time.Duration(rapid.IntRange(-clockDrift*million, clockDrift*million).Draw(t, "rate"))
		base := time.Duration(1_700_000_000) * time.Second
		truth := func(local time.Duration) time.Duration { return base + local*rate/million }
		var c clusterClock
		if c.at(0) != 0 || c.when(base) != never {
			t.Fatal("known before the first stamp")
		}
		local, best := time.Duration(0), time.Duration(-1)
		for range rapid.IntRange(1, 20).Draw(t, "stamps") {
			local += time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "gap"))
			stamped := local
			trip := time.Duration(rapid.Int64Range(0, int64(50*time.Millisecond)).Draw(t, "trip"))
			local += trip
			sent := stamped - time.Duration(rapid.Int64Range(0, int64(50*time.Millisecond)).Draw(t, "request"))
			if c.answered(truth(stamped).Microseconds(), sent, local) {
				t.Fatal("a clock that went on was taken for one that was set back")
			}
			c.observe(truth(stamped).Microseconds(), local)
			if best < 0 || trip < best {
				best = trip
			}
			late := truth(local) - c.at(local)
			if late < 0 {
				t.Fatalf("early by %v", -late)
			}
			if most := best + 2*time.Duration(float64(local)*clockDrift) + 10*time.Microsecond; late > most {
				t.Fatalf("late by %v, more than %v", late, most)
			}
			due := truth(local) + time.Duration(rapid.Int64Range(0, int64(5*time.Second)).Draw(t, "due"))
			if at := c.when(due); truth(at) < due-time.Microsecond || c.at(at) < due-time.Microsecond || c.at(at) > due+time.Microsecond && c.at(local) < due {
				t.Fatalf("due %v starts at %v, which is %v", due, at, truth(at))
			}
		}
	})
}

func TestDataDirectoryHasOneOwner(t *testing.T) {
	dir := t.TempDir()
	d, err := openDir(dir, "w1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openDir(dir, "w1"); !errors.Is(err, job.ErrConflict) || !strings.Contains(err.Error(), "in use by another worker") {
		t.Errorf("got %v", err)
	}
	if err := d.setCluster("c1"); err != nil {
		t.Fatal(err)
	}
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
	if _, err := openDir(dir, "w2"); !errors.Is(err, job.ErrConflict) || !strings.Contains(err.Error(), `belongs to worker "w1"`) {
		t.Errorf("got %v", err)
	}
	d, err = openDir(dir, "w1")
	if err != nil || d.owner.ClusterID != "c1" {
		t.Errorf("got %+v, %v", d, err)
	}
	_ = d.close()
}

func TestStartLockIsTakenOnce(t *testing.T) {
	d := dataDir{root: t.TempDir()}
	a := d.attempt(rpc.Ref{Namespace: "default", ID: [16]byte{1}, Token: job.Token{Index: 1}.Bytes()})
	if err := a.take(startLock{}); err != nil {
		t.Fatal(err)
	}
	if err := a.take(startLock{}); !errors.Is(err, errStarted) {
		t.Errorf("got %v", err)
	}
}

// A bad frame must be an error, whatever its bytes.
func FuzzReadFrame(f *testing.F) {
	var buf bytes.Buffer
	_ = writeFrame(bufio.NewWriter(&buf), order{Kill: &killOrder{Seq: 1, Reason: stopCancel}})
	f.Add(buf.Bytes())
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0})
	f.Add([]byte{0, 0, 0, 1, 0xc1})
	f.Fuzz(func(_ *testing.T, b []byte) {
		var o order
		_ = readFrame(bufio.NewReader(bytes.NewReader(b)), &o)
	})
}

func TestCheckRefGuardsFileNames(t *testing.T) {
	good := rpc.Ref{Namespace: "default", Token: job.Token{Index: 1}.Bytes()}
	if why := checkRef(good); why != "" {
		t.Error(why)
	}
	for _, ns := range []string{"", "..", ".", "a/b", "../x", "a\x00"} {
		if checkRef(rpc.Ref{Namespace: ns, Token: good.Token}) == "" {
			t.Errorf("namespace %q is taken", ns)
		}
	}
	if checkRef(rpc.Ref{Namespace: "default"}) == "" {
		t.Error("no token is taken")
	}
}
