package fsm

import (
	"slices"
	"strconv"

	"github.com/axd-project/axd/job"
)

// checkAfter refuses upstreams that don't exist, that too many wait for already, and
// those by which a schedule would wait for itself.
func (a *apply) checkAfter(ref ScheduleRef, s *job.ScheduleSpec) *job.Error {
	if s.After == nil {
		return nil
	}
	added := 0
	for i, up := range s.After.All {
		kind, name := upstreamOf(up)
		u := upstream{kind, ref.Namespace, name}
		field := "after.all[" + strconv.Itoa(i) + "]." + relNames[kind]
		switch {
		case kind == relSchedule && name == ref.Name:
			return job.Invalid(field, "must not be the schedule itself", name)
		case !upstreamExists(a.tx, u):
			return &job.Error{Code: job.CodeNotFound, Field: field, Rule: "does not exist", Value: job.Shorten(name)}
		}
		a.key = a.key.relation(kind, ref.Namespace, name).name(ref.Name)
		if _, ok := a.tx.Get(a.key); ok {
			continue
		}
		added++
		if a.awaited[u] >= MaxDependents {
			return &job.Error{
				Code: job.CodeQuotaExceeded, Field: field, Value: job.Shorten(name),
				Rule: "has as many schedules that wait for it as may be, " + strconv.Itoa(MaxDependents),
			}
		}
	}
	if added > 0 && a.dependencies+added > MaxDependencies {
		return &job.Error{
			Code: job.CodeQuotaExceeded, Field: "after",
			Rule: "is not taken: schedules wait for as much as may be, " + strconv.Itoa(MaxDependencies),
		}
	}
	return a.leadsBackToSchedule(ref, s)
}

func upstreamExists(r Reader, u upstream) bool {
	var k key
	switch u.kind {
	case relJob:
		k = k.job(u.namespace, u.name)
	case relSchedule:
		k = k.schedule(ScheduleRef{u.namespace, u.name})
	default:
		w, ok := getRow[Workflow](r, k.workflow(u.namespace, u.name))
		return ok && !w.Deleted
	}
	_, ok := r.Get(k)
	return ok
}

// maxWayNodes bounds what the search for a way back looks at.
const maxWayNodes = 5000

// way is the search for a way by which what an object brings about comes back to it:
// a schedule fires a job or a workflow, a workflow runs jobs and other workflows, and
// each of them is waited for by schedules.
type way struct {
	a     *apply
	begin upstream
	next  []upstream // what begin brings about, by its new definition
	waits []upstream // what it waits for, likewise
	from  map[upstream]upstream
	ahead []upstream
}

func (a *apply) leadsBackToSchedule(ref ScheduleRef, s *job.ScheduleSpec) *job.Error {
	w := way{a: a, begin: upstream{relSchedule, ref.Namespace, ref.Name}}
	w.next = []upstream{fired(ref.Namespace, s)}
	for _, u := range s.After.All {
		kind, name := upstreamOf(u)
		w.waits = append(w.waits, upstream{kind, ref.Namespace, name})
	}
	return w.back("after", "must not wait for what the schedule itself brings about: ")
}

func (a *apply) leadsBackToWorkflow(namespace, name string, s *job.WorkflowSpec) *job.Error {
	if len(a.awaited) == 0 {
		return nil
	}
	w := way{a: a, begin: upstream{relWorkflow, namespace, name}, next: runs(namespace, jobsOf(s), s.SubWorkflows())}
	return w.back("steps", "must not run what the workflow's own schedule waits for: ")
}

// fired is what a schedule fires.
func fired(namespace string, s *job.ScheduleSpec) upstream {
	if s.Workflow != "" {
		return upstream{relWorkflow, namespace, s.Workflow}
	}
	return upstream{relJob, namespace, s.Job}
}

// runs is what a workflow runs.
func runs(namespace string, jobs, subs []string) (all []upstream) {
	for _, name := range jobs {
		all = append(all, upstream{relJob, namespace, name})
	}
	for _, name := range subs {
		all = append(all, upstream{relWorkflow, namespace, name})
	}
	return all
}

// back refuses a way back, which it names.
func (w *way) back(field, rule string) *job.Error {
	w.from = map[upstream]upstream{}
	for n, left := w.begin, maxWayNodes; left > 0; left-- {
		for _, next := range w.after(n) {
			if next == w.begin {
				return job.Invalid(field, rule+w.path(n), w.begin.name)
			}
			if _, seen := w.from[next]; !seen {
				w.from[next] = n
				w.ahead = append(w.ahead, next)
			}
		}
		if len(w.ahead) == 0 {
			return nil
		}
		n, w.ahead = w.ahead[0], w.ahead[1:]
	}
	return job.Invalid(field, "must not bring about more than "+strconv.Itoa(maxWayNodes)+" schedules, workflows and jobs that others wait for", w.begin.name)
}

// after is what an object brings about, and which schedules wait for it.
func (w *way) after(n upstream) []upstream {
	all := slices.Clone(w.next)
	if n != w.begin {
		all = w.broughtAbout(n)
	}
	if slices.Contains(w.waits, n) {
		all = append(all, w.begin)
	}
	if w.a.awaited[n] == 0 {
		return all
	}
	for _, name := range dependents(w.a.tx, n, MaxDependents) {
		if s := (upstream{relSchedule, n.namespace, name}); s != w.begin || w.waits == nil { // else its new definition counts
			all = append(all, s)
		}
	}
	return all
}

// broughtAbout is what an object fires or runs; a job alone does nothing, so of a
// workflow's only those count that something waits for.
func (w *way) broughtAbout(n upstream) (all []upstream) {
	switch n.kind {
	case relSchedule:
		if h := w.a.schedule(ScheduleRef{n.namespace, n.name}); h.st != nil {
			all = append(all, fired(n.namespace, w.a.specOf(h)))
		}
	case relWorkflow:
		flow, ok := w.a.workflow(n.namespace, n.name)
		if !ok || flow.Deleted {
			return nil
		}
		g := w.a.graph(n.namespace, n.name, flow.Version)
		all = slices.DeleteFunc(runs(n.namespace, g.jobs, g.subs), func(u upstream) bool {
			return u.kind == relJob && w.a.awaited[u] == 0 && !slices.Contains(w.waits, u)
		})
	}
	return all
}

// path names the way from the begin to an object, and back.
func (w *way) path(last upstream) string {
	names := []string{w.begin.label()}
	for n := last; n != w.begin; n = w.from[n] {
		names = append(names, n.label())
	}
	names = append(names, w.begin.label())
	slices.Reverse(names)
	return job.JoinPath(names)
}
