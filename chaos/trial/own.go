package trial

import (
	"context"
	"fmt"
	"time"

	"github.com/axd-project/axd/chaos"
	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/internal/definition"
	"github.com/axd-project/axd/job"
)

// ownSet is the file set that a caller's definitions are applied as.
const ownSet = "axd-chaos"

// own is the workload that a caller's definition files make: their schedules fire by
// themselves, jobs and workflows that need nothing are started again and again.
type own struct {
	set       *definition.Set
	jobs      []string
	workflows []string
}

// CheckWorkload tells whether definition files can be a workload.
func CheckWorkload(path string) error {
	_, err := loadOwn(path)
	return err
}

func loadOwn(path string) (*own, error) {
	set, err := definition.Load([]string{path}, nil)
	if err != nil {
		return nil, err
	}
	o := &own{set: set}
	for _, d := range set.Objects {
		switch spec := d.Spec.(type) {
		case *job.Spec:
			if spec.Handler != "" {
				return nil, job.Invalid("--config", "must hold jobs of commands and HTTP requests alone: handler "+spec.Handler+
					" of job "+d.Name+" needs a worker program of yours", path)
			}
			o.jobs = append(o.jobs, d.Name)
		case *job.WorkflowSpec:
			if startable(spec) {
				o.workflows = append(o.workflows, d.Name)
			}
		}
	}
	if len(o.jobs)+len(o.workflows) == 0 {
		return nil, job.Invalid("--config", "must define a job or a workflow without required parameters", path)
	}
	return o, nil
}

// startable tells whether a workflow can be started without parameters.
func startable(spec *job.WorkflowSpec) bool {
	for _, p := range spec.Params {
		if len(p.Default) == 0 {
			return false
		}
	}
	return true
}

func (o *own) apply(ctx context.Context, c *client.Client) error {
	p, err := o.set.Compare(ctx, c, definition.Options{Set: ownSet})
	if err != nil {
		return err
	}
	_, err = p.Apply(ctx)
	return err
}

// schedules names those that the files have made.
func (o *own) schedules() []string {
	var names []string
	for _, d := range o.set.Objects {
		if _, ok := d.Spec.(*job.ScheduleSpec); ok {
			names = append(names, d.Name)
		}
	}
	return names
}

// startOwn starts one of the caller's jobs or workflows.
func (c *caller) startOwn() {
	at := c.rng.IntN(len(c.own.jobs) + len(c.own.workflows))
	if at >= len(c.own.jobs) {
		c.startRun(c.own.workflows[at-len(c.own.jobs)])
		return
	}
	r := client.SubmitRequest{Job: c.own.jobs[at], IdempotencyKey: fmt.Sprintf("key-%d", c.next())}
	call := chaos.Call{Verb: chaos.Submit, Key: r.IdempotencyKey, Begun: time.Now()}
	_, _ = c.do(call, func(ctx context.Context) (client.Task, error) { return c.c.Submit(ctx, r) })
}
