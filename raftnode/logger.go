package raftnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// repeatAfter is how long the same message of raft stays quiet. Raft reports
// each failed heartbeat, several a second for every server that is away.
const repeatAfter = 5 * time.Second

// maxMuted bounds the messages remembered; raft's are constants, about 150.
const maxMuted = 512

// demoted are raft's errors that are nothing but a connection's end.
var demoted = map[string]bool{
	"failed to decode incoming command": true,
	"failed to flush response":          true,
	"failed to get previous log":        true,
	"failed to get log":                 true, // the follower needs a snapshot
}

// raftLogger passes raft's messages on to slog: info and above, each text at
// most once per repeatAfter.
type raftLogger struct {
	to   *slog.Logger
	name string
	args []any
	mute *muter
}

type muter struct {
	mu   sync.Mutex
	seen map[string]*muted
}

type muted struct {
	at         time.Time
	suppressed int
}

func newRaftLogger(to *slog.Logger) *raftLogger {
	return &raftLogger{to: to, mute: &muter{seen: make(map[string]*muted)}}
}

// pass reports whether a message is due, and how many like it were left out.
func (m *muter) pass(msg string, now time.Time) (ok bool, suppressed int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.seen[msg]
	if s == nil {
		if len(m.seen) >= maxMuted {
			clear(m.seen)
		}
		m.seen[msg] = &muted{at: now}
		return true, 0
	}
	if now.Sub(s.at) < repeatAfter {
		s.suppressed++
		return false, 0
	}
	suppressed = s.suppressed
	s.at, s.suppressed = now, 0
	return true, suppressed
}

func (l *raftLogger) emit(level slog.Level, msg string, args []any) {
	if demoted[msg] || closed(args) {
		level = slog.LevelDebug
	}
	if !l.to.Enabled(context.Background(), level) || level < slog.LevelInfo {
		return
	}
	ok, suppressed := l.mute.pass(msg, time.Now())
	if !ok {
		return
	}
	all := append(append([]any(nil), l.args...), args...)
	for i, a := range all {
		if f, ok := a.(hclog.Format); ok && len(f) > 0 {
			all[i] = fmt.Sprintf(fmt.Sprint(f[0]), f[1:]...)
		}
	}
	if suppressed > 0 {
		all = append(all, "suppressed", suppressed)
	}
	l.to.Log(context.Background(), level, "raft: "+msg, all...)
}

// closed reports whether a message is about a listener or connection that this
// process has closed itself, as it does when it stops: they end before raft does.
func closed(args []any) bool {
	for _, a := range args {
		if err, ok := a.(error); ok && errors.Is(err, net.ErrClosed) {
			return true
		}
	}
	return false
}

func (l *raftLogger) Log(level hclog.Level, msg string, args ...any) {
	switch level {
	case hclog.Error:
		l.Error(msg, args...)
	case hclog.Warn:
		l.Warn(msg, args...)
	case hclog.Info:
		l.Info(msg, args...)
	}
}

// Raft's debug messages tell of every vote and connection; they are dropped.
func (l *raftLogger) Trace(string, ...any) {}
func (l *raftLogger) Debug(string, ...any) {}

func (l *raftLogger) Info(msg string, args ...any)  { l.emit(slog.LevelInfo, msg, args) }
func (l *raftLogger) Warn(msg string, args ...any)  { l.emit(slog.LevelWarn, msg, args) }
func (l *raftLogger) Error(msg string, args ...any) { l.emit(slog.LevelError, msg, args) }

func (l *raftLogger) IsTrace() bool { return false }
func (l *raftLogger) IsDebug() bool { return false }
func (l *raftLogger) IsInfo() bool  { return true }
func (l *raftLogger) IsWarn() bool  { return true }
func (l *raftLogger) IsError() bool { return true }

func (l *raftLogger) ImpliedArgs() []any { return l.args }
func (l *raftLogger) Name() string       { return l.name }

func (l *raftLogger) With(args ...any) hclog.Logger {
	c := *l
	c.args = append(append([]any(nil), l.args...), args...)
	return &c
}

func (l *raftLogger) Named(name string) hclog.Logger { return l.ResetNamed(name) }

func (l *raftLogger) ResetNamed(name string) hclog.Logger {
	c := *l
	c.name = name
	return &c
}

func (l *raftLogger) SetLevel(hclog.Level)                                  {}
func (l *raftLogger) GetLevel() hclog.Level                                 { return hclog.Info }
func (l *raftLogger) StandardWriter(*hclog.StandardLoggerOptions) io.Writer { return lineWriter{l} }

func (l *raftLogger) StandardLogger(o *hclog.StandardLoggerOptions) *log.Logger {
	return log.New(l.StandardWriter(o), "", 0)
}

// lineWriter logs what a standard logger writes.
type lineWriter struct{ l *raftLogger }

func (w lineWriter) Write(p []byte) (int, error) {
	w.l.Info(string(p))
	return len(p), nil
}
