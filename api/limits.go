package api

import (
	"strings"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
)

// shownHolders bounds the holders that are listed for one limit.
const shownHolders = 100

// listLimits answers with the concurrency limits that attempts hold.
func (a *api) listLimits(r *request) error {
	out := client.LimitList{Limits: []client.Limit{}}
	return a.page(r, &out, func(v fsm.Reader, limit int) error {
		limits, next, err := fsm.ListLimits(v, r.namespace, r.values.Get("cursor"), limit, shownHolders)
		if err != nil {
			return err
		}
		out.NextCursor = next
		for _, l := range limits {
			out.Limits = append(out.Limits, showLimit(l))
		}
		return nil
	})
}

func showLimit(l fsm.Limit) client.Limit {
	out := client.Limit{Namespace: l.Namespace, Key: l.Key, Held: l.Held, Max: l.Max, Holders: []client.Holder{}}
	if name, shared := strings.CutPrefix(l.Scope, fsm.ScopeName); shared {
		out.Name = name
	} else {
		out.Job = strings.TrimPrefix(l.Scope, fsm.ScopeJob)
	}
	for _, h := range l.Holders {
		out.Holders = append(out.Holders, client.Holder{Task: h.Ref.ID.String(), Since: at(h.Since)})
	}
	return out
}
