package fsm

import (
	"bytes"
	"encoding/base64"

	"github.com/axd-project/axd/job"
)

// TaskFilter selects tasks. Empty fields don't filter. A list walks the
// narrowest index that the filter allows.
type TaskFilter struct {
	Namespace string
	State     job.Shown
	Job       string
	Worker    string // active attempts of this worker
	Run       job.ID // steps of this run; needs a namespace
	Parent    job.ID // parts of this broadcast; needs a namespace
	App       string
	Owner     string
	DueFrom   int64 // Unix ms, inclusive
	DueTo     int64 // Unix ms, exclusive
}

// TaskPage is a page of a list; an empty Next means the end. A page may be
// short, even empty, while Next is set: the scan limit was reached.
type TaskPage struct {
	Tasks []Task
	Next  string
}

// ListTasks reads a page of at most limit tasks from cursor, in the order of the
// index it walks: by due time within each priority for the states scheduled,
// waiting and retrying, by worker for dispatched and running, else by id, which
// is by creation. now is the cluster's
// clock, which splits pending. A cursor that isn't one is an error.
func ListTasks(r Reader, f TaskFilter, cursor string, limit int, now int64) (TaskPage, error) {
	q, err := newTaskQuery(r, f, now)
	if err != nil {
		return TaskPage{}, err
	}
	walk, err := q.choose(cursor)
	if err != nil {
		return TaskPage{}, err
	}
	return q.page(walk, pageLimit(limit)), nil
}

func pageLimit(limit int) int {
	if limit <= 0 {
		return MaxPage
	}
	return min(limit, MaxPage)
}

// keyRange is lo <= key < hi.
type keyRange struct{ lo, hi []byte }

func (r keyRange) contains(k []byte) bool {
	return bytes.Compare(r.lo, k) <= 0 && (r.hi == nil || bytes.Compare(k, r.hi) < 0)
}

// from returns what is left of the range behind a list's cursor; all of it without
// one. A cursor of another list is an error.
func (r keyRange) from(cursor string) (keyRange, error) {
	if cursor == "" {
		return r, nil
	}
	last, err := decodeCursor(cursor)
	if err != nil {
		return r, err
	}
	if !r.contains(last) {
		return r, badCursor(cursor)
	}
	r.lo = append(last, 0)
	return r, nil
}

// taskWalk is a way to find the tasks that a filter selects: ranges of one
// table, and what their keys say.
type taskWalk struct {
	table  byte
	ranges []keyRange
	rows   int64 // how many there may be
	// ref names the task of a row, false where the row alone shows that the
	// filter leaves it out.
	ref func(k, v []byte) (TaskRef, bool)
}

// taskQuery is one call of ListTasks.
type taskQuery struct {
	r      Reader
	f      TaskFilter
	now    int64
	stored job.State // of f.State; 0 when that is empty
	jobs   map[jobName]job.Policy
}

func newTaskQuery(r Reader, f TaskFilter, now int64) (*taskQuery, error) {
	for _, name := range [][2]string{{"namespace", f.Namespace}, {"job", f.Job}, {"worker", f.Worker}} {
		if name[1] == "" {
			continue
		}
		if err := job.ValidateName(name[0], name[1]); err != nil {
			return nil, err
		}
	}
	q := &taskQuery{r: r, f: f, now: now, jobs: map[jobName]job.Policy{}}
	if f.State == "" {
		return q, nil
	}
	_, stored, err := job.ParseShown(string(f.State))
	if err != nil {
		return nil, err
	}
	q.stored = stored
	return q, nil
}

// choose returns the walk that a cursor belongs to, behind its place; without a
// cursor the narrowest walk.
func (q *taskQuery) choose(cursor string) (taskWalk, error) {
	walks := q.walks()
	if cursor == "" {
		best := walks[0]
		for _, w := range walks[1:] {
			if w.rows < best.rows {
				best = w
			}
		}
		return best, nil
	}
	last, err := decodeCursor(cursor)
	if err != nil {
		return taskWalk{}, err
	}
	for _, w := range walks {
		if w.table != last[0] {
			continue
		}
		if w.seek(last) {
			return w, nil
		}
	}
	return taskWalk{}, badCursor(cursor)
}

// seek drops what lies at or before last, which must lie in one of the ranges.
// A due range may have moved on with the clock since the cursor was made, so
// there the table and priority suffice.
func (w *taskWalk) seek(last key) bool {
	for i, span := range w.ranges {
		samePriority := w.table == tableDue && len(last) > dueSuffix && last[1] == span.lo[1]
		if samePriority || span.contains(last) {
			w.ranges = w.ranges[i:]
			w.ranges[0].lo = maxKey(span.lo, append(last, 0))
			return true
		}
	}
	return false
}

func maxKey(a, b []byte) []byte {
	if bytes.Compare(a, b) < 0 {
		return b
	}
	return a
}

// walks lists the ways that find every selected task, the usual best first.
func (q *taskQuery) walks() []taskWalk {
	f := q.f
	if f.Worker != "" {
		return []taskWalk{q.byWorker()}
	}
	if !f.Run.IsZero() {
		items := q.byItem()
		steps := q.byRun()
		steps.ranges = append(steps.ranges, items.ranges...)
		items.rows = 1 // where a cursor leads alone
		return []taskWalk{steps, items}
	}
	if !f.Parent.IsZero() {
		return []taskWalk{q.byParent()}
	}
	var walks []taskWalk
	counts := CountTasks(q.r, f.Namespace)
	switch {
	case q.stored == job.Pending:
		walks = append(walks, q.byDue())
	case q.stored.Active():
		walks = append(walks, q.byWorker())
	case q.stored != 0 && f.Namespace != "":
		prefix := key{}.byState(f.Namespace, q.stored)
		walks = append(walks, prefixWalk(prefix, counts[q.stored], func(k, _ []byte) (TaskRef, bool) {
			return TaskRef{f.Namespace, job.ID(k[len(prefix):])}, true
		}))
	}
	if f.Job != "" && f.Namespace != "" {
		prefix := key{}.byJob(f.Namespace, f.Job)
		rows := CountJobTasks(q.r, f.Namespace, f.Job).Sum()
		walks = append(walks, prefixWalk(prefix, rows, func(k, _ []byte) (TaskRef, bool) {
			return TaskRef{f.Namespace, job.ID(k[len(prefix):])}, true
		}))
	}
	prefix := key{tableTasks}
	if f.Namespace != "" {
		prefix = prefix.name(f.Namespace)
	}
	return append(walks, prefixWalk(prefix, counts.Sum()+1, nil))
}

func prefixWalk(prefix key, rows int64, ref func(k, v []byte) (TaskRef, bool)) taskWalk {
	return taskWalk{table: prefix[0], ranges: []keyRange{{prefix, prefixEnd(prefix)}}, rows: rows, ref: ref}
}

// byWorker walks what workers hold, which their slots bound.
func (q *taskQuery) byWorker() taskWalk {
	prefix := key{tableActive}
	if q.f.Worker != "" {
		prefix = prefix.name(q.f.Worker)
		if q.f.Namespace != "" {
			prefix = prefix.name(q.f.Namespace)
		}
	}
	return prefixWalk(prefix, 0, func(k, _ []byte) (TaskRef, bool) {
		kr := readKey(k)
		kr.name()
		ref := kr.ref()
		return ref, q.f.Namespace == "" || ref.Namespace == q.f.Namespace
	})
}

// byRun walks the steps of a run.
func (q *taskQuery) byRun() taskWalk {
	prefix := key{tableSteps}.runRef(RunRef{q.f.Namespace, q.f.Run})
	return prefixWalk(prefix, 0, func(k, v []byte) (TaskRef, bool) {
		if k[0] == tableItems {
			return TaskRef{q.f.Namespace, job.ID(v)}, true
		}
		var s Step
		c := codecs.Get().(*codec)
		defer codecs.Put(c)
		mustDecode(c, k, v, &s)
		return TaskRef{q.f.Namespace, s.Task}, true
	})
}

// byItem walks the items of a run's steps.
func (q *taskQuery) byItem() taskWalk {
	prefix := key{tableItems}.runRef(RunRef{q.f.Namespace, q.f.Run})
	return prefixWalk(prefix, 0, func(_, v []byte) (TaskRef, bool) {
		return TaskRef{q.f.Namespace, job.ID(v)}, true
	})
}

// byParent walks the parts of a broadcast.
func (q *taskQuery) byParent() taskWalk {
	return prefixWalk(key{}.parts(TaskRef{q.f.Namespace, q.f.Parent}), 0, func(_, v []byte) (TaskRef, bool) {
		return TaskRef{q.f.Namespace, job.ID(v)}, true
	})
}

// byDue walks the due index, priority after priority.
func (q *taskQuery) byDue() taskWalk {
	from, to := q.f.DueFrom, job.MaxTime+1
	if q.f.DueTo != 0 {
		to = min(to, q.f.DueTo)
	}
	if q.f.State == job.ShownWaiting {
		to = min(to, q.now+1)
	} else {
		from = max(from, q.now+1)
	}
	w := taskWalk{table: tableDue, rows: CountTasks(q.r, "")[job.Pending]}
	for _, p := range job.Priorities {
		lo := maxKey(key{}.time(from), readLow(q.r, p))
		w.ranges = append(w.ranges, keyRange{append(key{tableDue, byte(p)}, lo...), key{tableDue, byte(p)}.time(to)})
	}
	w.ref = func(k, v []byte) (TaskRef, bool) {
		row, ok := decodeDue(k, v)
		switch {
		case !ok, q.f.Namespace != "" && row.Namespace != q.f.Namespace:
			return TaskRef{}, false
		case q.f.State == job.ShownScheduled && row.Retry, q.f.State == job.ShownRetrying && !row.Retry:
			return TaskRef{}, false
		}
		return TaskRef{row.Namespace, row.ID}, true
	}
	return w
}

// match applies the whole filter to a task.
func (q *taskQuery) match(t *Task) bool {
	f := &q.f
	switch {
	case f.Namespace != "" && t.Namespace != f.Namespace,
		f.State != "" && job.Show(t.State, t.Due, t.Retry, q.now) != f.State,
		f.Job != "" && t.Job != f.Job,
		!f.Run.IsZero() && t.Run != f.Run,
		!f.Parent.IsZero() && (t.Extra == nil || t.Extra.Parent != f.Parent),
		f.Worker != "" && (!t.State.Active() || t.Worker != f.Worker),
		f.DueFrom != 0 && t.Due < f.DueFrom,
		f.DueTo != 0 && t.Due >= f.DueTo:
		return false
	case f.App == "" && f.Owner == "":
		return true
	}
	p := q.policy(t)
	return (f.App == "" || p.App == f.App) && (f.Owner == "" || p.Owner == f.Owner)
}

// policy is what holds for a task, its job's part included.
func (q *taskQuery) policy(t *Task) job.Policy {
	if t.Job == "" {
		return t.Policy
	}
	n := jobName{t.Namespace, t.Job}
	p, ok := q.jobs[n]
	if !ok {
		j, _ := GetJob(q.r, n.namespace, n.name)
		p = j.Spec.Policy
		q.jobs[n] = p
	}
	return p.Merge(t.Policy)
}

// scanChunk is how many rows are gathered before their tasks are read: rows
// can't be looked up while the reader walks.
const scanChunk = 256

// page fills a page from a walk.
func (q *taskQuery) page(w taskWalk, limit int) TaskPage {
	var p TaskPage
	var last key
	left := ScanLimit
	for _, span := range w.ranges {
		for {
			if left == 0 {
				p.Next = encodeCursor(last)
				return p
			}
			want := min(scanChunk, left, limit-len(p.Tasks)+1)
			rows := q.chunk(w, span, want)
			for _, row := range rows {
				if len(p.Tasks) == limit {
					p.Next = encodeCursor(last)
					return p
				}
				last = row.key
				left--
				if q.selects(&row) {
					p.Tasks = append(p.Tasks, *row.task)
				}
			}
			if len(rows) < want {
				break
			}
			span.lo = append(bytes.Clone(last), 0)
		}
	}
	return p
}

type taskRow struct {
	key  key
	ref  TaskRef
	skip bool  // the filter leaves it out
	task *Task // nil until read, where the row isn't the task itself
}

// chunk gathers up to limit rows.
func (q *taskQuery) chunk(w taskWalk, span keyRange, limit int) []taskRow {
	if bytes.Compare(span.lo, span.hi) >= 0 {
		return nil
	}
	c := codecs.Get().(*codec)
	defer codecs.Put(c)
	var rows []taskRow
	q.r.Ascend(span.lo, span.hi, func(k, v []byte) bool {
		row := taskRow{key: bytes.Clone(k)}
		if w.ref == nil {
			row.task = new(Task)
			mustDecode(c, k, v, row.task)
		} else {
			ref, ok := w.ref(k, v)
			row.ref, row.skip = ref, !ok
		}
		rows = append(rows, row)
		return len(rows) < limit
	})
	return rows
}

// selects reads the row's task, where the row isn't the task itself, and
// applies the filter.
func (q *taskQuery) selects(row *taskRow) bool {
	if row.skip {
		return false
	}
	if row.task == nil {
		t, ok := GetTask(q.r, row.ref)
		if !ok {
			return false
		}
		row.task = &t
	}
	return q.match(row.task)
}

// cursorVersion begins a cursor; behind it is the last key that was looked at.
const cursorVersion = 1

func encodeCursor(last key) string {
	return base64.RawURLEncoding.EncodeToString(append([]byte{cursorVersion}, last...))
}

func decodeCursor(s string) (key, error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) < 2 || b[0] != cursorVersion {
		return nil, badCursor(s)
	}
	return b[1:], nil
}

func badCursor(s string) error {
	return job.Invalid("cursor", "must be a next_cursor that a list with the same filter answered", s)
}
