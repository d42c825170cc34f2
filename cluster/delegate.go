package cluster

import (
	"bytes"
	"context"
	"errors"
	"log"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

// delegate is what memberlist calls, mostly under its own locks: it copies, and
// neither waits nor calls back.
type delegate struct {
	roster  *roster
	self    string
	foreign func(Member) // may be nil
}

var errForeign = errors.New("it belongs to another cluster")

// NodeMeta returns our metadata.
func (d *delegate) NodeMeta(int) []byte { return d.roster.selfMeta() }

// NotifyMsg takes a goodbye.
func (d *delegate) NotifyMsg(b []byte) {
	if node, err := decodeGoodbye(b); err == nil {
		d.roster.gone(node, Left, time.Now())
	}
}

// NotifyAlive refuses nodes that are malformed or of another cluster.
func (d *delegate) NotifyAlive(n *memberlist.Node) error {
	m, err := decodeMember(n)
	if err != nil {
		return err
	}
	if n.Name != d.self && !d.roster.admit(m) {
		if d.foreign != nil {
			d.foreign(m)
		}
		return errForeign
	}
	return nil
}

// NotifyJoin notes a new node.
func (d *delegate) NotifyJoin(n *memberlist.Node) { d.NotifyUpdate(n) }

// NotifyUpdate notes what a node says anew.
func (d *delegate) NotifyUpdate(n *memberlist.Node) {
	if m, err := decodeMember(n); err == nil {
		d.roster.alive(n, m, time.Now())
	}
}

// NotifyLeave notes a node that died or left.
func (d *delegate) NotifyLeave(n *memberlist.Node) { d.roster.gone(n.Name, Dead, time.Now()) }

// NotifyPingComplete notes a node that answered memberlist's own probe.
func (d *delegate) NotifyPingComplete(n *memberlist.Node, _ time.Duration, _ []byte) {
	d.roster.pinged(n.Name, true, time.Now())
}

// AckPayload and the rest are parts of memberlist that axd has no use for.
func (d *delegate) AckPayload() []byte              { return nil }
func (d *delegate) GetBroadcasts(int, int) [][]byte { return nil }
func (d *delegate) LocalState(bool) []byte          { return nil }
func (d *delegate) MergeRemoteState([]byte, bool)   {}

// logWriter turns memberlist's lines into slog's. While a member is away
// memberlist complains every second, so of its warnings and errors one in a
// while is shown and the others are left for debugging. At this process's own
// end all are: its connections are closed under memberlist.
type logWriter struct {
	log    *slog.Logger
	ending *atomic.Bool
	mu     sync.Mutex
	shown  time.Time
	hidden int
}

func newLogger(l *slog.Logger, ending *atomic.Bool) *log.Logger {
	return log.New(&logWriter{log: l, ending: ending}, "", 0)
}

func (w *logWriter) Write(b []byte) (int, error) {
	line := string(bytes.TrimSpace(b))
	tag, text, ok := strings.Cut(strings.TrimPrefix(line, "["), "] ")
	if !ok {
		tag, text = "DEBUG", line
	}
	text = strings.TrimPrefix(text, "memberlist: ")
	level, hidden := slog.LevelDebug, 0
	if (tag == "WARN" || tag == "ERR") && !w.ending.Load() {
		w.mu.Lock()
		if now := time.Now(); now.Sub(w.shown) >= noisyLogsInterval {
			level, hidden = slog.LevelInfo, w.hidden
			w.shown, w.hidden = now, 0
		} else {
			w.hidden++
		}
		w.mu.Unlock()
	}
	w.log.Log(context.Background(), level, "gossip: "+text, "level_there", tag, "hidden_before", hidden)
	return len(b), nil
}
