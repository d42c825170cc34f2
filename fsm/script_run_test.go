package fsm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/axd-project/axd/job"
)

// workflowSpec reads a step a line: its name, then job or workflow, needs=a+b, rule,
// section, allow, and some of its policy.
func (e *scriptEnv) workflowSpec(f fields, input string) (spec job.WorkflowSpec) {
	spec.MaxParallel = int(f.number("max-parallel"))
	if f["param"] != "" {
		spec.Params = []job.Param{{Name: f["param"], Type: job.ParamInt}}
	}
	if f["timeout"] != "" {
		spec.Timeout = new(f.duration("timeout"))
	}
	for line := range strings.Lines(input) {
		words := strings.Fields(line)
		g := parseFields(words[1:])
		s := job.Step{Name: words[0], Job: g.or("job", "j"), Rule: job.Rule(g["rule"]), AllowFailure: g["allow"] != ""}
		if s.Workflow = g["workflow"]; s.Workflow != "" {
			s.Job = ""
		}
		s.CallbackJob, s.Compensation = g["callback-job"], g["compensation"]
		s.CallbackURL, s.CallbackSecret = g["callback"], g["callback-secret"]
		if g["needs"] != "" {
			s.Needs = strings.Split(g["needs"], "+")
		}
		switch g["section"] {
		case "on_failure":
			spec.OnFailure = append(spec.OnFailure, s)
		case "finally":
			spec.Finally = append(spec.Finally, s)
		default:
			spec.Steps = append(spec.Steps, s)
		}
	}
	return spec
}

// runRef reads r2 as the second run that there is.
func (e *scriptEnv) runRef(f fields) RunRef {
	refs := e.runRefs()
	var n int
	if _, err := fmt.Sscanf(f.or("run", "r1"), "r%d", &n); err != nil || n < 1 || n > len(refs) {
		return RunRef{f.ns(), job.NewID(1, 1, 1)}
	}
	return refs[n-1]
}

// runRefs are the runs in the order of their creation.
func (e *scriptEnv) runRefs() (refs []RunRef) {
	p, _ := ListRuns(e.tx, RunFilter{}, "", 1000)
	for i := range p.Runs {
		refs = append(refs, p.Runs[i].Ref())
	}
	return refs
}

func (e *scriptEnv) runCommand(verb string, f fields, input string) (Command, bool) {
	ref, step, actor := e.runRef(f), f["step"], f["actor"]
	switch verb {
	case "put-workflow":
		return PutWorkflow{Namespace: f.ns(), Name: f["name"], Spec: e.workflowSpec(f, input)}, true
	case "delete-workflow":
		return DeleteWorkflow{Namespace: f.ns(), Name: f["name"]}, true
	case "start-run":
		return StartRun{
			Namespace: f.ns(), Workflow: f["name"], Params: []byte(f["params"]), Key: f["key"], Priority: e.priority(f),
			Trigger: RunTrigger{Actor: actor},
		}, true
	case "cancel-run":
		return CancelRun{Ref: ref, Reason: f["reason"], Actor: actor}, true
	case "time-out-run":
		return TimeOutRun{Term: e.termOf(f), Ref: ref}, true
	case "rerun":
		mode := map[string]RerunMode{"failed": RerunFailed, "from": RerunFrom, "one": RerunOne}[f.or("mode", "failed")]
		return RerunRun{Ref: ref, Mode: mode, Step: step, Actor: actor}, true
	case "force-success":
		return ForceSuccess{Ref: ref, Step: step, Reason: f["reason"], Actor: actor}, true
	case "skip-step":
		return SkipStep{Ref: ref, Step: step, Reason: f["reason"], Actor: actor}, true
	case "continue-run":
		return ContinueRun{Ref: ref}, true
	}
	return nil, false
}

func (e *scriptEnv) runName(ref RunRef) string {
	return fmt.Sprintf("r%d", slices.Index(e.runRefs(), ref)+1)
}

// showRun shows what a run says of itself.
func (e *scriptEnv) showRun(b *strings.Builder, run *Run) {
	fmt.Fprintf(b, "%s %v of %s version %d, open %v", e.runName(run.Ref()), run.State, run.Workflow, run.WorkflowVersion, run.Open)
	for _, s := range job.States {
		if n := run.Counts[s]; n > 0 {
			fmt.Fprintf(b, ", %d %v", n, s)
		}
	}
	if run.Ready > 0 {
		fmt.Fprintf(b, ", %d ready", run.Ready)
	}
	if run.Ended != 0 {
		fmt.Fprintf(b, ", ended %s", e.at(run.Ended))
	}
	if run.Error != "" {
		fmt.Fprintf(b, ", %q", run.Error)
	}
	if run.owes() {
		b.WriteString(", owes work")
	}
	fmt.Fprintln(b)
}

// runQuery answers what a script asks about runs.
func (e *scriptEnv) runQuery(b *strings.Builder, cmd string, f fields) bool {
	switch cmd {
	case "workflows":
		list, _, _ := ListWorkflows(e.tx, "", "", 100)
		for _, w := range list {
			fmt.Fprintf(b, "%s/%s version %d, %d steps\n", w.Namespace, w.Name, w.Version, w.Steps)
		}
		e.tx.Ascend([]byte{tableWorkflowVersions}, tableEnd(tableWorkflowVersions), func(k, _ []byte) bool {
			kr := readKey(k)
			fmt.Fprintf(b, "kept %s/%s %d\n", kr.name(), kr.name(), kr.u64())
			return true
		})
	case "runs":
		state, _ := job.ParseRunState(f["state"])
		p, err := ListRuns(e.tx, RunFilter{
			Namespace: f["ns"], Workflow: f["workflow"], State: state, From: f.time("from"), To: f.time("to"),
		}, e.cursor(f), int(f.number("limit")))
		for i := range p.Runs {
			e.showRun(b, &p.Runs[i])
		}
		e.showNext(b, p.Next, err)
	case "steps":
		steps, next, err := ListRunSteps(e.tx, e.runRef(f), e.cursor(f), int(f.number("limit")))
		for i := range steps {
			t := &steps[i].Record
			fmt.Fprintf(b, "%d %s %s %v", steps[i].Number, t.Step, e.name(t.ID), t.State)
			if t.Attempt > 0 {
				fmt.Fprintf(b, " attempt %d", t.Attempt)
			}
			if t.Error != "" {
				fmt.Fprintf(b, " %q", t.Error)
			}
			fmt.Fprintln(b)
		}
		e.showNext(b, next, err)
	default:
		return false
	}
	return true
}

// knownRun is runName while the rows are walked.
func (e *scriptEnv) knownRun(ref RunRef) string {
	return fmt.Sprintf("r%d", slices.Index(e.runs, ref)+1)
}

func (e *scriptEnv) describeRun(k []byte) (string, bool) {
	r := readKey(k)
	step := func() string { return fmt.Sprintf("%s %d", e.knownRun(r.runRef()), r.u32()) }
	switch k[0] {
	case tableWorkflows:
		return fmt.Sprintf("workflow %s/%s", r.name(), r.name()), true
	case tableWorkflowVersions:
		return fmt.Sprintf("workflow-version %s/%s %d", r.name(), r.name(), r.u64()), true
	case tableNamed:
		kind, ns, name, by := r.u8(), r.name(), r.name(), r.u8()
		return fmt.Sprintf("named %c %s/%s by %c %s", kind, ns, name, by, r.name()), true
	case tableRuns:
		return "run " + e.knownRun(r.runRef()), true
	case tableRunParams:
		return "run-params " + e.knownRun(r.runRef()), true
	case tableSteps:
		return "step " + step(), true
	case tableRunsByState:
		ns, state := r.name(), job.RunState(r.u8())
		return fmt.Sprintf("run-state %s %v %s", ns, state, e.knownRun(RunRef{ns, r.id()})), true
	case tableRunsByWorkflow:
		ns, name := r.name(), r.name()
		return fmt.Sprintf("run-workflow %s %s %s", ns, name, e.knownRun(RunRef{ns, r.id()})), true
	case tableRunOwed:
		return "run-owed " + e.knownRun(r.runRef()), true
	case tableStepOwed:
		return "step-owed " + step(), true
	case tableStepReady:
		return "step-ready " + step(), true
	case tableRunEnded:
		dead, at := r.u8(), r.time()
		return fmt.Sprintf("run-ended %d %s %s", dead, e.at(at), e.knownRun(r.runRef())), true
	case tableRunDeadlines:
		return fmt.Sprintf("run-deadline %s %s", e.at(r.time()), e.knownRun(r.runRef())), true
	case tableRunKeys:
		return fmt.Sprintf("run-key %s %q", r.name(), r.name()), true
	}
	return "", false
}
