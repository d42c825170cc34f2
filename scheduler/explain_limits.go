package scheduler

import (
	"fmt"
	"strings"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// explainLimits tells which limit keeps a due task back.
func explainLimits(_ *loop, q *asked) {
	g := q.shape.group // of one that is paused nil
	if g == nil || !q.due() {
		return
	}
	if b := g.concurrencyBound; b != nil && b.held >= g.concurrency.Max {
		q.add(job.Reason{
			Code: job.ReasonLimitHeld,
			Text: fmt.Sprintf("Its concurrency limit%s lets %d run at a time; held by %s%s.", ofKey(g.concurrencyKey), g.concurrency.Max,
				count(b.held, "attempt"), holdersOf(q.r, b)),
			Next: "Wait until one of them has ended: 'axd limit list' tells of all.",
		})
	}
	const micro = 1000
	if b := g.rateBound; b != nil {
		if at := g.rate.ReadyAt(b.state, q.now*micro); at > q.now*micro {
			q.add(job.Reason{
				Code: job.ReasonRateLimited, Until: (at + micro - 1) / micro,
				Text: "Its rate limit" + ofKey(g.rateKey) + " lets none begin yet.",
				Next: "Wait, or raise the rate of its job.",
			})
		}
	}
}

// holdersOf names the tasks that hold a limit, the first of them.
func holdersOf(r fsm.Reader, b *bound) string {
	var names []string
	for _, h := range fsm.LimitHolders(r, b.id, maxNamed) {
		names = append(names, "task "+h.Ref.ID.String())
	}
	switch {
	case len(names) == 0: // they are about to be committed
		return ""
	case b.held > len(names):
		names = append(names, fmt.Sprintf("and %d more", b.held-len(names)))
	}
	return " (" + strings.Join(names, ", ") + ")"
}

func ofKey(key string) string {
	if key == "" {
		return ""
	}
	return " of key " + job.Shorten(key)
}
