package trial

import (
	"fmt"
	"sync"
	"time"
)

// Fault is one thing that was done to the cluster.
type Fault struct {
	mu sync.Mutex
	is FaultRecord
}

// FaultRecord is a fault as reports tell it.
type FaultRecord struct {
	Text  string    `json:"text"`
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	Acted string    `json:"acted,omitempty"` // how it is known; empty: it did not
	// Recovery is how long writes were not accepted, counted from when a majority
	// could have: from the fault on, or from its end where it left no majority.
	Recovery  time.Duration `json:"-"`
	Seconds   float64       `json:"recovery_seconds"`
	Recovered bool          `json:"recovered"`
	Bound     time.Duration `json:"-"`
	Limit     float64       `json:"bound_seconds"`
	since     time.Time
}

func (f *Fault) get() FaultRecord {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.is
	r.Seconds, r.Limit = r.Recovery.Seconds(), r.Bound.Seconds()
	return r
}

func (f *Fault) set(change func(*FaultRecord)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.is)
}

// acted notes by what it is known that the fault did something.
func (f *Fault) acted(format string, args ...any) {
	f.set(func(r *FaultRecord) { r.Acted = fmt.Sprintf(format, args...) })
}

// fault begins one; writes have to be accepted again within bound.
func (st *stage) fault(bound time.Duration, format string, args ...any) *Fault {
	now := time.Now()
	f := &Fault{is: FaultRecord{Text: fmt.Sprintf(format, args...), From: now, since: now, Bound: st.speed.scale(bound)}}
	st.mu.Lock()
	st.faults = append(st.faults, f)
	st.mu.Unlock()
	st.tell("%s", f.is.Text)
	return f
}

// end notes that the fault is over. Where it left no majority the time to recover
// counts from here.
func (f *Fault) end(quorumless bool) {
	now := time.Now()
	f.set(func(r *FaultRecord) {
		r.Until = now
		if quorumless {
			r.since = now
		}
	})
}
