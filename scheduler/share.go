package scheduler

import (
	"slices"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// Sharing memory: the tasks of one namespace or fairness key that came first could
// fill the memory, so that those of others were not seen. Where that may be, each
// keeps an equal part of it; what is beyond is left to the due index, the scan goes
// on behind it, and it is read again as the part empties.
const (
	minShare     = 16  // tasks that each may have in memory
	maxShares    = 500 // keys told apart, per priority; those of one namespace beyond it share a part
	roomyShares  = 4   // a part that is so many times what it should be is cut at once
	sharedMemory = 2   // of a priority's memory a fraction is divided
)

type shareKey struct {
	namespace string
	hint      uint64 // of the fairness key; 0: none
}

// share is what the tasks of one key take of a priority's memory.
type share struct {
	shareKey
	n int // tasks
	// left is the first key that was left to the index; nil: none was.
	left *fsm.DueKey
}

// sharing is how a priority's memory is divided.
type sharing struct {
	on      bool
	shares  map[shareKey]*share
	last    *share // most tasks are of the same as the one before
	lacking bool   // a part may have room for what it left
}

// of returns the share of tasks.
func (s *sharing) of(namespace string, hint uint64) *share {
	if l := s.last; l != nil && l.namespace == namespace && l.hint == hint {
		return l
	}
	k := shareKey{namespace, hint}
	if s.shares[k] == nil && len(s.shares) >= maxShares {
		k.hint = 0
	}
	one := s.shares[k]
	if one == nil {
		if s.shares == nil {
			s.shares = map[shareKey]*share{}
		}
		one = &share{shareKey: k}
		s.shares[k] = one
	}
	s.last = one
	return one
}

// most is how many tasks each may have in memory.
func (s *sharing) most(all int) int { return max(all/sharedMemory/(len(s.shares)+1), minShare) }

// leave notes a task that is left to the index.
func (one *share) leave(k fsm.DueKey) {
	if one.left == nil || k.Compare(*one.left) < 0 {
		one.left = &k
	}
}

// mayHold decides whether a task before the frontier is held, while memory is shared.
func (d *dueWindow) mayHold(it *item) bool {
	s := &d.sharing[it.priority]
	one := s.of(it.ref.Namespace, it.hint)
	if one.left != nil && it.key().Compare(*one.left) >= 0 {
		return false
	}
	if one.n >= s.most(d.max) || d.count[it.priority] >= d.max {
		one.leave(it.key())
		return false
	}
	return true
}

// counted notes that a task of the share came to memory or left it.
func (d *dueWindow) counted(it *item, n int) {
	d.count[it.priority] += n
	s := &d.sharing[it.priority]
	if n > 0 {
		it.share = s.of(it.ref.Namespace, it.hint)
	}
	it.share.n += n
	if n < 0 && it.share.left != nil {
		s.lacking = true
	}
}

// read loads one row while memory is shared.
func (d *dueWindow) read(p job.Priority, row *fsm.DueRow) {
	it := &item{ref: fsm.TaskRef{Namespace: row.Namespace, ID: row.ID}, priority: p, due: row.Due, hint: row.FairHint()}
	if d.mayHold(it) {
		d.insert(it)
	}
}

// again loads what shares with room left to the index, of a bounded number of rows.
// It reports whether more is to be read.
func (d *dueWindow) again(r fsm.Reader, p job.Priority, m *limitMemory, now int64) (more bool) {
	s := &d.sharing[p]
	most := s.most(d.max)
	var from *fsm.DueKey
	for _, one := range s.shares {
		if one.left != nil && one.n <= most/2 && (from == nil || one.left.Compare(*from) < 0) {
			from = one.left
		}
	}
	if from == nil || d.count[p] >= d.max {
		s.lacking = false
		return false
	}
	end := d.frontier[p]
	rows := fsm.ScanDue(r, p, *from, end.Due+1, maxScan)
	ended := len(rows) < maxScan
	if i := slices.IndexFunc(rows, func(row fsm.DueRow) bool { return row.Compare(end) >= 0 }); i >= 0 {
		rows, ended = rows[:i], true
	}
	after := end
	if !ended {
		after = rows[len(rows)-1].DueKey
		after.Namespace += "\x00" // the smallest key after it
	}
	taking := map[*share]bool{}
	for _, one := range s.shares {
		if one.left != nil && one.n <= most/2 && one.left.Compare(after) < 0 {
			taking[one], one.left = true, nil
		}
	}
	for i := range rows {
		row := &rows[i]
		if d.known[fsm.TaskRef{Namespace: row.Namespace, ID: row.ID}] == nil && !m.skips(p, row, now) {
			d.read(p, row)
		}
	}
	if !ended { // what comes after was left too
		for one := range taking {
			one.leave(after)
		}
	}
	return true
}

// tendShares divides a priority's memory where tasks of one fill it while others may
// wait behind them, and ends that when it is no longer so.
func (l *loop) tendShares() {
	for _, p := range job.Priorities {
		d, s := &l.due, &l.due.sharing[p]
		switch full := d.count[p] > d.max/2; {
		case !s.on && full && l.othersWait(p):
			s.on = true
			l.cut(p, 1)
		case s.on && full:
			l.cut(p, roomyShares)
		case s.on && !full && !s.anyLeft():
			s.on = false
		}
		if len(s.shares) > maxShares/2 {
			s.prune()
		}
	}
}

func (s *sharing) anyLeft() bool {
	for _, one := range s.shares {
		if one.left != nil {
			return true
		}
	}
	return false
}

func (s *sharing) prune() {
	for k, one := range s.shares {
		if one.n == 0 && one.left == nil {
			delete(s.shares, k)
		}
	}
	s.last = nil
}

// othersWait reports whether memory is filled by some while tasks of others may be in
// the index: there are keys, or namespaces of which fewer tasks are in memory than wait.
func (l *loop) othersWait(p job.Priority) bool {
	s := &l.due.sharing[p]
	for k := range s.shares {
		if k.hint != 0 {
			return true
		}
	}
	r, release := l.cfg.State.Read()
	defer release()
	others := fsm.CountTasks(r, "")[job.Pending]
	for _, one := range s.shares {
		if one.n > s.most(l.due.max) {
			others -= fsm.CountTasks(r, one.namespace)[job.Pending]
		}
	}
	return others > 0
}

// cut leaves those tasks of large shares to the index that are due last.
func (l *loop) cut(p job.Priority, times int) {
	d, s := &l.due, &l.due.sharing[p]
	most := s.most(d.max)
	var large map[*share][]*item
	for _, one := range s.shares {
		if one.n > most*times {
			if large == nil {
				large = map[*share][]*item{}
			}
			large[one] = make([]*item, 0, one.n)
		}
	}
	if large == nil {
		return
	}
	for _, it := range d.known {
		if items, ok := large[it.share]; ok && it.priority == p && !it.assigning {
			large[it.share] = append(items, it)
		}
	}
	for one, items := range large {
		slices.SortFunc(items, func(a, b *item) int { return a.key().Compare(b.key()) })
		for _, it := range items[min(most, len(items)):] {
			one.leave(it.key())
			d.drop(it)
		}
	}
}
