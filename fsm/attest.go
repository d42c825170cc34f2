package fsm

import (
	"cmp"
	"slices"

	"github.com/axd-project/axd/internal/mutant"
	"github.com/axd-project/axd/job"
)

// MaxForward is how far, in milliseconds, an entry's stamp may lie ahead of the
// latest time that a majority of voters is known to have vouched for. An entry
// beyond it is refused whole, so a leader whose clock runs away can't carry the
// state with it.
const MaxForward int64 = 60_000

// Attestation is what the voters say of the time: an entry carries it where its
// stamp needs it.
type Attestation struct {
	Voters int            `msgpack:"v"` // in Raft's configuration
	Clocks []ClockReading `msgpack:"c"` // of those who were asked and answered
}

// ClockReading is the latest time that a server vouches for.
type ClockReading struct {
	Server string `msgpack:"s"`
	At     int64  `msgpack:"a"` // Unix ms
}

// Vouched returns the latest time that a majority of the voters vouches for;
// false where fewer than a majority answered. No minority can move it forward.
func (t *Attestation) Vouched() (int64, bool) {
	if t == nil || t.Voters < 1 {
		return 0, false
	}
	clocks := slices.Clone(t.Clocks)
	slices.SortFunc(clocks, func(a, b ClockReading) int {
		return cmp.Or(cmp.Compare(a.Server, b.Server), cmp.Compare(a.At, b.At))
	})
	clocks = slices.CompactFunc(clocks, func(a, b ClockReading) bool { return a.Server == b.Server })
	slices.SortFunc(clocks, func(a, b ClockReading) int { return cmp.Compare(b.At, a.At) })
	quorum := t.Voters/2 + 1
	if len(clocks) < quorum {
		return 0, false
	}
	return min(clocks[quorum-1].At, job.MaxTime), true
}

// clock returns the time at which an entry is applied, and what is attested with
// it; false: the stamp is too far ahead. Before the first attestation any stamp
// will do.
func (m *Machine) clock(e *Entry) (now, attested int64, ok bool) {
	attested = m.meta.Attested
	if v, ok := e.Attest.Vouched(); ok {
		attested = max(attested, v)
	}
	now = max(min(e.At, job.MaxTime), m.meta.Clock)
	if mutant.ClockBack {
		now = min(e.At, job.MaxTime)
	}
	if mutant.ClockInApply {
		now = mutant.Now()
	}
	if attested != 0 && now > m.meta.Clock && now > attested+MaxForward {
		return m.meta.Clock, attested, false
	}
	return now, attested, true
}

var errAhead = job.Errorf(job.CodeNoLeader,
	"the leader's clock is ahead of what a majority of the servers vouches for; nothing was done")
