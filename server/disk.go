package server

import (
	"context"
	"fmt"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/raftnode"
)

// The shares of the disk that must be free. A full disk would end the server,
// so what grows the state is refused before.
const (
	diskAlarm    = 0.10
	diskFloor    = 0.05
	diskInterval = 5 * time.Second
)

// checkRoom refuses to start on a full disk before the first write meets it. Where
// the file system doesn't tell, that write does.
func (s *Server) checkRoom() error {
	usage, err := s.cfg.Host.FS.GetDiskUsage(s.cfg.DataDir)
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	return raftnode.CheckFree(s.cfg.DataDir, usage.AvailBytes)
}

// watchDisk keeps the share of the disk that is free, and alerts when it is low.
func (s *Server) watchDisk(ctx context.Context) {
	tick := time.NewTicker(diskInterval)
	defer tick.Stop()
	for {
		if _, ratio, err := s.home.Free(); err == nil {
			s.diskFull.Store(ratio < diskFloor)
			s.condition(fsm.AlertDiskLow, s.cfg.Name, ratio < diskAlarm, fmt.Sprintf("only %.1f %% of the disk below %s is free: "+
				"delete other files there, enlarge the disk, or shorten --retention on all servers, after which ended tasks go; below 5 %% new tasks are "+
				"refused, while those that were accepted go on", 100*ratio, s.cfg.DataDir))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// checkDisk refuses what grows the state while the disk is nearly full.
func (s *Server) checkDisk(grows bool) error {
	if grows && s.diskFull.Load() {
		return job.Errorf(job.CodeDiskFull, "less than 5 % of the disk of server "+s.cfg.Name+
			" is free, so it takes nothing new; free some space, or shorten --retention")
	}
	return nil
}
