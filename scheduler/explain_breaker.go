package scheduler

import (
	"fmt"
	"slices"
	"strings"

	"github.com/axd-project/axd/job"
)

// explainBreakers tells which breakers keep a due task from workers that match, and
// from its HTTP target.
func explainBreakers(l *loop, q *asked) {
	if !q.due() || len(l.gates) == 0 {
		return
	}
	if g := l.gates[targetGate(q.shape.target)]; q.shape.target != "" && g != nil {
		q.addGate(g, "The breaker of "+q.shape.target+" is open, since its requests failed in a row",
			"Wait: one request then tries whether it is up. 'axd breaker list' tells the last error.")
	}
	m := l.matching(q.shape, q.task.Policy.Priority)
	barred := l.barred(q.shape, m.fit)
	if len(barred) == 0 || len(barred) == len(m.fit) { // where all are barred, none counts
		return
	}
	first := &gate{}
	var names []string
	for _, w := range barred {
		names = append(names, w.name)
		for _, k := range gatesOf(w, q.shape) {
			if g := l.gates[k]; g != nil && (first.until == 0 || g.until < first.until) {
				first = g
			}
		}
	}
	slices.Sort(names)
	q.addGate(first, fmt.Sprintf("Breakers keep it from %d of %s that match (%s), where attempts failed in a row", len(barred),
		count(len(m.fit), "worker"), strings.Join(names[:min(len(names), maxNamed)], ", ")),
		"Wait for a slot of the others, or see 'axd breaker list' for what went wrong.")
}

func (q *asked) addGate(g *gate, text, next string) {
	r := job.Reason{Code: job.ReasonBreakerOpen, Text: text + ".", Next: next}
	if g.until > q.now {
		r.Until = g.until
	} else {
		r.Text = text + "; it is half open, and one attempt tries whether it may close."
	}
	q.add(r)
}

// barred are those of the workers that breakers keep tasks of a shape from.
func (l *loop) barred(s shape, workers []*workerState) (out []*workerState) {
	for _, w := range workers {
		if l.bars(w, s, false) {
			out = append(out, w)
		}
	}
	return out
}
