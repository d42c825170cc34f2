package scheduler

import (
	"fmt"

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
			Text: fmt.Sprintf("Its concurrency limit%s lets %d run at a time; held by %s.", ofKey(g.concurrencyKey), g.concurrency.Max,
				count(b.held, "attempt")),
			Next: "Wait until one of them has ended: 'axd limit list' tells which.",
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

func ofKey(key string) string {
	if key == "" {
		return ""
	}
	return " of key " + job.Shorten(key)
}
