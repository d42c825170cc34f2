package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/axd-project/axd/chaos/process"
	"github.com/axd-project/axd/internal/bench"
)

const soundFigures = "tasks early lost doubled "

var tinyProbe = bench.Lateness{Rate: 50, Time: time.Second, Payload: 100}

// Every scenario runs, tiny, and reports what docs/performance.md promises. What
// it judges is tested in internal/bench. Those that spare the servers share a
// cluster.
func TestBench(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real processes")
	}
	t.Parallel()
	c, err := process.New(process.Config{Bin: "axd", Dir: t.TempDir(), ServerArgs: []string{"--snapshot-mib", "1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c.StartServers(ctx); err != nil {
		t.Fatal(err)
	}
	for _, s := range []struct {
		scenario bench.Scenario
		want     string // figures
	}{
		{bench.Ingest{Tasks: 500, Batch: 100, Callers: 2, Payload: 100}, "tasks tasks_per_s p50_ms p99_ms max_ms"},
		{bench.Ingest{Tasks: 50, Batch: 1, Callers: 8, Payload: 100}, "tasks tasks_per_s p50_ms p99_ms max_ms"},
		{bench.Immediate{Rate: 50, Time: time.Second, Payload: 100}, soundFigures + "p50_ms p99_ms max_ms ack_p99_ms"},
		{tinyProbe, soundFigures + "p50_ms p99_ms max_ms lateness_p99_ms"},
		{bench.Drain{Tasks: 500, Batch: 100, Callers: 2, Payload: 100}, soundFigures + "tasks_per_s"},
		{bench.Commands{Rate: 10, Time: time.Second}, soundFigures + "p50_ms p99_ms max_ms lateness_p99_ms"},
		{bench.Retry{Tasks: 30, Capacity: 50, Fail: 0.3, Initial: 100 * time.Millisecond, OutageTasks: 30, Down: 500 * time.Millisecond},
			"fixed_round2_percent jitter_round2_percent outage_fixed_peak_ratio outage_jitter_peak_ratio outage_jitter_dead"},
		{bench.Dag{Shape: bench.ShapeChain, Steps: 5}, soundFigures + "run_s advance_p50_ms advance_p99_ms before_needs"},
		{bench.Dag{Shape: bench.ShapeWide, Steps: 20}, soundFigures + "run_s advance_p99_ms"},
		{bench.Workflows{Workflows: 5, Time: time.Second}, soundFigures + "advance_p99_ms before_needs cpu_cores_servers"},
		{bench.Idle{Time: time.Second}, "cpu_percent_max cpu_cores_servers"},
		{bench.Soak{Time: 4 * time.Second, Rate: 40, Spread: 2 * time.Second, Retention: time.Minute, Snapshot: 1},
			soundFigures + "lateness_first_p99_ms lateness_last_p99_ms lateness_ratio rss_growth"},
	} {
		t.Run(s.scenario.Name(), func(t *testing.T) {
			t.Parallel()
			tinyBench(t, bench.Options{Cluster: c}, s.scenario, s.want)
		})
	}
}

// These kill servers of their own.
func TestBenchFootprint(t *testing.T) {
	t.Parallel()
	s := bench.Footprint{Tasks: 500, Payload: 100, Snapshot: 1, Writes: 50, Probe: tinyProbe}
	tinyBench(t, bench.Options{}, s,
		soundFigures+"lateness_ratio restart_s restart_all_s snapshots snapshot_pause_ms rss_mib_rest")
}

func TestBenchFailover(t *testing.T) {
	t.Parallel()
	s := bench.Failover{Kills: 1, Rate: 20, Ahead: 4 * time.Second, Every: time.Second, Writes: 20}
	tinyBench(t, bench.Options{}, s, soundFigures+"outage_tasks lateness_p99_ms write_gap_p99_ms")
}

func tinyBench(t *testing.T, opts bench.Options, s bench.Scenario, want string) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts real processes")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var said bytes.Buffer
	opts.Bin, opts.Dir, opts.Progress = "axd", t.TempDir(), &said
	opts.Workers, opts.Slots, opts.Lead, opts.Settle = 2, 100, 2*time.Second, 100*time.Millisecond
	r, err := bench.Run(ctx, opts, s)
	if err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	checkResult(t, r, want+" rss_mib_max disk_mib elections_needless")
	if strings.Contains(said.String(), "\x1b") || !strings.Contains(said.String(), "target") {
		t.Errorf("progress has a bar though it is no terminal, or no verdict:\n%s", said.String())
	}
}

func checkResult(t *testing.T, r *bench.Result, want string) {
	t.Helper()
	line, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(line, &got); err != nil {
		t.Fatal(err)
	}
	for _, key := range strings.Fields(want) {
		if _, ok := got[key].(float64); !ok {
			t.Errorf("%s is no number in %s", key, line)
		}
	}
	for _, key := range []string{"early", "lost", "doubled", "unsuccessful"} {
		if n, ok := got[key].(float64); ok && n != 0 {
			t.Errorf("%s is %v in %s", key, n, line)
		}
	}
}

// A load that no call can carry is refused before any server is started.
func TestBenchRefusesTooLargeABatch(t *testing.T) {
	for _, scenario := range []string{"ingest", "drain"} {
		var out, errs bytes.Buffer
		code := run([]string{"bench", scenario, "--batch", "10001"}, strings.NewReader(""), &out, &errs)
		if code != exitUsage || !strings.Contains(errs.String(), `--batch: must be a whole number from 1 to 10000 (got "10001")`) {
			t.Errorf("%s: exit code %d, %s", scenario, code, errs.String())
		}
	}
}

// A scenario that kills servers leaves a running cluster alone.
func TestBenchSparesARunningCluster(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run([]string{"bench", "failover", "--addr", "127.0.0.1:1"}, strings.NewReader(""), &out, &errs); code != exitUsage {
		t.Errorf("exit code %d, want %d; %s", code, exitUsage, errs.String())
	}
}
