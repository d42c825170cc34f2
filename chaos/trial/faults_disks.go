package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/axd-project/axd/chaos/process"
)

type server = process.Server

// The codes with which a server ends that finds its log or state failed or
// damaged: see docs/reference/exit-codes.md.
const (
	firstDamage = 70
	lastDamage  = 73
)

func diskScenarios() []Scenario {
	const group = "disks"
	return []Scenario{
		{Name: "torn-log", Group: group, Summary: "the log of a stopped server has lost its end", play: damaged("its log is cut short", tear)},
		{Name: "disk-full", Group: group, Summary: "the disk of one server fills up, and is freed later", smallDisk: true, play: diskFull},
		{Name: "flipped-bits", Group: group, Summary: "bits of the log of a stopped server are flipped", play: damaged("bits of its log are flipped", flip)},
	}
}

// damaged damages the log of a killed server. It must refuse to start, and be
// able to come back empty.
func damaged(what string, damage func(st *stage, path string) error) func(context.Context, *stage) error {
	return func(ctx context.Context, st *stage) error {
		return st.rounds(ctx, func(ctx context.Context) error {
			_, s, err := st.follower(ctx)
			if err != nil {
				return err
			}
			f := st.fault(electBound, "%s is killed, and %s", s.Name(), what)
			if err := s.Kill(); err != nil {
				return err
			}
			if err := damage(st, filepath.Join(s.DataDir, "raft.db")); err != nil {
				return err
			}
			if err := st.recovered(ctx, f); err != nil {
				return err
			}
			if err := s.Start(); err != nil {
				return err
			}
			select {
			case <-s.Done():
				if code := s.ExitCode(); code >= firstDamage && code <= lastDamage {
					f.acted("%s refused to start with code %d", s.Name(), code)
				} else {
					st.violated("server %s found its log damaged and ended with code %d; the end of its log:\n%s", s.Name(), code, s.Tail())
				}
			case <-time.After(st.speed.scale(5 * time.Second)):
				return fmt.Errorf("server %s has not noticed that %s", s.Name(), what)
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if err := os.Rename(s.DataDir, s.DataDir+"-"+time.Now().Format("150405.000")); err != nil {
				return err
			}
			if err := st.restart(ctx, s); err != nil {
				return err
			}
			f.end(false)
			return st.votes(ctx, s.Name())
		})
	}
}

// tear cuts the file in its used part, as a disk does that lost what it had
// promised to keep.
func tear(st *stage, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	const page = 4096
	used, err := lastUsed(path)
	if err != nil {
		return err
	}
	_ = info
	return os.Truncate(path, max(4*page, used-int64(st.rng.IntN(3*page))))
}

// lastUsed is the end of what is not zero in a file.
func lastUsed(path string) (int64, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return int64(len(bytes.TrimRight(data, "\x00"))), nil
}

// flip flips a bit of every entry that holds a task of ours.
func flip(_ *stage, path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	marks := 0
	for at := 0; ; marks++ {
		next := bytes.Index(data[at:], []byte("AXD_FENCING_TOKEN"))
		if next < 0 {
			break
		}
		at += next
		data[at] ^= 1
		at++
	}
	if marks == 0 {
		return errors.New("there is no entry to damage in " + path)
	}
	return os.WriteFile(path, data, 0o600) //nolint:gosec // the path is ours
}
