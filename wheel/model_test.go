package wheel

import (
	"math"
	"slices"
	"sort"
	"testing"

	"pgregory.net/rapid"
)

// model is the wheel done the obvious way: a slice sorted by time, and by
// insertion within a millisecond.
type model struct {
	now     int64
	waiting []modelEntry
	ready   []modelEntry // coming out of the present Advance
}

type modelEntry struct {
	due    int64
	id     int
	handle Handle
}

func (m *model) add(e modelEntry) {
	at := sort.Search(len(m.waiting), func(i int) bool { return m.waiting[i].due > e.due })
	m.waiting = slices.Insert(m.waiting, at, e)
}

func (m *model) advance(now int64) {
	if now < m.now {
		return
	}
	m.now = now
	n := sort.Search(len(m.waiting), func(i int) bool { return m.waiting[i].due > now })
	m.ready = append(m.ready, m.waiting[:n]...)
	m.waiting = slices.Clone(m.waiting[n:])
}

// pair drives a wheel and its model with the same operations.
type pair struct {
	t     *rapid.T
	wheel *Wheel[int]
	model model
	next  int      // id of the next entry
	gone  []Handle // handles of entries that left
}

// delta draws a span whose size is spread over all levels.
func (p *pair) delta() int64 {
	width := rapid.IntRange(0, 62).Draw(p.t, "width")
	d := rapid.Int64Range(0, 1<<width).Draw(p.t, "delta")
	// The edges of digits are where a wheel goes wrong.
	return d + rapid.SampledFrom([]int64{0, 0, 0, -1, 1}).Draw(p.t, "edge")
}

func plus(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	if b < 0 && a < math.MinInt64-b {
		return math.MinInt64
	}
	return a + b
}

func (p *pair) add() {
	d := p.delta()
	if rapid.IntRange(0, 4).Draw(p.t, "past") == 0 {
		d = -d
	}
	due := plus(p.model.now, d)
	if len(p.model.waiting) > 0 && rapid.Bool().Draw(p.t, "same millisecond") {
		due = rapid.SampledFrom(p.model.waiting).Draw(p.t, "as").due
	}
	p.model.add(modelEntry{due, p.next, p.wheel.Add(due, p.next)})
	p.next++
}

func (p *pair) remove() {
	for _, list := range []*[]modelEntry{&p.model.waiting, &p.model.ready} {
		if len(*list) == 0 || rapid.Bool().Draw(p.t, "other list") {
			continue
		}
		i := rapid.IntRange(0, len(*list)-1).Draw(p.t, "which")
		h := (*list)[i].handle
		if !p.wheel.Remove(h) {
			p.t.Fatalf("entry %d (due %d) was gone too early", (*list)[i].id, (*list)[i].due)
		}
		*list = slices.Delete(*list, i, i+1)
		p.gone = append(p.gone, h)
		return
	}
}

func (p *pair) removeGone() {
	if len(p.gone) > 0 {
		h := rapid.SampledFrom(p.gone).Draw(p.t, "gone")
		if p.wheel.Remove(h) {
			p.t.Fatalf("handle %v of an entry that left removed another", h)
		}
	}
}

func (p *pair) advance(now int64) {
	p.model.advance(now)
	p.wheel.Advance(now, func(at int64, id int) {
		if len(p.model.ready) == 0 {
			p.t.Fatalf("advance to %d: entry %d (due %d) came out unasked", now, id, at)
		}
		want := p.model.ready[0]
		if at != want.due || id != want.id {
			p.t.Fatalf("advance to %d: entry %d (due %d) came out, want %d (due %d)", now, id, at, want.id, want.due)
		}
		p.model.ready = p.model.ready[1:]
		p.gone = append(p.gone, want.handle)
		p.reenter()
		p.check()
	})
	if n := len(p.model.ready); n != 0 {
		p.t.Fatalf("advance to %d: %d due entries did not come out", now, n)
	}
}

// reenter does what a caller's callback may do.
func (p *pair) reenter() {
	switch rapid.IntRange(0, 7).Draw(p.t, "re-enter") {
	case 0:
		p.add()
	case 1:
		p.remove()
	case 2:
		p.removeGone()
	}
}

// chase follows Next until the first entry comes out.
func (p *pair) chase() {
	before := p.wheel.Len()
	for range levels {
		at, ok := p.wheel.Next()
		if !ok || at > p.model.now+1<<40 { // keep the current time in a useful range
			return
		}
		out := false
		p.model.advance(max(at, p.model.now))
		p.wheel.Advance(max(at, p.model.now), func(int64, int) { out = true })
		p.model.ready = nil
		if out {
			return
		}
	}
	p.t.Fatalf("eight steps of Next brought none of %d entries out", before)
}

func (p *pair) check() {
	if got, want := p.wheel.Len(), len(p.model.waiting)+len(p.model.ready); got != want {
		p.t.Fatalf("Len is %d, want %d", got, want)
	}
	at, ok := p.wheel.Next()
	all := slices.Concat(p.model.ready, p.model.waiting)
	if ok != (len(all) > 0) {
		p.t.Fatalf("Next answers %v with %d entries", ok, len(all))
	}
	if ok && at > all[0].due {
		p.t.Fatalf("Next is %d, later than the first entry's %d", at, all[0].due)
	}
}

// property: whatever is done, wheel and sorted slice agree.
func property(t *rapid.T) {
	start := rapid.SampledFrom([]int64{0, -1, 255, 1_796_000_000_000, math.MinInt64, math.MaxInt64 - 1000}).Draw(t, "start")
	p := &pair{t: t, wheel: New[int](start), model: model{now: start}}
	t.Repeat(map[string]func(*rapid.T){
		"add":     func(*rapid.T) { p.add() },
		"add 2":   func(*rapid.T) { p.add() },
		"remove":  func(*rapid.T) { p.remove() },
		"gone":    func(*rapid.T) { p.removeGone() },
		"advance": func(*rapid.T) { p.advance(plus(p.model.now, p.delta()%(1<<44))) },
		"tick":    func(*rapid.T) { p.advance(plus(p.model.now, 1)) },
		"back":    func(*rapid.T) { p.advance(plus(p.model.now, -p.delta())) },
		"next":    func(*rapid.T) { p.chase() },
		"":        func(*rapid.T) { p.check() },
	})
}

func TestAgreesWithSortedSlice(t *testing.T) { rapid.Check(t, property) }

func FuzzAgreesWithSortedSlice(f *testing.F) { f.Fuzz(rapid.MakeFuzz(property)) }
