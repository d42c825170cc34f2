package fsm

import (
	"bytes"
	"fmt"
	"math"

	"github.com/axd-project/axd/internal/mutant"
	"github.com/axd-project/axd/job"
)

// RebasedBoot is the life that a rebased state's active attempts belong to: no
// worker has it, so they end as lost once their lease has, and no worker is sent
// them again with a token from before.
const RebasedBoot = "before-restore"

// How a state was rebased.
const (
	FromSnapshot = "snapshot" // an operator's backup was restored
	FromRecovery = "recovery" // one server went on alone after the quorum was lost
)

// Origin records that a state was cut off from the log that made it. It is kept
// in state; the newest one.
type Origin struct {
	How       string `msgpack:"h"` // FromSnapshot or FromRecovery
	ClusterID string `msgpack:"c"` // of the cluster that the state was of
	Applied   uint64 `msgpack:"a"` // its newest entry then
	Epoch     uint32 `msgpack:"e"` // of tokens from then on
	At        int64  `msgpack:"t"` // Unix ms, by the clock of who did it
}

// NextEpoch returns a restore epoch above every one that was ever given to a
// descendant of a state whose epoch is old. One backup may be restored twice, and
// then the second epoch has to be above that of the first, of which the backup
// knows nothing. So it follows the clock, in seconds; where the clock is absurd it
// still rises.
func NextEpoch(old uint32, nowMS int64) (uint32, error) {
	if old == math.MaxUint32 {
		return 0, job.Conflict("restore_epoch", "is the highest there is: tokens could not rise any more", fmt.Sprint(old))
	}
	seconds := min(max(nowMS/1000, 0), math.MaxUint32)
	return max(old+1, uint32(seconds)), nil
}

// Base is what a rebased state goes on from.
type Base struct {
	How          string // FromSnapshot or FromRecovery
	ClusterID    string // that the state is of from now on; empty: as before
	Epoch        uint32 // the highest that the cluster has given so far
	FeatureLevel uint32 // that the cluster has; never lowered
	Now          int64  // Unix ms
}

// Rebase makes a state that comes from elsewhere one to go on from: tokens get a
// higher epoch, since log indices may be given a second time, and the active
// attempts belong to no worker's life any more, since what became of them is not
// in this state. The caller commits tx. It is no command: it happens before a
// log begins.
func Rebase(tx Tx, to Base) (Origin, error) {
	m := NewMachine()
	if err := m.load(tx); err != nil {
		return Origin{}, err
	}
	epoch, err := NextEpoch(max(m.meta.RestoreEpoch, to.Epoch), to.Now)
	if err != nil {
		return Origin{}, err
	}
	o := Origin{How: to.How, ClusterID: m.meta.ClusterID, Applied: m.meta.Applied, Epoch: epoch, At: to.Now}
	a := &apply{Machine: m, tx: tx, at: Meta{Index: m.meta.Applied}, now: max(min(to.Now, job.MaxTime), m.meta.Clock)}
	a.begin()
	a.orphan()
	a.set(metaKey(metaOrigin), mustEncode(m.codec, &o))
	if !mutant.EpochKept {
		m.meta.RestoreEpoch = epoch
	}
	m.meta.FeatureLevel = max(m.meta.FeatureLevel, to.FeatureLevel)
	if to.ClusterID != "" {
		m.meta.ClusterID = to.ClusterID
	}
	a.finish()
	return o, nil
}

// orphan gives all active attempts to RebasedBoot.
func (a *apply) orphan() {
	type row struct {
		k key
		activeRow
	}
	var rows []row
	a.tx.Ascend(key{tableActive}, tableEnd(tableActive), func(k, v []byte) bool {
		r, ok := decodeActive(v)
		if !ok {
			damaged(k)
		}
		rows = append(rows, row{bytes.Clone(k), r})
		return true
	})
	for _, r := range rows {
		r.Boot = RebasedBoot
		a.set(r.k, appendActive(nil, r.activeRow))
	}
}

// ReadOrigin tells of the newest Rebase; false: there was none.
func ReadOrigin(r Reader) (Origin, bool) { return getRow[Origin](r, metaKey(metaOrigin)) }
