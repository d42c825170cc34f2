package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// The workflows of the load: a graph whose steps are decided and filled in by
// expressions, fan out, and are another graph.
const (
	innerFlow = "inner"
	outerFlow = "outer"
)

func flows() map[string]job.WorkflowSpec {
	quick := job.JSON(`{"run_ms": 50}`)
	return map[string]job.WorkflowSpec{
		innerFlow: {
			Params: []job.Param{{Name: "ms", Type: job.ParamInt, Default: job.JSON("10")}},
			Steps: []job.Step{
				{Name: "a", Job: plainJob, Payload: job.JSON(`{"run_ms": "${{ params.ms }}"}`)},
				{Name: "b", Job: plainJob, Payload: quick, Needs: []string{"a"}},
			},
		},
		outerFlow: {
			Params: []job.Param{{Name: "ms", Type: job.ParamInt, Default: job.JSON("10")}, {Name: "list", Type: job.ParamList, Default: job.JSON("[1]")}},
			Steps: []job.Step{
				{Name: "first", Job: plainJob, Payload: job.JSON(`{"run_ms": "${{ params.ms }}", "fail": 1}`)},
				{Name: "even", Job: plainJob, Payload: quick, Needs: []string{"first"}, When: `params.ms % 2 == 0 && steps.first.state == "success"`},
				{Name: "fan", Job: plainJob, Payload: job.JSON(`{"run_ms": "${{ item * 40 }}"}`), Needs: []string{"first"},
					ForEach: &job.ForEach{Items: job.JSON(`"${{ params.list }}"`), Parallel: 2}},
				{Name: "sub", Workflow: innerFlow, Needs: []string{"first"}, Params: map[string]job.JSON{"ms": job.JSON(`"${{ params.ms }}"`)}},
				{Name: "join", Job: plainJob, Payload: quick, Needs: []string{"even", "fan", "sub"}, Rule: job.NoneFailed},
			},
			Finally: []job.Step{{Name: "end", Job: plainJob, Payload: quick}},
		},
	}
}

// defineFlows puts the workflows, the inner one first.
func (l *load) defineFlows(ctx context.Context) error {
	all := flows()
	for _, name := range []string{innerFlow, outerFlow} {
		if _, err := l.clients[0].PutWorkflow(ctx, name, all[name]); err != nil {
			return fmt.Errorf("define workflow %s: %w", name, err)
		}
	}
	return nil
}

// start starts a run and notes that it was acknowledged.
func (c *caller) start() {
	list := make([]int, c.rng.IntN(6))
	for i := range list {
		list[i] = c.rng.IntN(10)
	}
	params, _ := json.Marshal(map[string]any{"ms": c.rng.IntN(500), "list": list}) // plain values
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	run, err := c.clients[c.i].StartRun(ctx, outerFlow, client.StartRunRequest{Params: params})
	if err == nil {
		c.c.Ledger.started(run.ID)
	}
}

func (l *Ledger) started(run string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs = append(l.runs, run)
}

// Runs returns the runs that were acknowledged.
func (l *Ledger) Runs() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.runs)
}

// RunDump is a run as a server holds it.
type RunDump struct {
	State job.RunState
	Steps []StepDump
}

// StepDump is a step of a run with its tasks: its own, or those of its items.
type StepDump struct {
	Name  string
	Needs []string
	Tasks []string
}

// dumpRuns reads all runs.
func dumpRuns(r fsm.Reader) (map[string]RunDump, error) {
	out := map[string]RunDump{}
	for cursor := ""; ; {
		page, err := fsm.ListRuns(r, fsm.RunFilter{Namespace: job.DefaultNamespace}, cursor, 0)
		if err != nil {
			return nil, err
		}
		for i := range page.Runs {
			d, err := dumpRun(r, &page.Runs[i])
			if err != nil {
				return nil, err
			}
			out[page.Runs[i].ID.String()] = d
		}
		if cursor = page.Next; cursor == "" {
			return out, nil
		}
	}
}

func dumpRun(r fsm.Reader, run *fsm.Run) (RunDump, error) {
	d := RunDump{State: run.State}
	graph, ok := fsm.GetRunGraph(r, run)
	if !ok {
		return d, fmt.Errorf("the version of run %s is gone", run.ID)
	}
	steps, _, err := fsm.ListRunSteps(r, run.Ref(), "", 0)
	for i := range steps {
		def, _ := graph.Step(steps[i].Number)
		s := StepDump{Name: def.Name, Needs: def.Needs, Tasks: []string{steps[i].Task.String()}}
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

// graphs: no run that was acknowledged is missing, each ends, and no step begins
// before all that it needs has succeeded or was skipped.
func (c *check) graphs() {
	if len(c.Dumps) == 0 {
		return
	}
	d := c.Dumps[0]
	for _, id := range c.Runs {
		if _, ok := d.Runs[id]; !ok {
			c.broken("run %s was acknowledged and is missing", id)
		}
	}
	for id, run := range d.Runs {
		if !run.State.Terminal() {
			c.broken("run %s is %s at the end", id, run.State)
		}
		ended := map[string]time.Time{} // when the last task of a step succeeded
		for _, s := range run.Steps {
			for _, task := range s.Tasks {
				for _, a := range c.runs[task] {
					if a.OK && a.End.After(ended[s.Name]) && a.Token == d.Tasks[task].LastToken {
						ended[s.Name] = a.End
					}
				}
			}
		}
		for _, s := range run.Steps {
			c.afterNeeds(id, &s, ended)
		}
	}
}

func (c *check) afterNeeds(run string, s *StepDump, ended map[string]time.Time) {
	for _, task := range s.Tasks {
		if len(c.runs[task]) == 0 {
			continue
		}
		first := c.runs[task][0]
		for _, need := range s.Needs {
			if first.Start.Before(ended[need]) {
				c.broken("run %s: step %s began with %s before %s had ended at %s", run, s.Name, first, need, clock(ended[need]))
			}
		}
	}
}

// standsIn tells whether a task is that of a step for which others ran: its items, or
// its run.
func standsIn(t *fsm.Task) bool { return !t.Run.IsZero() && t.Attempt == 0 }
