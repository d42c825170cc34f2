package definition

import (
	"context"
	"strconv"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/internal/expression"
	"github.com/axd-project/axd/job"
)

// kinds are what files may define, in the order in which they are applied: what
// others name comes before them. Deletes go the other way round.
var kinds = []*Kind{jobs, workflows, calendars, schedules}

var jobs = row[job.Spec]{
	check: func(s *job.Spec) error { return orNil(s.Validate()) },
	refs: func(s *job.Spec) []Ref {
		return refs(Ref{"job", s.Compensation, "compensation"}, Ref{"job", s.CallbackJob, "callback_job"})
	},
	list: func(ctx context.Context, c *client.Client, cursor string) ([]Stored, string, error) {
		page, err := c.Jobs(ctx, pageSize, cursor)
		return all(page.Jobs, func(j client.Job) Stored { return Stored{j.Name, j.Version, j.FileSet, &j.Spec} }), page.NextCursor, err
	},
	put: func(ctx context.Context, c *client.Client, name, set string, s *job.Spec) (uint64, error) {
		j, err := c.PutJobFromFile(ctx, name, set, *s)
		return j.Version, err
	},
	remove: (*client.Client).DeleteJob,
}.kind("job")

var workflows = row[job.WorkflowSpec]{
	check: func(s *job.WorkflowSpec) error {
		if e := s.Validate(); e != nil {
			return e
		}
		return orNil(expression.CheckWorkflow(s))
	},
	warn: func(s *job.WorkflowSpec) (told []*job.Error) {
		for _, text := range s.Warnings() {
			told = append(told, job.Errorf(job.CodeInvalid, text))
		}
		return told
	},
	refs: func(s *job.WorkflowSpec) (named []Ref) {
		for _, section := range s.Sections() {
			for i := range section.Steps {
				path := job.StepPath(section.Name, i)
				step := &section.Steps[i]
				named = append(named, refs(Ref{"job", step.Job, path + ".job"}, Ref{"workflow", step.Workflow, path + ".workflow"})...)
			}
		}
		return named
	},
	list: listWorkflows,
	put: func(ctx context.Context, c *client.Client, name, set string, s *job.WorkflowSpec) (uint64, error) {
		w, err := c.PutWorkflowFromFile(ctx, name, set, *s)
		return w.Version, err
	},
	remove: (*client.Client).DeleteWorkflow,
}.kind("workflow")

var schedules = row[job.ScheduleSpec]{
	next: nextFires,
	check: func(s *job.ScheduleSpec) error {
		if e := s.Validate(); e != nil {
			return e
		}
		if e := expression.CheckSchedule(s); e != nil {
			return e
		}
		_, e := job.NewPlan(s, job.PlanFor{Calendar: job.AnyCalendar})
		return orNil(e)
	},
	refs: func(s *job.ScheduleSpec) []Ref {
		named := []Ref{{"job", s.Job, "job"}, {"workflow", s.Workflow, "workflow"}}
		if s.Calendars != nil {
			for i, name := range s.Calendars.Include {
				named = append(named, Ref{"calendar", name, "calendars.include[" + strconv.Itoa(i) + "]"})
			}
			for i, name := range s.Calendars.Exclude {
				named = append(named, Ref{"calendar", name, "calendars.exclude[" + strconv.Itoa(i) + "]"})
			}
		}
		if s.After != nil {
			for i, up := range s.After.All {
				path := "after.all[" + strconv.Itoa(i) + "]"
				named = append(named, Ref{"job", up.Job, path + ".job"}, Ref{"workflow", up.Workflow, path + ".workflow"},
					Ref{"schedule", up.Schedule, path + ".schedule"})
			}
		}
		return refs(named...)
	},
	list: func(ctx context.Context, c *client.Client, cursor string) ([]Stored, string, error) {
		page, err := c.Schedules(ctx, pageSize, cursor)
		return all(page.Schedules, func(s client.Schedule) Stored { return Stored{s.Name, s.Version, s.FileSet, &s.ScheduleSpec} }), page.NextCursor, err
	},
	put: func(ctx context.Context, c *client.Client, name, set string, spec *job.ScheduleSpec) (uint64, error) {
		s, err := c.PutScheduleFromFile(ctx, name, set, *spec)
		return s.Version, err
	},
	remove: (*client.Client).DeleteSchedule,
}.kind("schedule")
