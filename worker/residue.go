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
	owed   []spooled // results to send again, lost attempts among them
	killed int       // processes that were still there
	broken []string  // result files that could not be read
}

// clearResidue ends what an earlier life left running, before any work is
// taken: an attempt that has no result becomes lost.
func (d *dataDir) clearResidue() (residue, error) {
	results := spool{filepath.Join(d.root, "results")}
	owed, broken, err := results.load()
	if err != nil {
		return residue{}, err
	}
	r := residue{owed: owed, broken: broken}
	settled := make(map[string]bool, len(owed))
	for _, e := range owed {
		settled[refName(e.Ref)] = true
	}
	left, err := d.leftAttempts()
	if err != nil {
		return residue{}, err
	}
	boot := machineBoot()
	var marks []residueMark
	for _, l := range left {
		m := residueMark{mark: l.dir.mark()}
		if l.lock.MachineBoot == boot {
			m.leader = l.leader
		}
		marks = append(marks, m)
	}
	r.killed = killResidue(marks, residueLimit)
	for _, l := range left {
		if l.known && !settled[refName(l.lock.Ref)] {
			e := spooled{Ref: l.lock.Ref, Result: encodeResult(rpc.AttemptResult{
				Outcome: uint8(job.OutcomeLost), Error: "the worker restarted while the attempt ran",
			})}
			if err := results.put(e); err != nil {
				return residue{}, err
			}
			r.owed = append(r.owed, e)
		}
		if err := l.dir.remove(); err != nil {
			return residue{}, fmt.Errorf("remove attempt of an earlier life: %w", err)
		}
	}
	return r, nil
}

type leftAttempt struct {
	dir    attemptDir
	lock   startLock
	leader process
	known  bool // the lock file says which attempt it is
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
				l.known = json.Unmarshal(b, &l.lock) == nil && refName(l.lock.Ref) == name
			}
			if b, err := os.ReadFile(l.dir.process()); err == nil && json.Unmarshal(b, &l.leader) != nil {
				l.leader = process{}
			}
			left = append(left, l)
		}
	}
	return left, nil
}
