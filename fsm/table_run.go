package fsm

import "github.com/axd-project/axd/job"

// The tables of workflows, runs and their steps. A step is numbered by its place in
// the order of the graph: it needs none with a higher number.
const (
	// tableWorkflows: namespace, name → Workflow, without its definition.
	tableWorkflows byte = 0x50
	// tableWorkflowVersions: namespace, name, version (8) → workflowRow: the last
	// MaxWorkflowVersions, and those that runs use.
	tableWorkflowVersions byte = 0x51
	// tableRuns: namespace, id → Run.
	tableRuns byte = 0x52
	// tableRunParams: namespace, id → the run's parameters as they were given; only
	// where Run.HasParams.
	tableRunParams byte = 0x53
	// tableSteps: namespace, run, number (4) → Step.
	tableSteps byte = 0x54
	// tableRunsByState: namespace, state, id → empty.
	tableRunsByState byte = 0x55
	// tableRunsByWorkflow: namespace, workflow, id → empty.
	tableRunsByWorkflow byte = 0x56
	// tableRunOwed: namespace, id → empty. Exactly the runs that owe work: an act
	// that goes on, or rows of tableStepOwed. The leader continues them.
	tableRunOwed byte = 0x57
	// tableStepOwed: namespace, run, number (4) → empty. The steps that are to be
	// looked at, or whose outcome not all steps that need them have counted.
	tableStepOwed byte = 0x58
	// tableStepReady: namespace, run, number (4) → empty. The steps that only wait
	// for the run's max_parallel.
	tableStepReady byte = 0x59
	// tableRunEnded: 1 where the run has dead letters (1), time (8), namespace, id →
	// empty. Exactly the ended runs, at the begin of their retention. The tasks of a
	// run have no such row of their own: they go with their run.
	tableRunEnded byte = 0x5a
	// tableRunDeadlines: time (8), namespace, id → empty. The runs that run and have
	// a time-out.
	tableRunDeadlines byte = 0x5b
	// tableRunKeys: namespace, key → run (16), hash of the request (16), expiry (8,
	// Unix ms). The row goes with its run, or when another claims the key.
	tableRunKeys byte = 0x5c
	// tableStepWanted: namespace, run, number (4) → empty. The steps that wait for a
	// verdict of the leader.
	tableStepWanted byte = 0x5d
	// tableWorkflowJobs: namespace, job, workflow → empty. The jobs that the newest
	// version of a workflow names: as long as it does, they can't be deleted.
	tableWorkflowJobs byte = 0x5e
)

// The counters of runs; see tableCounters.
const (
	countRuns         byte = 'r' // state
	countRunNamespace byte = 'R' // namespace, state
	countRunWorkflow  byte = 'w' // namespace, workflow, state
	countRunVersion   byte = 'v' // namespace, workflow, version (8): runs of every state
)

func (k key) run(r RunRef) key                { return k.table(tableRuns).runRef(r) }
func (k key) runRef(r RunRef) key             { return k.name(r.Namespace).id(r.ID) }
func (k key) runParams(r RunRef) key          { return k.table(tableRunParams).runRef(r) }
func (k key) step(r RunRef, n uint32) key     { return k.table(tableSteps).runRef(r).u32(n) }
func (k key) stepOwed(r RunRef, n uint32) key { return k.table(tableStepOwed).runRef(r).u32(n) }
func (k key) runOwed(r RunRef) key            { return k.table(tableRunOwed).runRef(r) }
func (k key) runByState(namespace string, s job.RunState) key {
	return k.table(tableRunsByState).name(namespace).u8(byte(s))
}

func (k key) runByWorkflow(namespace, name string) key {
	return k.table(tableRunsByWorkflow).name(namespace).name(name)
}

func (k key) stepReady(r RunRef, n uint32) key { return k.table(tableStepReady).runRef(r).u32(n) }

func (k key) stepWanted(r RunRef, n uint32) key { return k.table(tableStepWanted).runRef(r).u32(n) }

func (k key) workflowJob(namespace, name, workflow string) key {
	return k.table(tableWorkflowJobs).name(namespace).name(name).name(workflow)
}

func (k key) runDeadline(at int64, r RunRef) key {
	return k.table(tableRunDeadlines).time(at).runRef(r)
}

func (k key) runKey(namespace, s string) key {
	return k.table(tableRunKeys).name(namespace).name(s)
}

// runEnded is the row by which an ended run is found when its retention is over.
func (k key) runEnded(run *Run) key {
	dead := byte(0)
	if run.Dead > 0 {
		dead = 1
	}
	return k.table(tableRunEnded).u8(dead).time(run.retainFrom()).runRef(run.Ref())
}

func (r *keyReader) runRef() RunRef { return RunRef(r.ref()) }
