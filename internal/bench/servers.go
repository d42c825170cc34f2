package bench

import (
	"context"
	"time"
)

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
		m, err := s.Metrics(ctx)
		if err != nil {
			return 0, 0, err
		}
		taken += int(m[metricSnapshots])
		standstill = max(standstill, time.Duration(max(m[metricPause], m[metricStall])*float64(time.Second)))
	}
	return taken, standstill, nil
}
