package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	scrapeTime = 5 * time.Second
	maxScrape  = 4 << 20 // bytes
)

// scrape reads a server's gauges and counters that have no labels.
func scrape(ctx context.Context, address string) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("metrics of %s: %s", address, resp.Status)
	}
	return parseMetrics(io.LimitReader(resp.Body, maxScrape))
}

func parseMetrics(r io.Reader) (map[string]float64, error) {
	out := map[string]float64{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		name, text, ok := strings.Cut(lines.Text(), " ")
		if !ok || strings.ContainsAny(name, "#{") {
			continue
		}
		if v, err := strconv.ParseFloat(text, 64); err == nil {
			out[name] = v
		}
	}
	return out, lines.Err()
}

// The servers' own figures that scenarios use.
const (
	metricSnapshots = "axd_raft_snapshots_taken"
	metricPause     = "axd_raft_snapshot_pause_seconds_max"
	metricStall     = "axd_store_stall_seconds_max"
)

// snapshotFigures adds up the snapshots of all servers since they started, and
// finds the longest that apply stood still, for one or for the store.
func (e *env) snapshotFigures(ctx context.Context) (taken int, standstill time.Duration, err error) {
	for _, s := range e.cluster.Servers {
		m, err := scrape(ctx, s.HTTP)
		if err != nil {
			return 0, 0, err
		}
		taken += int(m[metricSnapshots])
		standstill = max(standstill, time.Duration(max(m[metricPause], m[metricStall])*float64(time.Second)))
	}
	return taken, standstill, nil
}
