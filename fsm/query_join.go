package fsm

import (
	"bytes"

	"github.com/axd-project/axd/job"
)

// maxSeenLooks bounds the tasks, runs and fires that Successes reads.
const maxSeenLooks = 2000

// Successes finds times within a period at which an upstream has succeeded, of which
// nobody took notice since nothing waited for it: of a schedule with planned times
// those, of any other the first that it finds. At most limit.
func Successes(r Reader, namespace string, u job.Upstream, planned bool, start, end int64, limit int) []int64 {
	s := &seeing{r: r, namespace: namespace, start: start, end: end, limit: limit}
	if !planned {
		s.limit = min(limit, 1)
	}
	switch {
	case u.Job != "":
		s.tasks(u.Job)
	case u.Workflow != "":
		s.runs(u.Workflow)
	default:
		s.fires(ScheduleRef{namespace, u.Schedule}, planned)
	}
	return s.found
}

type seeing struct {
	r          Reader
	namespace  string
	start, end int64
	limit      int
	found      []int64
}

// early is how long, in ms, before its time something may have been created.
const early = 2 * MaxEarly

func (s *seeing) full() bool { return len(s.found) >= s.limit }

func (s *seeing) add(nominal int64) {
	if !s.full() && nominal >= s.start && nominal < s.end {
		s.found = append(s.found, nominal)
	}
}

// ids reads the rows of an index that ends with ids, those created in the period.
func (s *seeing) ids(prefix key) (ids []job.ID) {
	lo := key(bytes.Clone(prefix)).id(job.NewID(max(s.start-early, 0), 0, 0))
	hi := key(bytes.Clone(prefix)).id(job.NewID(s.end, 0, 0))
	s.r.Ascend(lo, hi, func(k, _ []byte) bool {
		ids = append(ids, job.ID(k[len(prefix):]))
		return len(ids) < maxSeenLooks
	})
	return ids
}

func (s *seeing) tasks(name string) {
	for _, id := range s.ids(key{}.byJob(s.namespace, name)) {
		t, ok := GetTask(s.r, TaskRef{s.namespace, id})
		switch {
		case s.full():
			return
		case !ok || t.State != job.Success:
		case t.Schedule != "":
			s.add(t.Nominal)
		case !t.Run.IsZero():
			if run, ok := GetRun(s.r, t.RunRef()); ok {
				s.add(run.nominal())
			}
		default:
			s.add(t.Created)
		}
	}
}

func (s *seeing) runs(workflow string) {
	for _, id := range s.ids(key{}.runByWorkflow(s.namespace, workflow)) {
		if s.full() {
			return
		}
		if run, ok := GetRun(s.r, RunRef{s.namespace, id}); ok && run.State == job.RunSuccess {
			s.add(run.nominal())
		}
	}
}

func (s *seeing) fires(ref ScheduleRef, planned bool) {
	filter := FireFilter{Verdict: VerdictFired, From: s.start, To: s.end}
	for cursor, looks := "", 0; looks < maxSeenLooks && !s.full(); {
		list, next, _ := ListFires(s.r, ref, filter, cursor, MaxPage)
		for i := range list {
			if f := &list[i]; f.Origin.planned() == planned && f.succeeded(s.r) {
				s.add(f.Nominal)
			}
		}
		if cursor = next; cursor == "" {
			return
		}
		looks += MaxPage
	}
}

// succeeded tells whether the task or run of a fire has.
func (f *Fire) succeeded(r Reader) bool {
	if !f.Run.IsZero() {
		run, ok := GetRun(r, RunRef{f.Namespace, f.Run})
		return ok && run.State == job.RunSuccess
	}
	t, ok := GetTask(r, TaskRef{f.Namespace, f.Task})
	return ok && t.State == job.Success
}

// CountPlanned counts the planned times of a schedule in its ledger within a span.
func CountPlanned(r Reader, ref ScheduleRef, from, to int64) (n int) {
	for cursor, pages := "", 0; pages < 3; pages++ {
		list, next, _ := ListFires(r, ref, FireFilter{From: from, To: to}, cursor, MaxPage)
		for i := range list {
			if list[i].Origin == ByPlan {
				n += int(min(list[i].Number(), MaxJoinNeed+1))
			}
		}
		if cursor = next; cursor == "" || n > MaxJoinNeed {
			break
		}
	}
	return n
}
