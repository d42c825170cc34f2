package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/axd-project/axd/chaos/process"
	"github.com/axd-project/axd/client"
)

const clockHook = "github.com/axd-project/axd/internal/chaosclock"

// TestOnlyChaosBuildsHaveTheClockHook: what we ship must not let anybody turn
// its clocks.
func TestOnlyChaosBuildsHaveTheClockHook(t *testing.T) {
	for tags, want := range map[string]bool{"": false, "chaos": true} {
		out, err := exec.Command("go", "list", "-tags", tags, "-deps", ".").Output()
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Contains(strings.Fields(string(out)), clockHook); got != want {
			t.Errorf("with the tags %q the hook is in the program: %v, want %v", tags, got, want)
		}
	}
}

// turned is a cluster of processes whose clocks a test can turn.
type turned struct {
	*process.Cluster
	*client.Client
	t      *testing.T
	clocks string
}

func startTurned(ctx context.Context, t *testing.T) *turned {
	t.Helper()
	dir := t.TempDir()
	bin := filepath.Join(dir, "axd-chaos")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags", "chaos", "-o", bin, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as make build, so that most of it is there already
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p, err := process.New(process.Config{Bin: bin, Dir: dir, ServerEnv: []string{"AXD_CHAOS_CLOCK=" + dir}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Close()
		for _, s := range p.Servers {
			if t.Failed() {
				t.Logf("the end of %s's log:\n%s", s.Name(), s.Tail())
			}
		}
	})
	if err := p.StartServers(ctx); err != nil {
		t.Fatal(err)
	}
	c, err := p.Client(client.Config{RetryTime: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &turned{Cluster: p, Client: c, t: t, clocks: dir}
}

func (c *turned) turn(s *process.Server, how string) {
	c.t.Helper()
	path := filepath.Join(c.clocks, strconv.Itoa(s.PID()))
	if err := os.WriteFile(path, []byte(how), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// until polls until the cluster is as wanted, and its clock near true time.
func (c *turned) until(ctx context.Context, what string, ok func(client.Cluster) bool) {
	c.t.Helper()
	for ctx.Err() == nil {
		got, err := c.Client.Cluster(ctx)
		if err == nil && got.Leader != "" && time.Until(got.Now).Abs() < 5*time.Second && ok(got) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	c.t.Fatalf("the cluster never came to %s", what)
}

func (c *turned) alerted(ctx context.Context, kind, subject string) bool {
	list, err := c.Alerts(ctx, "open", 1000)
	return err == nil && slices.ContainsFunc(list.Alerts, func(a client.Alert) bool { return a.Kind == kind && a.Subject == subject })
}

// TestLeadershipLeavesAProcessWhoseClockIsWrong skews the leader's clock by an
// hour, then lets the next leader find that it was suspended.
func TestLeadershipLeavesAProcessWhoseClockIsWrong(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real processes")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	c := startTurned(ctx, t)
	first, err := c.AwaitLeader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	c.turn(first, "wall 1h\n")
	c.until(ctx, "another leader", func(now client.Cluster) bool { return now.Leader != first.Name() })
	t.Logf("leadership moved %s after the clock was skewed", time.Since(began).Round(time.Millisecond))
	c.until(ctx, "alerts", func(client.Cluster) bool {
		return c.alerted(ctx, "clock_skew", first.Name()) && c.alerted(ctx, "clock_step", first.Name())
	})
	// Two wrong clocks of three would be a majority.
	c.turn(first, "wall 0s\n")
	c.until(ctx, "agree on the first leader's clock again", func(client.Cluster) bool {
		return !c.alerted(ctx, "clock_skew", first.Name())
	})
	second, err := c.AwaitLeader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c.turn(second, "boot 10m\n")
	c.until(ctx, "an alert of the suspend", func(client.Cluster) bool { return c.alerted(ctx, "suspend", second.Name()) })
	if _, err := c.Submit(ctx, appends(filepath.Join(t.TempDir(), "never"), time.Hour)); err != nil {
		t.Error(err)
	}
}
