package fsm

import "slices"

// expireRuns deletes the runs that ended before a time, with their tasks, the
// earliest first, and returns how many rows of the budget are left. A run that is
// too large for one entry goes step by step; nobody can change it meanwhile.
func (a *apply) expireRuns(dead byte, before int64, budget int, r *Result) int {
	for {
		var next *RunRef
		p := key{tableRunEnded, dead}
		if before > 0 {
			a.tx.Ascend(p, key{tableRunEnded, dead}.time(before), func(k, _ []byte) bool {
				kr := keyReader{rest: k[2:]}
				kr.time()
				next = new(kr.runRef())
				return false
			})
		}
		switch {
		case next == nil:
			return budget
		case budget < maxTaskRows+maxRunRows:
			r.More = true
			return budget
		}
		h, ok := a.heldRun(*next)
		if !ok {
			panic("fsm: the state is damaged: ended run " + next.ID.String() + " is gone")
		}
		budget = a.deleteRun(h, budget, r)
	}
}

// maxRunRows is how many rows a run has beside those of its steps.
const maxRunRows = 10

// deleteRun deletes a run as far as the budget goes.
func (a *apply) deleteRun(h *heldRun, budget int, r *Result) int {
	if h.Act.Kind != ActDelete {
		h.Act = RunAct{Kind: ActDelete}
	}
	a.changeRun(h)
	for ; int(h.Act.At) < h.Steps; h.Act.At++ {
		if budget < maxTaskRows+maxRunRows {
			return 0
		}
		n := h.Act.At
		s := a.step(h, n)
		if a.deleteItem(h, n, s, &budget) {
			h.Act.At-- // again
			r.Deleted++
			continue
		}
		t := a.taskOf(h, s)
		if t.Dead {
			h.Dead--
		}
		budget -= a.deleteTask(t) + 1
		h.Counts[countedState(t.State)]--
		a.key = a.key.step(h.Ref(), n)
		a.delete(a.key)
		delete(h.steps, n)
		if s.changed {
			h.dirty = slices.DeleteFunc(h.dirty, func(x *heldStep) bool { return x == s })
		}
		r.Deleted++
	}
	a.forgetRun(h)
	r.Deleted++
	return budget - maxRunRows
}

// forgetRun deletes the rows of a run whose steps are gone.
func (a *apply) forgetRun(h *heldRun) {
	run, ref := &h.stored, h.Ref()
	h.gone = true
	a.delete(a.key.run(ref))
	a.delete(a.key.runByState(run.Namespace, run.State).id(run.ID))
	a.delete(a.key.runByWorkflow(run.Namespace, run.Workflow).id(run.ID))
	a.delete(a.key.runEnded(run))
	if run.HasParams {
		a.delete(a.key.runParams(ref))
	}
	if run.Key != "" {
		k := key{}.runKey(run.Namespace, run.Key)
		if b, ok := a.tx.Get(k); ok {
			if row, ok := decodeKeyRow(b); ok && row.ID == run.ID {
				a.delete(k)
			}
		}
	}
	a.countRun(run, -1)
	a.key = a.key.counter(countRunVersion).name(run.Namespace).name(run.Workflow).u64(run.WorkflowVersion)
	a.addCounter(a.key, -1)
	a.releaseVersion(run.Namespace, run.Workflow, run.WorkflowVersion)
}
