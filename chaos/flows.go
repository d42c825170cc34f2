package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

// The workflows of the load: one whose steps are decided and filled in by
// expressions, fan out and are another one; one that has a step for each rule, of
// which some fail as a mask says; and a small one, of which there are many.
const (
	innerFlow = "inner"
	outerFlow = "outer"
	rulesFlow = "rules"
	smallFlow = "small"
)

// The bits of the mask of rulesFlow.
const (
	failsA = 1 << iota
	failsB
	skipsC
	maskEnd
)

func flows() map[string]job.WorkflowSpec {
	quick := job.JSON(`{"run_ms": 50}`)
	ms := job.Param{Name: "ms", Type: job.ParamInt, Default: job.JSON("10")}
	return map[string]job.WorkflowSpec{
		innerFlow: {
			Params: []job.Param{ms},
			Steps: []job.Step{
				{Name: "a", Job: plainJob, Payload: job.JSON(`{"run_ms": "${{ params.ms }}"}`)},
				{Name: "b", Job: plainJob, Payload: quick, Needs: []string{"a"}},
			},
		},
		outerFlow: {
			Params: []job.Param{ms, {Name: "list", Type: job.ParamList, Default: job.JSON("[1]")}},
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
		rulesFlow: rules(quick),
		smallFlow: {
			Steps: []job.Step{
				{Name: "extract", Job: plainJob, Payload: job.JSON(`{"run_ms": 20}`)},
				{Name: "clean", Job: plainJob, Payload: job.JSON(`{"run_ms": 20}`), Needs: []string{"extract"}},
				{Name: "count", Job: plainJob, Payload: job.JSON(`{"run_ms": 20}`), Needs: []string{"extract"}},
				{Name: "report", Job: plainJob, Payload: job.JSON(`{"run_ms": 20}`), Needs: []string{"clean", "count"}},
			},
		},
	}
}

// rules has a step for each rule, which all need the same three.
func rules(quick job.JSON) job.WorkflowSpec {
	once := job.Policy{Retry: &job.Retry{MaxRetries: new(0)}}
	fails := func(bit int) job.JSON {
		return job.JSON(fmt.Sprintf(`{"run_ms": 30, "fail": "${{ int(params.mask / %d) %% 2 == 1 ? 99 : 0 }}"}`, bit))
	}
	needs := []string{"a", "b", "c"}
	w := job.WorkflowSpec{
		Params: []job.Param{{Name: "mask", Type: job.ParamInt, Default: job.JSON("0")}},
		Steps: []job.Step{
			{Name: "a", Job: doomedJob, Payload: fails(failsA), Policy: once, AllowFailure: true},
			{Name: "b", Job: plainJob, Payload: fails(failsB), Policy: once},
			{Name: "c", Job: plainJob, Payload: quick, When: fmt.Sprintf("params.mask < %d", skipsC)},
		},
		OnFailure: []job.Step{{Name: "tell", Job: plainJob, Payload: quick}},
		Finally:   []job.Step{{Name: "end", Job: plainJob, Payload: quick}},
	}
	for _, r := range job.Rules {
		w.Steps = append(w.Steps, job.Step{Name: string(r), Job: plainJob, Payload: quick, Needs: needs, Rule: r, AllowFailure: true})
	}
	w.Steps = append(w.Steps, job.Step{
		Name: "last", Job: plainJob, Payload: quick, Needs: []string{string(job.AllSuccess), string(job.AllFailed), string(job.NoneFailed)}, Rule: job.AllDone,
	})
	return w
}

// defineFlows puts the workflows, the inner one first.
func (l *load) defineFlows(ctx context.Context) error {
	all := flows()
	for _, name := range []string{innerFlow, outerFlow, rulesFlow, smallFlow} {
		if _, err := l.clients[0].PutWorkflow(ctx, name, all[name]); err != nil {
			return fmt.Errorf("define workflow %s: %w", name, err)
		}
	}
	return nil
}

// start starts a run and notes that it was acknowledged.
func (c *caller) start() {
	flow, params := c.flow()
	call := Call{Verb: StartRun, Arg: string(params), Key: fmt.Sprintf("run-%d", c.next())}
	c.together(1+c.rng.IntN(2), func(n int) { // the same request, at the same time
		c.askThrough(c.i+n, call, func(ctx context.Context, cl *client.Client) (string, error) {
			r, err := cl.StartRun(ctx, flow, client.StartRunRequest{Params: params, IdempotencyKey: call.Key})
			if err == nil && n == 0 {
				c.began(r.ID)
			}
			return r.ID, err
		})
	})
}

// flow draws a workflow with parameters.
func (c *caller) flow() (name string, params []byte) {
	switch c.rng.IntN(4) {
	case 0:
		return smallFlow, []byte("{}")
	case 1, 2:
		params, _ = json.Marshal(map[string]any{"mask": c.rng.IntN(maskEnd)}) // plain values
		return rulesFlow, params
	}
	list := make([]int, c.rng.IntN(6))
	for i := range list {
		list[i] = c.rng.IntN(10)
	}
	params, _ = json.Marshal(map[string]any{"ms": c.rng.IntN(500), "list": list})
	return outerFlow, params
}

// actOnRun changes by hand what becomes of a run.
func (c *caller) actOnRun() {
	id := c.latest(&c.runs, c.rng, 6)
	if id == "" {
		c.start()
		return
	}
	steps := strings.Fields("first even fan join a b c last " + string(job.OneFailed))
	step := steps[c.rng.IntN(len(steps))]
	time.Sleep(time.Duration(c.rng.Int64N(int64(time.Second))))
	do := func(verb Verb, step string, act func(context.Context, *client.Client) (client.Run, error)) {
		c.ask(Call{Verb: verb, Object: id, Arg: step}, func(ctx context.Context, cl *client.Client) (string, error) {
			r, err := act(ctx, cl)
			return r.ID, err
		})
	}
	switch c.rng.IntN(6) {
	case 0:
		do(CancelRun, "", func(ctx context.Context, cl *client.Client) (client.Run, error) { return cl.CancelRun(ctx, id, "sim") })
	case 1:
		do(Rerun, "", func(ctx context.Context, cl *client.Client) (client.Run, error) {
			return cl.Rerun(ctx, id, client.RerunRequest{})
		})
	case 2:
		do(Rerun, step, func(ctx context.Context, cl *client.Client) (client.Run, error) {
			return cl.Rerun(ctx, id, client.RerunRequest{From: step})
		})
	case 3:
		do(RerunStep, step, func(ctx context.Context, cl *client.Client) (client.Run, error) { return cl.RerunStep(ctx, id, step) })
	case 4:
		do(SkipStep, step, func(ctx context.Context, cl *client.Client) (client.Run, error) {
			return cl.SkipStep(ctx, id, step, "sim")
		})
	default:
		do(ForceSuccess, step, func(ctx context.Context, cl *client.Client) (client.Run, error) {
			return cl.ForceSuccess(ctx, id, step, "sim")
		})
	}
}
