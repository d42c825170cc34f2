package scheduler

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// flowOf puts a workflow; its steps name the job work, whose tasks fail once only.
func (c *cluster) flowOf(name, text string) {
	c.t.Helper()
	var spec job.WorkflowSpec
	if err := yaml.UnmarshalWithOptions([]byte(text), &spec, yaml.Strict()); err != nil {
		c.t.Fatal(err)
	}
	none := 0
	for _, cmd := range []fsm.Command{
		fsm.PutJob{Namespace: "default", Name: "work", Spec: job.Spec{
			Executor: job.Executor{Handler: "work"}, Policy: job.Policy{Retry: &job.Retry{MaxRetries: &none}},
		}},
		fsm.PutWorkflow{Namespace: "default", Name: name, Spec: spec},
	} {
		if r := c.apply(cmd); r.Err != nil {
			c.t.Fatal(r.Err)
		}
	}
}

func (c *cluster) startFlow(name, params string) fsm.RunRef {
	c.t.Helper()
	r := c.apply(fsm.StartRun{Namespace: "default", Workflow: name, Params: []byte(params)})
	if r.Err != nil {
		c.t.Fatal(r.Err)
	}
	return r.Run.Ref()
}

func (c *cluster) flowRun(ref fsm.RunRef) fsm.Run {
	c.t.Helper()
	r, release := c.Read()
	defer release()
	run, ok := fsm.GetRun(r, ref)
	if !ok {
		c.t.Fatalf("run %s is gone", ref.ID)
	}
	return run
}

// shown writes the steps of a run, each with state, payload and error.
func (c *cluster) shown(ref fsm.RunRef) string {
	c.t.Helper()
	r, release := c.Read()
	defer release()
	steps, _, err := fsm.ListRunSteps(r, ref, "", 1000)
	if err != nil {
		c.t.Fatal(err)
	}
	var b strings.Builder
	for _, s := range steps {
		body, _ := fsm.BodyOf(r, &s.Record)
		fmt.Fprintf(&b, "%s %s %s %s\n", s.Record.Step, s.Record.State, body.Payload, s.Record.Error)
	}
	return b.String()
}

const computed = `
params: [{name: day, required: true}, {name: big, type: int, default: 9007199254740993}]
steps:
- {name: list, job: work}
- {name: load, job: work, needs: [list], when: steps.list.output.n == 2, payload: {files: "${{ steps.list.output.files }}", big: "${{ params.big }}", day: "of ${{ params.day }}"}}
- {name: sunday, job: work, needs: [list], when: params.day == "sun"}
- {name: after, job: work, needs: [sunday], rule: none_failed, payload: "${{ steps.sunday.state }} ${{ steps.list.exit_code == nil }} ${{ run.workflow }}"}
- {name: text, job: work, needs: [load], payload: "${{ steps.load.output }}!"}
- {name: broken, job: work, needs: [list], payload: "${{ steps.list.output.n.x }}"}
- {name: behind, job: work, needs: [broken]}
`

// Steps run by what others have returned, and a step whose expression fails says so.
func TestStepsAreComputed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 10, 100*time.Millisecond)
		w.returns = func(t *fsm.Task) string {
			return map[string]string{"list": `{"n": 2, "files": ["a", 18446744073709551616]}`, "load": "no JSON"}[t.Step]
		}
		w.mustConnect()
		c.flowOf("w", computed)
		ref := c.startFlow("w", `{"day": "mon"}`)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		const want = `list success  
load success {"big":9007199254740993,"day":"of mon","files":["a",18446744073709551616]} 
sunday skipped  when is false: "params.day == \"sun\""
after success "skipped true w" 
text success "no JSON!" 
broken failed  payload: column 21: an integer has no x
behind upstream_failed  
`
		if got := c.shown(ref); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
		if run := c.flowRun(ref); run.State != job.RunFailed {
			t.Errorf("run %v", run.State)
		}
		c.check()
	})
}

// A leader that dies before its verdict leaves it to the next, and steps are never
// computed twice.
func TestNewLeaderComputesSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 10, 100*time.Millisecond)
		w.mustConnect()
		c.flowOf("w", "steps:\n- {name: a, job: work}\n- {name: b, job: work, needs: [a], when: 'true'}\n")
		c.mu.Lock()
		c.deaf = true
		c.mu.Unlock()
		ref := c.startFlow("w", "")
		time.Sleep(time.Second)
		c.mu.Lock()
		c.deaf = false
		c.mu.Unlock()
		w.disconnect()
		c.lead()
		w.mustConnect()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if run := c.flowRun(ref); run.State != job.RunSuccess {
			t.Errorf("run %v:\n%s", run.State, c.shown(ref))
		}
		if n := len(w.seen()); n != 2 {
			t.Errorf("%d starts", n)
		}
		c.check()
	})
}

// Proposals that are not committed are made again.
func TestVerdictsAreProposedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.flowOf("w", "steps:\n- {name: a, job: work, when: 'true'}\n")
		c.mu.Lock()
		c.deaf = true
		c.mu.Unlock()
		ref := c.startFlow("w", "")
		time.Sleep(3 * time.Second)
		c.mu.Lock()
		c.deaf = false
		c.mu.Unlock()
		time.Sleep(judgeRetry + 10*commitDelay)
		synctest.Wait()
		if got := c.shown(ref); got != "a pending  \n" {
			t.Errorf("got %s", got)
		}
	})
}

const fanned = `
params: [{name: n, type: int, default: 150}]
steps:
- {name: list, job: work}
- {name: each, job: work, needs: [list], for_each: {items: '${{ 1..params.n }}', parallel: 20}, payload: {item: "${{ item * 10 }}", at: "${{ index }} of ${{ len(steps.list.output) }}"}}
- {name: plain, job: work, for_each: {items: [{a: 9007199254740993}, b]}}
- {name: sum, job: work, needs: [each, plain], payload: "${{ sum(steps.each.output) }} ${{ steps.each.output[149] }} ${{ steps.plain.output }}"}
- {name: many, job: work, needs: [list], for_each: {items: '${{ steps.list.output }}', max: 1}}
- {name: nolist, job: work, needs: [list], for_each: {items: '${{ steps.list.output[0] }}'}}
- {name: late, job: work, needs: [list], for_each: {items: '${{ steps.list.output }}'}, payload: "${{ [1][index] }}"}
`

// A list becomes tasks, made part by part, and their outputs a list again.
func TestStepsFanOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 100, 100*time.Millisecond)
		var mu sync.Mutex // tasks end side by side
		most := 0
		w.returns = func(t *fsm.Task) string {
			mu.Lock()
			most = max(most, 100-w.free())
			mu.Unlock()
			r, release := c.Read()
			defer release()
			body, _ := fsm.BodyOf(r, t)
			return map[string]string{"list": `["x", "y"]`, "each": fmt.Sprint(t.Item), "plain": string(body.Payload)}[t.Step]
		}
		w.mustConnect()
		c.flowOf("w", fanned)
		ref := c.startFlow("w", "")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		const want = `list success  
each success  
plain success  
sum success "11325 150 [{\"a\":9007199254740993},\"b\"]" 
many failed  for_each.items: are 2, more than max, 1
nolist failed  for_each.items: must be a list, not a string (of "steps.list.output[0]")
late failed  item 2: payload: column 4: index out of range: 1 (array length is 1)
`
		if got := c.shown(ref); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
		r, release := c.Read()
		step, _ := fsm.GetStep(r, ref, 1)
		items := fsm.Items(r, ref, 1, &step, 148, 10)
		body, _ := fsm.BodyOf(r, &items[1].Record)
		release()
		if len(items) != 2 || string(body.Payload) != `{"at":"149 of 2","item":1500}` {
			t.Errorf("%d items, the last has %s", len(items), body.Payload)
		}
		if most > 25 {
			t.Errorf("%d at once", most)
		}
		c.check()
	})
}

// What a workflow declares as its outputs, later steps read: of one run, and of each of
// those that a step fans out into.
func TestStepsReadOutputsOfRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 100, 100*time.Millisecond)
		w.returns = func(t *fsm.Task) string {
			r, release := c.Read()
			defer release()
			body, _ := fsm.BodyOf(r, t)
			return map[string]string{"list": `[1, 2, 3]`, "i": string(body.Payload)}[t.Step]
		}
		w.mustConnect()
		c.flowOf("inner", `
params: [{name: n, type: int, required: true}]
steps:
- {name: i, job: work, payload: "${{ params.n * 10 }}"}
- {name: s, job: work, when: params.n == 2}
outputs: {tens: "${{ steps.i.output }}", of: "${{ params.n }}", text: "${{ steps.s.state }} in ${{ run.workflow }}"}
`)
		c.flowOf("bad", "params: [{name: n, type: int}]\nsteps:\n- {name: i, job: work}\noutputs: {x: \"${{ params.n.y }}\"}\n")
		c.flowOf("middle", "steps:\n- {name: m, workflow: inner, params: {n: 7}}\noutputs: {m: \"${{ steps.m.output.tens }}\"}\n")
		c.flowOf("outer", `
params: [{name: add, type: int, default: 5}]
steps:
- {name: list, job: work}
- {name: one, workflow: middle, needs: [list]}
- {name: each, workflow: inner, needs: [list], for_each: {items: "${{ steps.list.output }}", parallel: 2}, params: {n: "${{ item + index }}"}}
- {name: plain, workflow: inner, for_each: {items: [{n: 1}, 2]}}
- {name: broken, workflow: bad, params: {n: 1}}
- {name: sum, job: work, needs: [one, each], payload: "${{ steps.one.output.m + params.add }} ${{ map(steps.each.output, #.tens) }} ${{ steps.each.output[0].text }}"}
- {name: wrong, job: work, needs: [broken], payload: "${{ steps.broken.output }}"}
`)
		ref := c.startFlow("outer", "")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		const want = `list success  
one success  
each success  
plain failed  item 2: must be an object, the parameters of its run, where the step gives no params (got "2")
broken success  
sum success "75 [10,30,50] skipped in inner" 
wrong failed  steps.broken: run %s: outputs.x: column 10: an integer has no y
`
		r, release := c.Read()
		step, _ := fsm.GetStep(r, ref, 4)
		release()
		if got := c.shown(ref); got != fmt.Sprintf(want, step.Child) {
			t.Errorf("got\n%swant\n%s", got, want)
		}
		c.check()
	})
}

// A step that is a workflow is given parameters, and ends with its run.
func TestStepsAreWorkflows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 100, 100*time.Millisecond)
		w.returns = func(*fsm.Task) string { return `{"day": "mon"}` }
		w.mustConnect()
		c.flowOf("inner", "params: [{name: day, required: true}, {name: n, type: int, default: 3}]\nsteps:\n- {name: i, job: work, payload: \"${{ params.day }} ${{ params.n }}\"}\n")
		c.flowOf("outer", `
steps:
- {name: a, job: work}
- {name: sub, workflow: inner, needs: [a], params: {day: "${{ steps.a.output.day }}"}}
- {name: bad, workflow: inner, needs: [a], params: {day: "${{ steps.a.output }}"}}
- {name: z, job: work, needs: [sub], payload: "${{ steps.sub.state }}"}
`)
		ref := c.startFlow("outer", "")
		time.Sleep(3 * time.Second)
		synctest.Wait()
		const want = `a success  
sub success  
bad failed  its run could not be started: params.day: must be a string (got "{\"day\":\"mon\"}")
z success "success" 
`
		if got := c.shown(ref); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
		r, release := c.Read()
		step, _ := fsm.GetStep(r, ref, 1)
		release()
		if got := c.shown(fsm.RunRef{Namespace: "default", ID: step.Child}); got != "i success \"mon 3\" \n" {
			t.Errorf("child %s", got)
		}
		c.check()
	})
}

// A worker is told which schedule fired a task, or the run that it is a step of, and for
// which time.
func TestDispatchesTellOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.flowOf("w", "steps:\n- {name: a, job: work}\n")
		ref := c.must(fsm.StartRun{Namespace: "default", Workflow: "w", Trigger: fsm.RunTrigger{Kind: "schedule", Schedule: "s", Nominal: 5}}).Run.Ref()
		r, release := c.Read()
		defer release()
		step, _ := fsm.GetStep(r, ref, 0)
		task, ok := fsm.GetTask(r, fsm.TaskRef{Namespace: "default", ID: step.Task})
		if !ok {
			t.Fatal("the step has no task")
		}
		l := &loop{runs: newRunMemory()}
		if d := l.newDispatch(r, &task, job.Policy{}, job.Executor{}, 1); d.Schedule != "s" || d.Nominal != 5 {
			t.Errorf("of a step: %q, %d", d.Schedule, d.Nominal)
		}
		if l.runs.originOf(nil, ref) != (runOrigin{"s", 5}) { // nothing to read it from
			t.Error("the run is read for each step")
		}
		l.runs = newRunMemory()
		for i := range uint16(maxOrigins) {
			l.runs.origins[fsm.RunRef{ID: job.ID{byte(i), byte(i >> 8)}}] = runOrigin{}
		}
		if l.runs.originOf(r, ref) != (runOrigin{"s", 5}) || len(l.runs.origins) > maxOrigins {
			t.Errorf("%d runs are remembered", len(l.runs.origins))
		}
		fired := fsm.Task{Namespace: "default", Schedule: "n", Nominal: 7}
		if d := l.newDispatch(r, &fired, job.Policy{}, job.Executor{}, 1); d.Schedule != "n" || d.Nominal != 7 {
			t.Errorf("of a fired task: %q, %d", d.Schedule, d.Nominal)
		}
	})
}
