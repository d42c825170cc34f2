package fsm

import (
	"slices"

	"pgregory.net/rapid"

	"github.com/axd-project/axd/job"
)

// compareLists pages through lists of every filter and compares them, and the
// counters, with what the model finds by looking at each task.
func (r *modelRun) compareLists() {
	now := r.model.now
	states := []job.Shown{"", job.ShownScheduled, job.ShownWaiting, job.ShownRetrying}
	for _, s := range job.States[2:] {
		states = append(states, job.Shown(s.String()))
	}
	for _, f := range []TaskFilter{
		{}, {Namespace: "default"}, {Namespace: "other"}, {Namespace: "default", Job: "j1"}, {Job: "j1-two"},
		{Worker: "w1"}, {Namespace: "default", Worker: "w2", Job: "j1"},
		{Namespace: "default", DueFrom: now - 500, DueTo: now + 500}, {DueFrom: now + 100},
	} {
		for _, s := range states {
			f.State = s
			r.compareList(f)
		}
	}
	counts := map[job.State]int64{}
	for _, t := range r.model.tasks {
		counts[t.state]++
	}
	for _, s := range job.States {
		if got := CountTasks(r.tx, "")[s]; got != counts[s] {
			r.t.Fatalf("%v: %d counted, the model has %d", s, got, counts[s])
		}
	}
	for _, p := range job.Priorities {
		var due []job.ID
		for _, t := range r.model.sorted() {
			if t.state == job.Pending && t.priority == p && t.due <= now {
				due = append(due, t.id)
			}
		}
		var got []job.ID
		for _, row := range ScanDue(r.tx, p, DueKey{}, now+1, 1000) {
			got = append(got, row.ID)
		}
		if !slices.Equal(sortIDs(got), due) {
			r.t.Fatalf("due at %v: %v, the model has %v", p, got, due)
		}
	}
}

func (r *modelRun) compareList(f TaskFilter) {
	limit := rapid.SampledFrom([]int{1, 2, 3, MaxPage}).Draw(r.t, "limit")
	var got []job.ID
	for cursor := ""; ; {
		p, err := ListTasks(r.tx, f, cursor, limit, r.model.now)
		if err != nil {
			r.t.Fatalf("%+v: %v", f, err)
		}
		if len(p.Tasks) > limit {
			r.t.Fatalf("%+v: a page of %d, the limit is %d", f, len(p.Tasks), limit)
		}
		for _, t := range p.Tasks {
			got = append(got, t.ID)
		}
		if cursor = p.Next; cursor == "" {
			break
		}
	}
	var want []job.ID
	for _, t := range r.model.sorted() {
		if t.matches(f, r.model.now) {
			want = append(want, t.id)
		}
	}
	if !slices.Equal(sortIDs(got), want) {
		r.t.Fatalf("%+v: %v, the model has %v", f, got, want)
	}
}

func (t *mTask) matches(f TaskFilter, now int64) bool {
	return (f.Namespace == "" || f.Namespace == "default") &&
		(f.State == "" || f.State == job.Show(t.state, t.due, t.retry, now)) &&
		(f.Job == "" || f.Job == t.job) &&
		(f.Worker == "" || t.state.Active() && f.Worker == t.worker) &&
		(f.DueFrom == 0 || t.due >= f.DueFrom) && (f.DueTo == 0 || t.due < f.DueTo)
}

func sortIDs(ids []job.ID) []job.ID {
	slices.SortFunc(ids, func(a, b job.ID) int { return slices.Compare(a[:], b[:]) })
	return ids
}
