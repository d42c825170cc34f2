package raftnode

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
)

func TestRaftIsQuietAboutWhatWeClosed(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := newRaftLogger(slog.New(slog.NewTextHandler(&out, nil)))
	l.Error("failed to accept connection", "error", fmt.Errorf("accept: %w", net.ErrClosed))
	if out.Len() != 0 {
		t.Errorf("at an orderly stop: %q", out.String())
	}
	l.Error("failed to accept connection", "error", fmt.Errorf("too many open files"))
	if !strings.Contains(out.String(), "level=ERROR") || !strings.Contains(out.String(), "too many open files") {
		t.Errorf("another cause: %q", out.String())
	}
}
