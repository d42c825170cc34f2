package worker

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
)

const residueLimit = 10 * time.Second // for the processes of an earlier life to be gone

// residue is what an earlier life of the worker left in the data directory.
type residue struct {
	owed   []spooled     // results to send again, lost attempts among them
	killed int           // processes that were still there
	goesOn []leftAttempt // whose commands the supervisor of the earlier life has kept
}

// clearResidue ends what an earlier life left running, before any work is
// taken: an attempt that has no result becomes lost. What is held goes on, where the
// directory says what it is.
func (d *dataDir) clearResidue(found recovered, held map[string]bool, put func(spooled) error) (residue, error) {
	r := residue{owed: found.owed}
	settled := make(map[attemptKey]bool, len(found.owed))
	for _, e := range found.owed {
		settled[e.key()] = true
	}
	lose := func(ref rpc.Ref) error {
		e := spooled{Ref: ref, Result: encodeResult(rpc.AttemptResult{
			Outcome: uint8(job.OutcomeLost), Error: "the worker restarted while the attempt ran",
		})}
		r.owed = append(r.owed, e)
		return put(e)
	}
	left, err := d.leftAttempts()
	if err != nil {
		return residue{}, err
	}
	boot := machineBoot()
	left, r.goesOn = apart(left, func(l leftAttempt) bool {
		return held[l.dir.mark()] && l.known && l.item != nil && !settled[attemptOf(l.lock.ref())]
	})
	var marks []residueMark
	for _, l := range left {
		m := residueMark{mark: l.dir.mark()}
		if l.lock.MachineBoot == boot {
			m.leader = l.first.process
		}
		marks = append(marks, m)
	}
	r.killed = killResidue(marks, residueLimit)
	for _, l := range left {
		if l.known && !settled[attemptOf(l.lock.ref())] {
			if err := lose(l.lock.ref()); err != nil {
				return residue{}, err
			}
		}
		if err := l.dir.remove(); err != nil {
			return residue{}, fmt.Errorf("remove attempt of an earlier life: %w", err)
		}
	}
	for _, ref := range found.running { // they ended with the process
		if err := lose(ref); err != nil {
			return residue{}, err
		}
	}
	return r, nil
}

type leftAttempt struct {
	dir   attemptDir
	lock  startLock
	first firstProcess
	known bool           // the lock file says which attempt it is
	item  *outlivingItem // nil: it ends with the worker
}

// apart divides attempts by whether something holds of them.
func apart(all []leftAttempt, holds func(leftAttempt) bool) (others, those []leftAttempt) {
	for _, l := range all {
		if holds(l) {
			those = append(those, l)
		} else {
			others = append(others, l)
		}
	}
	return others, those
}

func (d *dataDir) leftAttempts() ([]leftAttempt, error) {
	base := filepath.Join(d.root, "attempts")
	namespaces, err := readNames(base)
	if err != nil {
		return nil, fmt.Errorf("read attempts: %w", err)
	}
	var left []leftAttempt
	for _, ns := range namespaces {
		names, err := readNames(filepath.Join(base, ns))
		if err != nil {
			return nil, fmt.Errorf("read attempts: %w", err)
		}
		for _, name := range names {
			l := leftAttempt{dir: attemptDir(filepath.Join(base, ns, name))}
			// A lock cut short means that the worker died before it started anything.
			if b, err := os.ReadFile(l.dir.lock()); err == nil {
				l.known = json.Unmarshal(b, &l.lock) == nil && refName(l.lock.ref()) == name
			}
			if b, err := os.ReadFile(l.dir.process()); err == nil && json.Unmarshal(b, &l.first) != nil {
				l.first = firstProcess{}
			}
			l.item = l.dir.readItem()
			left = append(left, l)
		}
	}
	return left, nil
}
