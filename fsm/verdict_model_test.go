package fsm

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/axd-project/axd/job"
)

// verdictFlows are workflows of all that a verdict decides, one within the other.
func verdictFlows(w *world) {
	list := []job.Param{{Name: "list"}}
	w.put("inner", job.WorkflowSpec{
		Params: list, MaxParallel: 2,
		Steps: []job.Step{stepOf("a", ""), fanOf("fan", 0, "a"), whenOf("w", "true", "fan")}, Finally: []job.Step{stepOf("end", "")},
	})
	sub := subOf("sub", "inner", "w")
	sub.Rule = job.NoneFailed
	subs := subOf("subs", "inner", "w")
	subs.Rule, subs.ForEach = job.NoneFailed, &job.ForEach{Items: job.JSON(`"${{ params.list }}"`), Parallel: 2}
	w.put("outer", job.WorkflowSpec{
		Params: list, MaxParallel: 3,
		Steps: []job.Step{
			whenOf("w", "true"), fanOf("fan", 2, "w"), sub, subs, stepOf("z", job.AllDone, "fan", "sub", "subs"), whenOf("y", "true", "z"),
		},
		OnFailure: []job.Step{whenOf("of", "true")}, Finally: []job.Step{fanOf("ff", 1)},
	})
}

type verdictModel struct {
	*world
	runs []RunRef
}

// tasks lists what is pending, in any run.
func (m *verdictModel) tasks(state job.State) (all []Task) {
	m.tx.Ascend([]byte{tableTasks}, tableEnd(tableTasks), func(k, v []byte) bool {
		var t Task
		mustDecode(newCodec(), k, v, &t)
		if t.State == state {
			all = append(all, t)
		}
		return true
	})
	return all
}

// judgeNext answers one step that waits. With parts it hands in fewer items than it might.
func (m *verdictModel) judgeNext(w WantedStep, kind, items, part int) {
	s, _ := GetStep(m.tx, w.Run, w.Number)
	run := m.run(w.Run)
	row, _ := GetWorkflowVersion(m.tx, run.Namespace, run.Workflow, run.WorkflowVersion)
	steps, _ := OrderedSteps(row.Spec)
	c := StepVerdict{Ref: w.Run, Step: w.Number, Want: s.Want, Made: s.Made()}
	switch {
	case kind == 1:
		c.Fail = "no"
	case kind == 2:
		c.Skip = "no"
	case steps[w.Number].ForEach != nil:
		c.Total = uint32(items)
		if s.Made() > 0 {
			c.Total = s.Fan.Total
		}
		item := "1"
		if steps[w.Number].Workflow != "" {
			item = "{}"
		}
		for n := c.Made; n < c.Total && len(c.Items) < part; n++ {
			c.Items = append(c.Items, []byte(item))
		}
	}
	m.try(c)
	m.settle()
	m.find()
}

// find notes the runs that steps have started.
func (m *verdictModel) find() {
	m.runs = nil
	m.tx.Ascend([]byte{tableRuns}, tableEnd(tableRuns), func(k, _ []byte) bool {
		m.runs = append(m.runs, readKey(k).runRef())
		return true
	})
}

// act does something at random.
func (m *verdictModel) act(r *rapid.T) {
	pick := func(n int) int { return rapid.IntRange(0, n-1).Draw(r, "pick") }
	wanted := ListWantedSteps(m.tx, nil, 100)
	pending := m.tasks(job.Pending)
	kind := pick(20)
	switch {
	case kind < 7 && len(wanted) > 0:
		m.judgeNext(wanted[pick(len(wanted))], max(pick(8)-5, 0), pick(5), 1+pick(3))
	case kind < 14 && len(pending) > 0:
		o := []job.Outcome{job.OutcomeSuccess, job.OutcomeSuccess, job.OutcomeSuccess, job.OutcomeFailed}[pick(4)]
		m.finish(&pending[pick(len(pending))], o)
	case len(m.runs) < 4:
		m.start("outer")
	case kind == 14:
		if all := append(m.tasks(job.Blocked), pending...); len(all) > 0 {
			m.try(Cancel{Ref: all[pick(len(all))].Ref()})
		}
	case kind == 15:
		m.try(CancelRun{Ref: m.runs[pick(len(m.runs))]})
	case kind == 16:
		if dead := m.tasks(job.Failed); len(dead) > 0 {
			m.try(DeadLetters{Namespace: "default", Replay: pick(3) > 0, IDs: []job.ID{dead[pick(len(dead))].ID}})
		}
	default:
		ref := m.runs[pick(len(m.runs))]
		steps := m.steps(ref)
		names := []string{"w", "fan", "sub", "subs", "z", "y", "a", "of", "ff", "end"}
		name := names[pick(len(names))]
		if _, ok := steps[name]; !ok {
			return
		}
		m.try([]Command{
			RerunRun{Ref: ref, Mode: RerunFailed}, RerunRun{Ref: ref, Mode: RerunFrom, Step: name},
			RerunRun{Ref: ref, Mode: RerunOne, Step: name}, ForceSuccess{Ref: ref, Step: name}, SkipStep{Ref: ref, Step: name},
		}[pick(5)])
	}
	m.settle()
	m.find()
}

// Whatever is done to runs whose steps wait for verdicts, the state stays whole, and
// once all that waits is answered and all that runs succeeds, each run ends.
func TestVerdictsModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		m := &verdictModel{world: newWorld(r)}
		verdictFlows(m.world)
		for range rapid.IntRange(1, 25).Draw(r, "acts") {
			m.act(r)
			m.now += 1000
		}
		for left := 2000; ; left-- {
			m.quick = left%5 != 0 // what breaks the state here breaks it for good
			wanted, pending := ListWantedSteps(m.tx, nil, 1), m.tasks(job.Pending)
			switch {
			case left == 0:
				r.Fatalf("there is no end: %d wanted, %d pending", len(wanted), len(pending))
			case len(wanted) > 0:
				m.judgeNext(wanted[0], 0, 3, MaxItemsPart)
				continue
			case len(pending) > 0:
				m.finish(&pending[0], job.OutcomeSuccess)
				m.settle()
				continue
			}
			break
		}
		m.quick = false
		m.check()
		for _, ref := range m.runs {
			if run := m.run(ref); !run.State.Terminal() {
				r.Fatalf("run %s of %s is %v: %s", ref.ID, run.Workflow, run.State, fmt.Sprint(run.Counts))
			}
		}
		m.now += DeadRetention * 2
		for more := true; more; {
			more = m.do(Expire{EndedBefore: m.now})[0].More
		}
		if m.find(); len(m.runs) != 0 || len(m.tasks(job.Success)) != 0 {
			r.Fatalf("%d runs are left", len(m.runs))
		}
	})
}
