package api

import (
	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
)

// The states of a breaker.
const (
	breakerClosed   = "closed"
	breakerOpen     = "open"
	breakerHalfOpen = "half_open"
)

func showBreaker(b *fsm.Breaker, now int64) client.Breaker {
	out := client.Breaker{
		Kind: b.Kind, State: breakerClosed, Worker: b.Worker, Namespace: b.Namespace, Job: b.Job, Target: b.Target,
		Failures: b.Failures, Opened: b.Opened, OpenUntil: instant(b.OpenUntil), LastError: b.Error, ChangedAt: instant(b.Changed),
	}
	switch {
	case b.OpenUntil > now:
		out.State = breakerOpen
	case b.OpenUntil > 0:
		out.State = breakerHalfOpen
	}
	return out
}

// listBreakers answers with all: there are few enough for one page.
func (a *api) listBreakers(r *request) error {
	out := client.BreakerList{Breakers: []client.Breaker{}}
	return a.answer(r, &out, func(v fsm.Reader) error {
		breakers := fsm.ListBreakers(v)
		for i := range breakers {
			out.Breakers = append(out.Breakers, showBreaker(&breakers[i], a.backend.Now()))
		}
		return nil
	})
}
