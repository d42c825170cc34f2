package api

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// shownSteps is how many steps a reason names.
const shownSteps = 5

// ofRun is the run that a task is a step of, as far as an explanation needs it.
type ofRun struct {
	run   fsm.Run
	graph fsm.RunGraph
	step  *job.Step
	num   uint32
	row   fsm.Step
}

// stepOf reads the run of a task; false: it is no step of one, or its run is gone.
func (q *explaining) stepOf() (o ofRun, ok bool) {
	t := &q.task
	if t.Run.IsZero() {
		return o, false
	}
	if o.run, ok = fsm.GetRun(q.v, fsm.RunRef{Namespace: t.Namespace, ID: t.Run}); !ok {
		return o, false
	}
	if o.graph, ok = fsm.GetRunGraph(q.v, &o.run); !ok {
		return o, false
	}
	if o.num, ok = o.graph.Number(t.Step); !ok {
		return o, false
	}
	o.step, _ = o.graph.Step(o.num)
	s, ok := fsm.GetRunStep(q.v, o.run.Ref(), o.num)
	o.row = s.Step
	return o, ok
}

// explainStep tells what a step of a run waits for.
func explainStep(q *explaining) {
	if q.task.State != job.Blocked {
		return
	}
	o, ok := q.stepOf()
	if !ok {
		return
	}
	_, section := o.graph.Step(o.num)
	named := fmt.Sprintf("run %s of workflow %s", o.run.ID, o.run.Workflow)
	switch {
	case q.task.Item != 0:
		if run := q.runOfItem(&o); !run.IsZero() {
			q.inRun(&o, run)
			return
		}
		q.waitingItem(&o, named)
	case o.row.Phase == fsm.StepBegun && o.row.Fan == nil:
		q.inRun(&o, o.row.Child)
	case o.row.Phase == fsm.StepBegun:
		q.inParts(&o)
	case o.row.Phase == fsm.StepReady:
		q.add(job.Reason{
			Code: job.ReasonRunFull,
			Text: fmt.Sprintf("%s has %d tasks at work, as many as its max_parallel lets it.", upper(named), o.graph.Spec().MaxParallel),
			Next: "Wait, or raise max_parallel for the next run.",
		})
	case o.row.Phase == fsm.StepWanted:
		q.add(job.Reason{
			Code: job.ReasonNoVerdict, Text: "All that it needs is there; the leader has yet to evaluate its expressions.",
			Next: "Wait a moment.",
		})
	case o.run.Owes || o.run.Act.Kind != 0:
		q.add(job.Reason{Code: job.ReasonRunOwes, Text: upper(named) + " is being advanced, step after step.", Next: "Wait a moment."})
		fallthrough
	default:
		q.blocked(&o, section)
	}
}

// waitingItem tells why an item has not begun.
func (q *explaining) waitingItem(o *ofRun, named string) {
	limits := "the items before it are to begin first"
	if o.step.ForEach != nil && o.step.ForEach.Parallel > 0 {
		limits = fmt.Sprintf("%d of its step may be at work at once (parallel)", o.step.ForEach.Parallel)
	}
	if most := o.graph.Spec().MaxParallel; most > 0 {
		limits += fmt.Sprintf(", %d of %s (max_parallel)", most, named)
	}
	q.add(job.Reason{
		Code: job.ReasonRunFull, Text: fmt.Sprintf("It is item %d of step %s, and waits for its turn: %s.", q.task.Item, q.task.Step, limits),
		Next: "Wait, or raise parallel or max_parallel for the next run.",
	})
}

// inParts tells of a step for whose items others are at work.
func (q *explaining) inParts(o *ofRun) {
	f, what := o.row.Fan, "tasks"
	if o.step.Workflow != "" {
		what = "runs of workflow " + o.step.Workflow
	}
	ended := f.Made - f.Counts[job.Blocked] - f.Counts[job.Pending]
	q.add(job.Reason{
		Code: job.ReasonInParts, Text: fmt.Sprintf("It is %d %s, of which %d have ended, and ends with the last.", f.Total, what, ended),
		Next: "See them: 'axd run items " + o.run.ID.String() + " " + o.step.Name + "'.",
	})
}

// inRun tells of a step, or of an item, that is a run.
func (q *explaining) inRun(o *ofRun, run job.ID) {
	q.add(job.Reason{
		Code: job.ReasonInParts, Text: "It is run " + run.String() + " of workflow " + o.step.Workflow + ", and ends with it.",
		Next: "See how far that is: 'axd run show " + run.String() + "'.",
	})
}

// runOfItem is the run that the item's task stands for; zero: none.
func (q *explaining) runOfItem(o *ofRun) job.ID {
	if o.row.Fan == nil || q.task.Item <= o.row.Fan.First {
		return job.ID{}
	}
	for _, it := range fsm.Items(q.v, o.run.Ref(), o.num, &o.row, q.task.Item-o.row.Fan.First-1, 1) {
		return it.Run
	}
	return job.ID{}
}

// blocked names the steps whose end a step waits for.
func (q *explaining) blocked(o *ofRun, section string) {
	r := job.Reason{Code: job.ReasonBlocked, Since: q.task.Created}
	if section != job.SectionSteps && len(o.step.Needs) == 0 {
		r.Text = "It runs once the other steps of its run have ended, since it belongs to " + section + "."
		r.Next = "See how far they are: 'axd run show " + o.run.ID.String() + "'."
		q.add(r)
		return
	}
	var open, failed []string
	ended := 0
	for _, need := range o.step.Needs {
		s, ok := q.need(o, need)
		switch {
		case !ok:
			continue
		case !s.Record.State.Terminal() && len(open) < shownSteps:
			open = append(open, q.describe(o, need, &s))
		case !s.Record.State.Terminal():
			open = append(open, need)
		default:
			ended++
			if s.Record.State != job.Success && s.Record.State != job.Skipped {
				failed = append(failed, need+" ("+s.Record.State.String()+")")
			}
		}
	}
	rule := "all of them to succeed"
	if o.step.RuleOrDefault() != job.AllSuccess {
		rule = "what its rule " + string(o.step.Rule) + " asks"
	}
	r.Text = fmt.Sprintf("It needs %s: %d of %d steps have not ended: %s.", rule, len(open), len(o.step.Needs), few(open))
	if len(failed) > 0 {
		r.Text += " Not a success: " + few(failed) + "."
	}
	r.Next = "Look at the run, and explain what it waits for: 'axd run show " + o.run.ID.String() + "'."
	q.add(r)
}

func (q *explaining) need(o *ofRun, name string) (fsm.RunStep, bool) {
	n, ok := o.graph.Number(name)
	if !ok {
		return fsm.RunStep{}, false
	}
	return fsm.GetRunStep(q.v, o.run.Ref(), n)
}

// describe names a step with its state, its task, and whom to ask about it.
func (q *explaining) describe(o *ofRun, name string, s *fsm.RunStep) string {
	t := &s.Record
	state := string(job.Show(t.State, t.Due, t.Retry, q.now))
	if s.AtWork() {
		state = job.Running.String() // others are at work for it
	}
	text := name + " is " + state + " (task " + t.ID.String()
	policy := t.Policy
	if j, ok := fsm.GetJob(q.v, t.Namespace, t.Job); ok {
		policy = j.Spec.Policy.Merge(t.Policy)
	}
	if owner := policy.Owner; owner != "" {
		text += ", owner " + owner
	} else if owner := o.graph.Spec().Owner; owner != "" {
		text += ", owner " + owner
	}
	return text + ")"
}

// notRun tells why a step was skipped, or can't run.
func (q *explaining) notRun(r *job.Reason) {
	r.Code = job.ReasonNotNeeded
	if q.task.State == job.UpstreamFailed {
		r.Code = job.ReasonUpstream
	}
	o, ok := q.stepOf()
	switch {
	case q.task.Error != "":
		r.Text = upper(q.task.Error) + "."
		return
	case !ok:
		r.Text = "It ended: " + q.task.State.String() + "."
		return
	}
	var ends []string
	for _, need := range o.step.Needs {
		if s, ok := q.need(&o, need); ok {
			ends = append(ends, need+" ended "+s.Record.State.String())
		}
	}
	_, section := o.graph.Step(o.num)
	switch {
	case len(ends) > 0:
		r.Text = "Its rule " + string(o.step.RuleOrDefault()) + " did not hold: " + few(ends) + "."
	case section == job.SectionOnFailure:
		r.Text = "It belongs to on_failure, and no step of its run made it fail."
	default:
		r.Text = "It ended: " + q.task.State.String() + "."
	}
	if q.task.State == job.UpstreamFailed {
		r.Next = "Mend what failed, then 'axd run rerun " + o.run.ID.String() + "'."
	}
}

// few lists texts, but not too many.
func few(all []string) string {
	if len(all) > shownSteps {
		return strings.Join(all[:shownSteps], ", ") + " and " + strconv.Itoa(len(all)-shownSteps) + " more"
	}
	return strings.Join(all, ", ")
}
