package trial

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/axd-project/axd/chaos/process"
	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

const (
	bulkPayload  = 20 << 10 // bytes of a task that makes the log grow
	bulkPause    = 40 * time.Millisecond
	snapshotTime = 30 * time.Second // for a snapshot to be made
	// The log has to stay within what is kept behind a snapshot, so that it can be
	// replayed: some 8 MiB.
	snapshotRounds = 2
)

// killAtSnapshot lets the log grow until a server begins a snapshot, and kills it
// there.
func killAtSnapshot(ctx context.Context, st *stage) error {
	round := 0
	return st.rounds(ctx, func(ctx context.Context) error {
		if round++; round > snapshotRounds {
			return st.rest(ctx, max(0, time.Until(st.until)))
		}
		leader, s, err := st.follower(ctx)
		if err != nil {
			return err
		}
		if round%2 == 1 {
			s = leader
		}
		stop := st.bulk()
		defer stop()
		name, err := st.snapshotBegins(ctx, s)
		if err != nil {
			return err
		}
		f := st.fault(electBound, "kill -9 of %s as snapshot %s is made", s.Name(), name)
		if err := s.Kill(); err != nil {
			return err
		}
		stop()
		if !s.Running() && s.ExitCode() == -1 {
			f.acted("it ended by the signal, and its snapshots were %q", strings.Join(snapshotsOf(s), " "))
		}
		if err := st.recovered(ctx, f); err != nil {
			return err
		}
		defer f.end(false)
		return st.restart(ctx, s)
	})
}

// bulk submits large tasks until stop is called.
func (st *stage) bulk() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	payload, _ := json.Marshal(strings.Repeat("x", bulkPayload)) // a string
	c := &caller{load: st.load, c: st.operator()}
	go func() {
		defer close(done)
		for st.rest(ctx, bulkPause) == nil {
			c.put(client.SubmitRequest{
				Executor: st.attempts.command(0, 0), Policy: policy(), Payload: payload, Delay: new(job.Duration(time.Second)),
			}, 0)
		}
	}()
	return func() { cancel(); <-done }
}

// snapshotBegins waits until a server begins a snapshot that it had not before.
func (st *stage) snapshotBegins(ctx context.Context, s *process.Server) (string, error) {
	before := snapshotsOf(s)
	for end := time.Now().Add(st.speed.scale(snapshotTime)); time.Now().Before(end); {
		for _, name := range snapshotsOf(s) {
			if !slices.Contains(before, name) {
				return name, nil
			}
		}
		if err := st.rest(ctx, time.Millisecond); err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("server %s has begun no snapshot within %s", s.Name(), snapshotTime)
}

// snapshotsOf names the snapshots of a server, with those that are being made.
func snapshotsOf(s *process.Server) (names []string) {
	list, _ := os.ReadDir(filepath.Join(s.DataDir, "state", "snapshots"))
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}
