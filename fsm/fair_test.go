package fsm

import (
	"testing"

	"github.com/axd-project/axd/job"
)

// A task keeps the fairness key that it or its job had when it was submitted, and
// the due index tells keys apart, but for those of tasks under limits.
func TestFairnessKeysInTheDueIndex(t *testing.T) {
	e := newLimitsEnv(t)
	spec := job.Spec{Executor: job.Executor{Handler: "h"}, Policy: job.Policy{FairnessKey: "job's"}}
	e.apply(PutJob{Namespace: "default", Name: "j", Spec: spec})
	limited := job.TaskSpec{Job: "j"}
	limited.Concurrency = &job.Concurrency{Max: 1}
	own := job.TaskSpec{Job: "j"}
	own.FairnessKey = "own"
	var keys []string
	for _, r := range e.apply(Submit{Namespace: "default", Tasks: []job.TaskSpec{{Job: "j"}, own, limited, {Executor: job.Executor{Handler: "h"}}}})[0].Tasks {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		keys = append(keys, r.Task.FairnessKey)
	}
	if keys[0] != "job's" || keys[1] != "own" || keys[2] != "job's" || keys[3] != "" {
		t.Errorf("keys %q", keys)
	}
	spec.FairnessKey = "another"
	e.apply(PutJob{Namespace: "default", Name: "j", Spec: spec})
	rows := ScanDue(e.tx, job.Normal, DueKey{}, e.now+1, 10)
	if len(rows) != 4 {
		t.Fatalf("%d rows", len(rows))
	}
	for i, row := range rows {
		task, _ := GetTask(e.tx, TaskRef{Namespace: row.Namespace, ID: row.ID})
		if row.Hint != task.Hint() || row.FairHint() != task.FairHint() || (row.FairHint() != 0) != (i < 2) {
			t.Errorf("row %d: hint %x, task's %x", i, row.Hint, task.Hint())
		}
	}
	if rows[0].FairHint() == rows[1].FairHint() {
		t.Error("two keys have one hint")
	}
	e.check()
}
