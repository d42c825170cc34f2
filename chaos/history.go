package chaos

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// History is all that the checks look at: what the outside saw, and what the
// servers hold in the end.
type History struct {
	Calls    []Call
	Attempts []Attempt
	Dumps    []Dump
	Plan     Plan // of the load, whose jobs, workflows and schedules are known; zero: another one
	// Deliveries are the callbacks that came to their receiver.
	Deliveries []Delivery
	Writes     []Write // to the guarded resource
	Troubles   []Trouble
	// Logs are the entries that each server has kept or compacted, by index. Where
	// it took a snapshot instead, there is a gap.
	Logs map[string]map[uint64]*raft.Log
}

// Dump is one server's state.
type Dump struct {
	Server   string
	Applied  uint64
	Hash     uint64
	Broken   []string // invariants
	Tasks    map[string]fsm.Task
	Attempts map[string][]fsm.Attempt
	Counts   map[job.State]int64
	Held     map[string]int64 // tasks by namespace
	Runs     map[string]RunDump

	Schedules map[string]ScheduleDump
	Events    []fsm.SentEvent
	Callbacks []fsm.Callback
	Breakers  []fsm.Breaker
}

// ScheduleDump is a schedule with its ledger, as a server holds it.
type ScheduleDump struct {
	fsm.Schedule
	State fsm.ScheduleState
	Fires []fsm.Fire // the newest first
}

// RunDump is a run as a server holds it.
type RunDump struct {
	Workflow string
	State    job.RunState
	Params   string
	Schedule string // that fired it
	Nominal  int64
	Parent   string // the run whose step it is
	Step     string // that step
	Touched  bool   // changed by hand
	Stopped  bool   // cancelled, or timed out
	Steps    []StepDump
}

// StepDump is a step of a run with its tasks: its own, or those of its items.
type StepDump struct {
	Name  string
	Task  string // its own
	Needs []string
	Tasks []string
}

const maxBroken = 10 // invariants told of one state

// NewDump reads a whole state.
func NewDump(server string, r fsm.Reader) (Dump, error) {
	d := Dump{
		Server: server, Applied: fsm.ReadInfo(r).Applied, Hash: fsm.StateHash(r), Broken: fsm.Check(r, maxBroken),
		Tasks: map[string]fsm.Task{}, Attempts: map[string][]fsm.Attempt{}, Counts: fsm.CountTasks(r, ""),
		Held: map[string]int64{},
	}
	for _, n := range fsm.CountTasks(r, job.DefaultNamespace) {
		d.Held[job.DefaultNamespace] += n
	}
	for cursor := ""; ; {
		page, err := fsm.ListTasks(r, fsm.TaskFilter{Namespace: job.DefaultNamespace}, cursor, 0, 0)
		if err != nil {
			return d, err
		}
		for _, t := range page.Tasks {
			d.Tasks[t.ID.String()] = t
			d.Attempts[t.ID.String()] = fsm.ListAttempts(r, t.Ref())
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	var err error
	if d.Runs, err = dumpRuns(r); err != nil {
		return d, err
	}
	if d.Schedules, err = dumpSchedules(r); err != nil {
		return d, err
	}
	d.Breakers = fsm.ListBreakers(r)
	if d.Events, err = all(func(cursor string) ([]fsm.SentEvent, string, error) {
		return fsm.ListEvents(r, job.DefaultNamespace, "", cursor, 0)
	}); err != nil {
		return d, err
	}
	d.Callbacks, err = all(func(cursor string) ([]fsm.Callback, string, error) {
		return fsm.ListCallbacks(r, job.DefaultNamespace, 0, cursor, 0)
	})
	return d, err
}

// all reads all pages of a list.
func all[T any](page func(cursor string) ([]T, string, error)) (out []T, err error) {
	for cursor := ""; ; {
		var part []T
		if part, cursor, err = page(cursor); err != nil {
			return nil, err
		}
		if out = append(out, part...); cursor == "" {
			return out, nil
		}
	}
}

func dumpSchedules(r fsm.Reader) (map[string]ScheduleDump, error) {
	list, err := all(func(cursor string) ([]fsm.Schedule, string, error) { return fsm.ListSchedules(r, "", cursor, 0) })
	if err != nil {
		return nil, err
	}
	out := map[string]ScheduleDump{}
	for i := range list {
		d := ScheduleDump{Schedule: list[i]}
		d.State, _ = fsm.GetScheduleState(r, d.Ref())
		if d.Fires, err = all(func(cursor string) ([]fsm.Fire, string, error) {
			return fsm.ListFires(r, d.Ref(), fsm.FireFilter{}, cursor, 0)
		}); err != nil {
			return nil, err
		}
		out[d.Name] = d
	}
	return out, nil
}

// dumpRuns reads all runs.
func dumpRuns(r fsm.Reader) (map[string]RunDump, error) {
	list, err := all(func(cursor string) ([]fsm.Run, string, error) {
		page, err := fsm.ListRuns(r, fsm.RunFilter{Namespace: job.DefaultNamespace}, cursor, 0)
		return page.Runs, page.Next, err
	})
	if err != nil {
		return nil, err
	}
	out := map[string]RunDump{}
	for i := range list {
		if out[list[i].ID.String()], err = dumpRun(r, &list[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func dumpRun(r fsm.Reader, run *fsm.Run) (RunDump, error) {
	d := RunDump{
		Workflow: run.Workflow, State: run.State, Params: string(fsm.RunParams(r, run)), Schedule: run.Trigger.Schedule,
		Nominal: run.Trigger.Nominal, Step: run.Trigger.Step, Touched: run.Touched, Stopped: run.Stop != 0,
	}
	if !run.Trigger.Run.IsZero() {
		d.Parent = run.Trigger.Run.String()
	}
	graph, ok := fsm.GetRunGraph(r, run)
	if !ok {
		return d, fmt.Errorf("the version of run %s is gone", run.ID)
	}
	steps, err := all(func(cursor string) ([]fsm.RunStep, string, error) { return fsm.ListRunSteps(r, run.Ref(), cursor, 0) })
	for i := range steps {
		def, _ := graph.Step(steps[i].Number)
		s := StepDump{Name: def.Name, Needs: def.Needs, Task: steps[i].Task.String()}
		s.Tasks = []string{s.Task}
		if def.ForEach != nil {
			s.Tasks = nil
			for _, it := range fsm.Items(r, run.Ref(), steps[i].Number, &steps[i].Step, 0, job.MaxRunTasks) {
				s.Tasks = append(s.Tasks, it.Record.ID.String())
			}
		}
		d.Steps = append(d.Steps, s)
	}
	return d, err
}

// owing counts what has not come to its end in a state: tasks, runs, callbacks, and
// schedules with times that lack a verdict.
func owing(r fsm.Reader) (n int64) {
	for state, count := range fsm.CountTasks(r, "") {
		if !state.Terminal() {
			n += count
		}
	}
	n += fsm.CountRuns(r, "", "")[job.RunRunning]
	owed, _, err := fsm.ListCallbacks(r, job.DefaultNamespace, fsm.CallbackOwed, "", 1)
	if err != nil || len(owed) > 0 {
		n++
	}
	list, _, err := fsm.ListSchedules(r, "", "", 0)
	if err != nil {
		return n + 1
	}
	for i := range list {
		st, _ := fsm.GetScheduleState(r, list[i].Ref())
		if st.Queued > 0 || list[i].Spec.Timed() && (!st.Planned || st.Next != 0) && st.Broken == "" {
			n++
		}
	}
	return n
}

// dumps reads every server's state.
func (c *Cluster) dumps() ([]Dump, error) {
	var out []Dump
	for _, s := range c.Servers {
		var err error
		up := s.View(func(r fsm.Reader) {
			var d Dump
			d, err = NewDump(s.Name, r)
			out = append(out, d)
		})
		if !up {
			err = errors.New("server " + s.Name + " is down")
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (c *Cluster) history() (History, error) {
	dumps, err := c.dumps()
	h := History{
		Plan: c.Ledger.plan, Calls: c.Ledger.Calls(), Attempts: c.Ledger.Attempts(), Deliveries: c.Ledger.Deliveries(),
		Writes: c.Ledger.Writes(), Troubles: c.Ledger.Troubles(), Dumps: dumps, Logs: map[string]map[uint64]*raft.Log{},
	}
	for _, s := range c.Servers {
		h.Logs[s.Name] = s.Disk().History()
	}
	return h, err
}
