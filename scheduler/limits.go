package scheduler

import (
	"container/heap"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// Limits: tasks under a concurrency limit or a rate wait in queues of their own, by
// what limits them. A queue whose limit lets nothing begin is parked, where matching
// doesn't see it, until an attempt gives the limit back or the rate's time has come.
// Apply decides; what is here follows it, and is put right where it was refused.
const (
	maxBlocked   = 500    // tasks of one group in memory; the index keeps the rest
	refillRows   = 2000   // rows of the due index read in a turn to find the rest again
	maxRefills   = 4      // groups that one turn looks for
	parkedShare  = 4      // of the tasks of a priority in memory a fraction may be parked
	prunedGroups = 1000   // groups that are kept whether or not they are in use
	idleAfter    = 5000   // ms after its last attempt was proposed a group that nothing waits in may be forgotten
	maxLeaving   = 50_000 // groups that leave tasks to the index; those of further ones stay in memory, as far as it goes
)

// bound is a concurrency limit or a rate in memory.
type bound struct {
	id     fsm.LimitID
	held   int   // attempts that hold it, those of proposed assigns included
	state  int64 // of a rate; see job.Rate
	groups map[*group]bool
	wakeAt int64 // of a rate that something waits for, Unix ms; 0: nothing does
	pos    int   // in the heap of rates
}

// groupKey is what tasks have in common that are limited by the same.
type groupKey struct {
	job                     jobKey
	concurrencyKey, rateKey string
	concurrency             job.Concurrency
	rate                    job.Rate
}

// group is what limits the tasks of some queues.
type group struct {
	groupKey
	hint             uint64 // see fsm.LimitHint
	concurrencyBound *bound // nil: none
	rateBound        *bound // nil: none
	parked           []*queue
	waiting          int   // tasks in queues
	usedAt           int64 // when an attempt of it was proposed last, Unix ms
	// left holds the first key that was left to the due index; see leaveBlocked.
	left [job.Low + 1]*fsm.DueKey
}

// holding is what an attempt, or a proposed one, holds.
type holding struct {
	concurrency, rate *bound
	committed         bool
}

// limitMemory is the memory of limits.
type limitMemory struct {
	groups  map[groupKey]*group
	byHint  map[uint64]*group
	bounds  map[fsm.LimitID]*bound // of concurrency limits
	rates   map[fsm.LimitID]*bound
	waking  rateHeap
	holders map[fsm.TaskRef]holding
	lacking map[*group]bool // to be filled again from the index
	evictAt int             // groups, before further ones are made, at which idle ones are looked for
	leaving int             // groups that left tasks to the index, at least
}

func newLimits() limitMemory {
	return limitMemory{
		groups: map[groupKey]*group{}, byHint: map[uint64]*group{}, bounds: map[fsm.LimitID]*bound{},
		rates: map[fsm.LimitID]*bound{}, holders: map[fsm.TaskRef]holding{}, lacking: map[*group]bool{},
	}
}

// recoverLimits loads what attempts hold.
func (l *loop) recoverLimits(r fsm.Reader) {
	l.limits = newLimits()
	fsm.AscendHolders(r, func(id fsm.LimitID, h fsm.Holder) {
		b := l.limits.bound(id)
		b.held++
		l.limits.holders[h.Ref] = holding{concurrency: b, committed: true}
	})
}

func (m *limitMemory) bound(id fsm.LimitID) *bound {
	b := m.bounds[id]
	if b == nil {
		b = &bound{id: id, groups: map[*group]bool{}}
		m.bounds[id] = b
	}
	return b
}

// group returns what limits a task by a policy; nil: nothing.
func (l *loop) group(r fsm.Reader, t *fsm.Task, p *job.Policy) *group {
	if p.Concurrency == nil && p.Rate == nil {
		return nil
	}
	k := groupKey{
		job: jobKey{t.Namespace, t.Job}, concurrencyKey: t.ConcurrencyKey, rateKey: t.RateKey,
	}
	if p.Concurrency != nil {
		k.concurrency = *p.Concurrency
	}
	if p.Rate != nil {
		k.rate = *p.Rate
	}
	m := &l.limits
	if g := m.groups[k]; g != nil {
		return g
	}
	l.evictGroups()
	g := &group{groupKey: k, hint: fsm.LimitHint(t.Namespace, t.Job, t.ConcurrencyKey, t.RateKey)}
	m.groups[k] = g
	m.byHint[g.hint] = g
	if p.Concurrency != nil {
		g.concurrencyBound = m.bound(fsm.ConcurrencyID(t, p.Concurrency))
		g.concurrencyBound.groups[g] = true
	}
	if p.Rate != nil {
		id := fsm.RateID(t, p.Rate)
		if g.rateBound = m.rates[id]; g.rateBound == nil {
			if r == nil {
				var release func()
				r, release = l.read()
				defer release()
			}
			g.rateBound = &bound{id: id, state: fsm.RateState(r, id), groups: map[*group]bool{}, pos: -1}
			m.rates[id] = g.rateBound
		}
		g.rateBound.groups[g] = true
	}
	return g
}

// mayBegin reports whether an attempt of the group may begin now.
func (g *group) mayBegin(now int64) bool {
	if b := g.concurrencyBound; b != nil && b.held >= g.concurrency.Max {
		return false
	}
	b := g.rateBound
	return b == nil || g.rate.ReadyAt(b.state, now*1000) <= now*1000
}

// take notes that an attempt of the group is proposed.
func (l *loop) take(g *group, ref fsm.TaskRef, now int64) {
	g.usedAt = now
	h := holding{concurrency: g.concurrencyBound, rate: g.rateBound}
	if h.concurrency != nil {
		h.concurrency.held++
	}
	if h.rate != nil {
		h.rate.state = g.rate.Take(h.rate.state, now*1000)
	}
	l.limits.holders[ref] = h
}

// held notes what a committed attempt holds.
func (l *loop) held(r fsm.Reader, t *fsm.Task) {
	m := &l.limits
	h, known := m.holders[t.Ref()]
	if h.rate != nil { // apply stamped it a moment later
		h.rate.state = max(h.rate.state, fsm.RateState(r, h.rate.id))
	}
	id, holds := t.HeldLimit()
	switch {
	case !holds:
		l.giveBack(t.Ref())
	case known && h.concurrency != nil && h.concurrency.id == id:
		h.committed = true
		m.holders[t.Ref()] = h
	default:
		l.giveBack(t.Ref())
		b := m.bound(id)
		b.held++
		m.holders[t.Ref()] = holding{concurrency: b, committed: true}
	}
}

// giveBack notes that an attempt has ended, however.
func (l *loop) giveBack(ref fsm.TaskRef) {
	h, ok := l.limits.holders[ref]
	if !ok {
		return
	}
	delete(l.limits.holders, ref)
	if b := h.concurrency; b != nil {
		b.held--
		l.wake(b)
		l.limits.dropBound(b)
	}
}

// notTaken puts right what is known of the limits of a task whose assign was refused.
func (l *loop) notTaken(r fsm.Reader, ref fsm.TaskRef) {
	h, ok := l.limits.holders[ref]
	if !ok || h.committed {
		return
	}
	if h.rate != nil {
		h.rate.state = fsm.RateState(r, h.rate.id)
		l.wake(h.rate)
	}
	l.giveBack(ref)
}

// wake lets the queues that wait for a limit be matched again.
func (l *loop) wake(b *bound) {
	for g := range b.groups {
		for _, q := range g.parked {
			q.unpark()
		}
		g.parked = nil
		l.want(g)
	}
	l.dirty = true
}

// park hides a queue whose limit lets nothing begin.
func (l *loop) park(q *queue, now int64) {
	g := q.shape.group
	q.park()
	g.parked = append(g.parked, q)
	b := g.rateBound
	if b == nil {
		return
	}
	const micro = 1000
	at := (g.rate.ReadyAt(b.state, now*micro) + micro - 1) / micro
	if at <= now || b.wakeAt != 0 && b.wakeAt <= at {
		return
	}
	b.wakeAt = at
	if b.pos >= 0 {
		heap.Fix(&l.limits.waking, b.pos)
	} else {
		heap.Push(&l.limits.waking, b)
	}
}

// wakeRates wakes what waits for rates whose time has come.
func (l *loop) wakeRates(now int64) {
	for len(l.limits.waking) > 0 && l.limits.waking[0].wakeAt <= now {
		b, _ := heap.Pop(&l.limits.waking).(*bound)
		b.wakeAt = 0
		l.wake(b)
	}
}

// nextWake is when the next rate's time has come, Unix ms; false: nothing waits.
func (m *limitMemory) nextWake() (int64, bool) {
	if len(m.waking) == 0 {
		return 0, false
	}
	return m.waking[0].wakeAt, true
}

// blocked decides whether a due task of a group is left to the index: as long as
// earlier ones are, where many of its group are in memory, or where it could not begin
// and many others are in memory that can't.
func (l *loop) blocked(it *item, g *group, now int64) bool {
	p := it.priority
	if first := g.left[p]; first != nil && it.key().Compare(*first) >= 0 {
		return true
	}
	if !g.anyLeft() && l.limits.leaving >= maxLeaving {
		return false
	}
	if g.waiting >= maxBlocked {
		return true
	}
	return l.queues.parked[p] >= l.due.max/parkedShare && !g.mayBegin(now)
}

// leaveBlocked forgets a task of a group. It is found again by refill.
func (l *loop) leaveBlocked(it *item, g *group) {
	k := it.key()
	if !g.anyLeft() {
		l.limits.leaving++
	}
	if first := g.left[it.priority]; first == nil || k.Compare(*first) < 0 {
		g.left[it.priority] = &k
	}
	l.due.drop(it)
	l.want(g)
}

// want notes a group that lacks tasks which the index has.
func (l *loop) want(g *group) {
	if g.waiting < maxBlocked/2 && g.anyLeft() {
		l.limits.lacking[g] = true
	}
}

func (g *group) anyLeft() bool {
	return g.left[job.High] != nil || g.left[job.Normal] != nil || g.left[job.Low] != nil
}

// refill finds tasks again that were left to the index, where their limit lets them
// begin. It reports whether more is to be read.
func (l *loop) refill(now int64) (more bool) {
	if len(l.limits.lacking) == 0 {
		return false
	}
	r, release := l.cfg.State.Read()
	defer release()
	n := 0
	for g := range l.limits.lacking {
		if n++; n > maxRefills {
			return true
		}
		if !g.mayBegin(now) || !l.refillGroup(r, g, now) {
			delete(l.limits.lacking, g) // until it is woken, or lacks again
		}
	}
	return len(l.limits.lacking) > 0
}

// refillGroup reads on in the due index, the most urgent first.
func (l *loop) refillGroup(r fsm.Reader, g *group, now int64) (more bool) {
	for _, p := range job.Priorities {
		if g.left[p] == nil {
			continue
		}
		rows := fsm.ScanDue(r, p, *g.left[p], now+1, refillRows)
		for i, row := range rows {
			if g.waiting >= maxBlocked {
				first := rows[i].DueKey
				g.left[p] = &first
				return false
			}
			if row.Hint == g.hint || row.Hint == 0 {
				l.find(r, g, p, row)
			}
		}
		if len(rows) < refillRows {
			g.left[p] = nil
			continue
		}
		last := rows[len(rows)-1].DueKey
		last.Namespace += "\x00" // the smallest key after it
		g.left[p] = &last
		return true
	}
	return false
}

// find takes a task of the group into memory again, if it is one.
func (l *loop) find(r fsm.Reader, g *group, p job.Priority, row fsm.DueRow) {
	ref := fsm.TaskRef{Namespace: row.Namespace, ID: row.ID}
	if l.due.known[ref] != nil {
		return
	}
	t, ok := fsm.GetTask(r, ref)
	if !ok || t.State != job.Pending || t.Due != row.Due || t.Policy.Priority != p {
		return
	}
	s := l.shape(r, &t)
	if s.group != g {
		return
	}
	it := &item{ref: ref, priority: p, due: t.Due, hint: t.FairHint(), version: t.Version, job: jobOf(&t)}
	l.due.hold(it)
	l.queues.push(it, s)
	l.dirty = true
}

// skips reports whether a row of the due index needn't be loaded, since its group
// has left earlier ones there.
func (m *limitMemory) skips(p job.Priority, row *fsm.DueRow, now int64) bool {
	if row.Hint == 0 || row.Due > now {
		return false
	}
	g := m.byHint[row.Hint]
	return g != nil && g.left[p] != nil && row.Compare(*g.left[p]) >= 0
}

// forgetGroups drops what is remembered of a job's limits, which may have changed:
// the tasks that were left are loaded anew.
func (l *loop) forgetGroups(of jobKey) {
	for k, g := range l.limits.groups {
		if k.job != of {
			continue
		}
		for _, p := range job.Priorities {
			if first := g.left[p]; first != nil && first.Compare(l.due.frontier[p]) < 0 {
				l.due.frontier[p] = *first
			}
		}
		l.limits.forget(g)
	}
}

func (m *limitMemory) forget(g *group) {
	delete(m.groups, g.groupKey)
	delete(m.lacking, g)
	if m.byHint[g.hint] == g {
		delete(m.byHint, g.hint)
	}
	for _, b := range []*bound{g.concurrencyBound, g.rateBound} {
		if b != nil {
			delete(b.groups, g)
		}
	}
	if b := g.concurrencyBound; b != nil {
		m.dropBound(b)
	}
	if b := g.rateBound; b != nil && len(b.groups) == 0 {
		if b.pos >= 0 {
			heap.Remove(&m.waking, b.pos)
		}
		delete(m.rates, b.id)
	}
}

// dropBound forgets a concurrency limit that says nothing: no attempt holds it, and
// nothing in memory is under it.
func (m *limitMemory) dropBound(b *bound) {
	if b.held == 0 && len(b.groups) == 0 && m.bounds[b.id] == b {
		delete(m.bounds, b.id)
	}
}

// idle reports whether a group may be forgotten: nothing waits in it, nor was left,
// and what it knows state knows too. A concurrency limit is kept as long as it is held,
// a rate is read again from state, where one that is full has no row.
func (g *group) idle(now int64) bool {
	return g.waiting == 0 && !g.anyLeft() && g.usedAt <= now-idleAfter
}

// evictGroups makes room for one more group. Those that are in use are as many as
// there are tasks in memory, as maxLeaving, and as attempts begin within idleAfter.
func (l *loop) evictGroups() {
	m := &l.limits
	if len(m.groups) < max(m.evictAt, l.cfg.MaxGroups) {
		return
	}
	now := l.cfg.Now()
	for _, g := range m.groups {
		if g.idle(now) {
			m.forget(g)
		}
	}
	m.evictAt = len(m.groups) + l.cfg.MaxGroups/2 // else each new one would look through all
}

// tendGroups forgets groups that nothing belongs to, and looks after those whose
// tasks in memory went without being assigned.
func (l *loop) tendGroups() {
	many, now := len(l.limits.groups) > prunedGroups, l.cfg.Now()
	l.limits.leaving, l.limits.evictAt = 0, 0
	for _, g := range l.limits.groups {
		switch {
		case g.anyLeft():
			l.limits.leaving++
			l.want(g)
		case many && g.idle(now):
			l.limits.forget(g)
		}
	}
}

// rateHeap orders rates by when they are to be looked at again.
type rateHeap []*bound

func (h rateHeap) Len() int           { return len(h) }
func (h rateHeap) Less(i, j int) bool { return h[i].wakeAt < h[j].wakeAt }
func (h rateHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = i, j
}

// Push implements heap.Interface.
func (h *rateHeap) Push(x any) {
	b, _ := x.(*bound) // heap.Push is only called with rates
	b.pos = len(*h)
	*h = append(*h, b)
}

// Pop implements heap.Interface.
func (h *rateHeap) Pop() any {
	last := len(*h) - 1
	b := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	b.pos = -1
	return b
}
