package scheduler

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// putWorkflow defines the job "step" and a workflow of it.
func (c *cluster) putWorkflow(name string, spec job.WorkflowSpec) {
	c.t.Helper()
	none := 0
	c.apply(fsm.PutJob{Namespace: "default", Name: "step", Spec: job.Spec{
		Executor: job.Executor{Handler: "work"}, Policy: job.Policy{Retry: &job.Retry{MaxRetries: &none}},
	}})
	if r := c.apply(fsm.PutWorkflow{Namespace: "default", Name: name, Spec: spec}); r.Err != nil {
		c.t.Fatal(r.Err)
	}
}

func (c *cluster) startRun(name string) fsm.RunRef {
	c.t.Helper()
	r := c.apply(fsm.StartRun{Namespace: "default", Workflow: name})
	if r.Err != nil {
		c.t.Fatal(r.Err)
	}
	return r.Run.Ref()
}

func (c *cluster) run(ref fsm.RunRef) fsm.Run {
	c.t.Helper()
	r, release := c.Read()
	defer release()
	run, ok := fsm.GetRun(r, ref)
	if !ok {
		c.t.Fatalf("run %s is gone", ref.ID)
	}
	return run
}

// What one entry can't do of a run the leader continues at once, and so does the
// next leader.
func TestRunsComeToTheirEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		spec := job.WorkflowSpec{Steps: []job.Step{{Name: "first", Job: "step"}}}
		last := job.Step{Name: "last", Job: "step"}
		for i := range 1500 {
			name := fmt.Sprintf("s%d", i)
			spec.Steps = append(spec.Steps, job.Step{Name: name, Job: "step", Needs: []string{"first"}})
			last.Needs = append(last.Needs, name)
		}
		spec.Steps = append(spec.Steps, last)
		c.putWorkflow("wide", spec)
		first := c.startRun("wide")
		c.lead() // the hints of what is owed are lost
		second := c.startRun("wide")
		w := c.worker("w1", 100, time.Millisecond)
		w.mustConnect()
		time.Sleep(30 * time.Second)
		for _, ref := range []fsm.RunRef{first, second} {
			if run := c.run(ref); run.State != job.RunSuccess || int(run.Counts[job.Success]) != len(spec.Steps) {
				t.Errorf("the run is %v, counts %v", run.State, run.Counts)
			}
		}
		c.check()
	})
}

// A run that takes too long is ended by the leader, and its finally step runs.
func TestRunsTimeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		limit := job.Duration(5 * time.Second)
		c.putWorkflow("slow", job.WorkflowSpec{
			Timeout: &limit,
			Steps:   []job.Step{{Name: "a", Job: "step"}, {Name: "b", Job: "step", Needs: []string{"a"}}},
			Finally: []job.Step{{Name: "f", Job: "step"}},
		})
		w := c.worker("w1", 10, 4*time.Second)
		w.mustConnect()
		ref := c.startRun("slow")
		time.Sleep(30 * time.Second)
		run := c.run(ref)
		if run.State != job.RunTimedOut || run.Counts[job.Cancelled] != 1 || run.Counts[job.Success] != 2 {
			t.Errorf("the run is %v, counts %v: %s", run.State, run.Counts, run.Error)
		}
		c.check()
	})
}
