package fsm

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/axd-project/axd/internal/mutant"
	"github.com/axd-project/axd/job"
)

// The kinds of counter; see tableCounters.
const (
	countAll       byte = 'g'
	countNamespace byte = 'n'
	countJob       byte = 'j'

	countDead          byte = 'd'
	countDeadNamespace byte = 'e'
	countDeadJob       byte = 'f'

	countAudit  byte = 'u'
	countEvents byte = 'E'
)

// counter is a remembered row of tableCounters.
type counter struct {
	key     string
	value   int64
	stored  int64 // as the state has it
	pending bool  // listed in Machine.changed
}

func (k key) counter(kind byte) key { return k.table(tableCounters).u8(kind) }

// count adds n tasks in state s to the counters that the task belongs to.
func (a *apply) count(t *Task, s job.State, n int64) {
	a.key = a.key.counter(countAll).u8(byte(s))
	a.addCounter(a.key, n)
	a.key = a.key.counter(countNamespace).name(t.Namespace).u8(byte(s))
	a.addCounter(a.key, n)
	if t.Job != "" {
		a.key = a.key.counter(countJob).name(t.Namespace).name(t.Job).u8(byte(s))
		a.addCounter(a.key, n)
	}
}

func (a *apply) addCounter(k key, n int64) {
	c := a.counter(k)
	c.value += n
	if !c.pending {
		c.pending = true
		a.changed = append(a.changed, c)
	}
}

func (a *apply) counter(k key) *counter {
	if c, ok := a.counters[string(k)]; ok {
		return c
	}
	n := readCounter(a.tx, k)
	c := &counter{key: string(k), value: n, stored: n}
	a.counters[c.key] = c
	return c
}

func readCounter(r Reader, k key) int64 {
	b, ok := r.Get(k)
	if !ok {
		return 0
	}
	return decodeCounter(b)
}

func decodeCounter(b []byte) int64 {
	if len(b) != 8 {
		return -1 // never a count; Check reports it
	}
	return int64(binary.BigEndian.Uint64(b)) //nolint:gosec // written by flushCounters
}

// flushCounters writes the counters that the entry changed, in the order of
// their keys.
func (a *apply) flushCounters() {
	slices.SortFunc(a.changed, func(x, y *counter) int { return strings.Compare(x.key, y.key) })
	if mutant.MapOrder {
		a.changed = mutant.Shuffled(a.changed)
	}
	for _, c := range a.changed {
		c.pending = false
		if c.value == c.stored {
			continue
		}
		c.stored = c.value
		k := append(a.key[:0], c.key...)
		if c.value == 0 {
			a.delete(k)
			continue
		}
		a.value = binary.BigEndian.AppendUint64(a.value[:0], uint64(c.value)) //nolint:gosec // counts are not negative
		a.set(k, a.value)
	}
	a.changed = a.changed[:0]
}

// jobCounts sums a job's tasks over the states that keep allows.
func (a *apply) jobCounts(namespace, name string, keep func(job.State) bool) (sum int64) {
	for _, s := range job.States {
		if keep(s) {
			a.key = a.key.counter(countJob).name(namespace).name(name).u8(byte(s))
			sum += a.counter(a.key).value
		}
	}
	return sum
}
