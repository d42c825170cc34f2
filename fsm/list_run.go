package fsm

import (
	"bytes"

	"github.com/axd-project/axd/job"
)

// GetRun reads a run.
func GetRun(r Reader, ref RunRef) (Run, bool) { return getRow[Run](r, key{}.run(ref)) }

// RunParams reads what a run was started with; nil: nothing.
func RunParams(r Reader, run *Run) []byte {
	if !run.HasParams {
		return nil
	}
	b, _ := r.Get(key{}.runParams(run.Ref()))
	return bytes.Clone(b)
}

// RunFilter selects runs. Empty fields don't filter.
type RunFilter struct {
	Namespace string
	Workflow  string
	State     job.RunState
	From      int64 // created at or after, Unix ms
	To        int64 // created before, Unix ms; 0: any time
}

// RunPage is a page of a list, the run that was created first first; an empty Next
// means the end. A page may be short while Next is set: the scan limit was reached.
type RunPage struct {
	Runs []Run
	Next string
}

// ListRuns reads a page of at most limit runs. A cursor that isn't one is an error.
func ListRuns(r Reader, f RunFilter, cursor string, limit int) (RunPage, error) {
	span, prefix := f.span(r)
	span, err := span.from(cursor)
	if err != nil {
		return RunPage{}, err
	}
	var p RunPage
	limit = pageLimit(limit)
	for left := ScanLimit; ; {
		keys := deadKeys(r, span, min(scanChunk, left+1))
		for _, k := range keys {
			if len(p.Runs) == limit || left == 0 {
				return p, nil
			}
			left--
			p.Next = encodeCursor(k)
			if run, ok := GetRun(r, f.refOf(k, prefix)); ok && f.match(&run) {
				p.Runs = append(p.Runs, run)
			}
		}
		if len(keys) == 0 {
			p.Next = ""
			return p, nil
		}
		span.lo = append(bytes.Clone(keys[len(keys)-1]), 0)
	}
}

// span is the rows of the narrowest index, and where in a key the id begins; 0: at
// its end, behind a namespace.
func (f *RunFilter) span(r Reader) (span keyRange, prefix int) {
	if f.Namespace == "" {
		return keyRange{key{tableRuns}, tableEnd(tableRuns)}, 0
	}
	p := key{tableRuns}.name(f.Namespace)
	byState := key{}.runByState(f.Namespace, f.State)
	switch {
	case f.Workflow == "" && f.State == 0:
	case f.Workflow == "":
		p = byState
	case f.State == 0 || CountRuns(r, f.Namespace, f.Workflow).Sum() < CountRuns(r, f.Namespace, "")[f.State]:
		p = key{}.runByWorkflow(f.Namespace, f.Workflow)
	default:
		p = byState
	}
	first, last := job.NewID(max(f.From, 0), 0, 0), prefixEnd(p)
	if f.To != 0 {
		end := job.NewID(f.To, 0, 0)
		last = bytes.Clone(p.id(end))
	}
	return keyRange{bytes.Clone(p.id(first)), last}, len(p)
}

func (f *RunFilter) refOf(k key, prefix int) RunRef {
	if prefix == 0 {
		return readKey(k).runRef()
	}
	return RunRef{f.Namespace, job.ID(k[prefix:])}
}

func (f *RunFilter) match(run *Run) bool {
	return (f.Workflow == "" || run.Workflow == f.Workflow) && (f.State == 0 || run.State == f.State) &&
		run.Created >= f.From && (f.To == 0 || run.Created < f.To)
}

// RunStep is a step of a run with its task.
type RunStep struct {
	Number uint32 // in the order of the graph
	Step
	Record Task
}

// ListRunSteps reads a page of at most limit steps of a run, in the order of the
// graph. While the run is being made, the last are missing.
func ListRunSteps(r Reader, ref RunRef, cursor string, limit int) (steps []RunStep, next string, err error) {
	p := key{tableSteps}.runRef(ref)
	span, err := keyRange{p, prefixEnd(p)}.from(cursor)
	if err != nil {
		return nil, "", err
	}
	limit = pageLimit(limit)
	c := codecs.Get().(*codec)
	defer codecs.Put(c)
	var last key
	r.Ascend(span.lo, span.hi, func(k, v []byte) bool {
		if len(steps) == limit {
			next = encodeCursor(last)
			return false
		}
		s := RunStep{Number: (&keyReader{rest: k[len(p):]}).u32()}
		mustDecode(c, k, v, &s.Step)
		steps = append(steps, s)
		last = append(last[:0], k...)
		return true
	})
	for i := range steps {
		steps[i].Record, _ = GetTask(r, TaskRef{ref.Namespace, steps[i].Task})
	}
	return steps, next, nil
}

// RunStateCounts are the numbers of runs by state; a state without runs is left out.
type RunStateCounts map[job.RunState]int64

// Sum adds all counts.
func (c RunStateCounts) Sum() (n int64) {
	for _, v := range c {
		n += v
	}
	return n
}

// CountRuns returns the counters of a workflow's runs; without a workflow of a
// namespace, without either of all.
func CountRuns(r Reader, namespace, workflow string) RunStateCounts {
	prefix := key{}.counter(countRuns)
	switch {
	case workflow != "":
		prefix = key{}.counter(countRunWorkflow).name(namespace).name(workflow)
	case namespace != "":
		prefix = key{}.counter(countRunNamespace).name(namespace)
	}
	counts := RunStateCounts{}
	r.Ascend(prefix, prefixEnd(prefix), func(k, v []byte) bool {
		counts[job.RunState(k[len(k)-1])] = decodeCounter(v)
		return true
	})
	return counts
}

// ListOwingRuns reads up to limit runs that are to be continued.
func ListOwingRuns(r Reader, limit int) (runs []RunRef) {
	r.Ascend(key{tableRunOwed}, tableEnd(tableRunOwed), func(k, _ []byte) bool {
		runs = append(runs, readKey(k).runRef())
		return len(runs) < limit
	})
	return runs
}

// ListLateRuns reads up to limit runs that run and whose time-out ends in
// from <= time <= to.
func ListLateRuns(r Reader, from, to int64, limit int) (runs []RunRef) {
	if from > to {
		return nil
	}
	r.Ascend(key{tableRunDeadlines}.time(from), key{tableRunDeadlines}.time(to+1), func(k, _ []byte) bool {
		kr := readKey(k)
		kr.time()
		runs = append(runs, kr.runRef())
		return len(runs) < limit
	})
	return runs
}
