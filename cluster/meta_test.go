package cluster

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
)

func node(m Member, meta []byte) *memberlist.Node {
	return &memberlist.Node{Name: nodeName(m), Addr: net.IPv4(10, 0, 0, 1), Port: 7, Meta: meta}
}

func TestMetaRoundTrip(t *testing.T) {
	m := Member{
		Role: RoleWorker, Name: "w1", Boot: "b1", ClusterID: "c1", RPC: "r:1", HTTP: "h:1", Version: "v1",
		Slots: 8, Labels: map[string]string{"zone": "a"}, Started: time.UnixMilli(1_800_000_000_000), Gossip: "10.0.0.1:7",
	}
	b, err := encodeMeta(m)
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeMember(node(m, b))
	if err != nil || fmt.Sprint(got) != fmt.Sprint(m) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestLabelsAreCutToFit(t *testing.T) {
	for n := range 60 {
		m := Member{Role: RoleWorker, Name: "w1", Boot: "b1", Labels: map[string]string{"a-long-one": strings.Repeat("x", 20*n)}}
		for i := range n {
			m.Labels[fmt.Sprintf("label%02d", i)] = strings.Repeat("v", i)
		}
		b, err := encodeMeta(m)
		if err != nil || len(b) > memberlist.MetaMaxSize {
			t.Fatalf("%d labels: %d bytes, %v", n, len(b), err)
		}
		got, err := decodeMember(node(m, b))
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range got.Labels {
			if m.Labels[k] != v {
				t.Errorf("label %s is %q", k, v)
			}
		}
		if whole := maps.Equal(got.Labels, m.Labels); whole == got.LabelsCut {
			t.Errorf("%d labels: %d came, cut: %v", n, len(got.Labels), got.LabelsCut)
		}
		if got.LabelsCut && len(b) < memberlist.MetaMaxSize-70 {
			t.Errorf("%d labels: only %d bytes are used", n, len(b))
		}
	}
}

func TestMetaThatLiesIsRefused(t *testing.T) {
	m := Member{Role: RoleServer, Name: "s1", Boot: "b1"}
	good, err := encodeMeta(m)
	if err != nil {
		t.Fatal(err)
	}
	other := m
	other.Name = "s2"
	for name, n := range map[string]*memberlist.Node{
		"speaks for another": node(other, good),
		"garbage":            node(m, []byte{0xc1}),
		"empty":              node(m, nil),
		"too long":           node(m, append(good, make([]byte, memberlist.MetaMaxSize)...)),
	} {
		if _, err := decodeMember(n); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := decodeMember(node(m, good)); err != nil {
		t.Error(err)
	}
}

// FuzzMeta: what others say never panics.
func FuzzMeta(f *testing.F) {
	m := Member{Role: RoleServer, Name: "s1", Boot: "b1", Labels: map[string]string{"k": "v"}}
	b, err := encodeMeta(m)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(encodeGoodbye("server/s1/b1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = decodeGoodbye(b)
		got, err := decodeMember(node(m, b))
		if err == nil && nodeName(got) != nodeName(m) {
			t.Errorf("%+v", got)
		}
	})
}

func TestLogsAreQuiet(t *testing.T) {
	var b bytes.Buffer
	var ending atomic.Bool
	l := newLogger(slog.New(slog.NewTextHandler(&b, nil)), &ending)
	l.Print("[DEBUG] memberlist: detail")
	l.Print("[INFO] memberlist: detail")
	for range 100 {
		l.Print("[ERR] memberlist: Failed to send gossip to 10.0.0.1:7: refused")
	}
	l.Print("no tag")
	if got := b.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `"gossip: Failed to send gossip to 10.0.0.1:7: refused"`) {
		t.Error(got)
	}

	b.Reset()
	ending.Store(true)
	newLogger(slog.New(slog.NewTextHandler(&b, nil)), &ending).Print("[ERR] memberlist: Failed to send: use of closed network connection")
	if b.Len() != 0 {
		t.Errorf("at this process's own end: %s", b.String())
	}
}

// One address has one process, so who held it before has ended.
func TestAddressTakenOverMeansDead(t *testing.T) {
	r := newRoster(Member{Role: RoleServer, Name: "s1", Boot: "b"})
	start := time.Now()
	join := func(name string, port uint16, started time.Time) {
		m := Member{Role: RoleServer, Name: name, Boot: "b", Started: started, Gossip: fmt.Sprintf("10.0.0.1:%d", port)}
		n := node(m, nil)
		n.Port = port
		r.alive(n, m, start)
	}
	join("s1", 1, start) // ourselves
	join("old1", 1, start.Add(-time.Hour))
	join("new2", 2, start)
	join("old2", 2, start.Add(-time.Hour))
	join("s3", 3, start)
	want := map[string]Liveness{"s1": Alive, "old1": Dead, "new2": Alive, "old2": Dead, "s3": Alive}
	for _, m := range r.members() {
		if m.Liveness != want[m.Name] {
			t.Errorf("%s is %s, want %s", m.Name, m.Liveness, want[m.Name])
		}
		delete(want, m.Name)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}

// A list of dead members stays short.
func TestDeadAreForgotten(t *testing.T) {
	r := newRoster(Member{Role: RoleServer, Name: "s1", Boot: "b"})
	now := time.Now()
	for i := range 2 * maxDead {
		m := Member{Role: RoleWorker, Name: fmt.Sprintf("w%d", i), Boot: "b"}
		r.alive(node(m, nil), m, now)
		r.gone(nodeName(m), Dead, now.Add(time.Duration(i)))
	}
	for boot := range 3 {
		m := Member{Role: RoleWorker, Name: "again", Boot: fmt.Sprint(boot)}
		r.alive(node(m, nil), m, now)
		r.gone(nodeName(m), Dead, now.Add(time.Minute))
	}
	r.prune(now.Add(time.Minute))
	if n := len(r.entries); n > maxDead || n < maxDead-3 {
		t.Errorf("%d entries", n)
	}
	if n := len(r.members()); n > maxDead+1 {
		t.Errorf("%d members", n)
	}
	r.prune(now.Add(2 * deadRetention))
	if n := len(r.entries); n != 0 {
		t.Errorf("%d entries after their time", n)
	}
}
