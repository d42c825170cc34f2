package server

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/axd-project/axd/api"
	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/notify"
)

// The limits of lists that schedules fetch.
const (
	maxListBytes = 2 << 20          // of an answer
	listTime     = 30 * time.Second // for an answer, and once more to compare it
	maxLists     = 16               // requests at once, their comparison included
)

// The headers that tell whoever is asked for a list what it is for.
const (
	headerSchedule = "Axd-Schedule" // namespace/name
	headerNominal  = "Axd-Nominal-Time"
)

func (s *Server) newLists() *notify.Sender {
	return notify.New(notify.Config{
		Guard: notify.Guard{Allow: s.cfg.CallbackAllow}, UserAgent: "axd/" + cmp.Or(s.cfg.Version, "dev"), What: "request for a list",
		PerTarget: 1, Total: maxLists, Timeout: listTime, MaxTaken: maxListBytes, Now: s.clock.Now, Logger: s.log,
	})
}

// listsOwed is what state holds of lists to be fetched, in one term of leadership.
type listsOwed struct {
	*Server
	term uint64
}

// comparing is a list on its way, and what its comparison told.
type comparing struct {
	fsm.ListFetch
	counts    fsm.ListCounts
	different []fsm.Difference
}

// Targets implements notify.Outbox.
func (o listsOwed) Targets(after string, limit int) []notify.Target {
	v := o.node.View()
	defer v.Close()
	return targets(fsm.ListFetchTargets(v, after, limit))
}

// Due implements notify.Outbox.
func (o listsOwed) Due(target string, limit int) ([]notify.Delivery, int64) {
	v := o.node.View()
	defer v.Close()
	list, next := fsm.DueListFetches(v, target, o.clock.Now(), limit)
	out := make([]notify.Delivery, len(list))
	for i := range list {
		c := &comparing{ListFetch: list[i]}
		out[i] = notify.Delivery{
			ID: c.ID.String(), URL: c.URL, Handle: c,
			Header: map[string]string{headerSchedule: c.Namespace + "/" + c.Schedule, headerNominal: job.FormatTime(c.Fire.Nominal)},
			Take:   func(ctx context.Context, body []byte) error { return o.compare(ctx, c, body) },
		}
		keys, err := o.signingKeys(v, c.Namespace, c.Secret)
		if out[i].Keys = keys; err != nil {
			out[i].Unsent = err.Error()
		}
	}
	return out, next
}

// compare compares a list that has come, and replays where it is to.
func (o listsOwed) compare(ctx context.Context, c *comparing, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	out, list, err := api.ReconcileList(ctx, o.Server, api.FetchedList{
		Namespace: c.Namespace, Schedule: c.Schedule, Body: body, Replay: c.Replay, Before: c.Created,
	})
	if err != nil {
		return fmt.Errorf("its list can't be compared: %w", err)
	}
	c.counts = fsm.ListCounts{
		Same: out.Same, Differs: out.Differs, Missing: out.Missing, Submitted: out.Submitted, Replayed: out.Replayed,
	}
	for i := range out.Results {
		r := &out.Results[i]
		if r.Error != nil {
			c.counts.Wrong++
		}
		if (r.Error != nil || r.Verdict != client.ReconcileSame) && len(c.different) < fsm.MaxDifferences {
			c.different = append(c.different, difference(r, list[i].State))
		}
	}
	return nil
}

func difference(r *client.Reconciled, believed string) fsm.Difference {
	d := fsm.Difference{
		Key: r.IdempotencyKey, Verdict: r.Verdict, Task: r.ID, State: r.State, Submitted: r.Submitted, Replayed: r.Replayed,
	}
	if _, _, err := job.ParseShown(believed); err == nil || believed == client.ReconcileOpen {
		d.Believed = believed
	}
	if r.Error != nil {
		d.Error = r.Error.Detail
	}
	return d
}

// Settle implements notify.Outbox.
func (o listsOwed) Settle(ctx context.Context, d notify.Delivery, r notify.Outcome) error {
	c := d.Handle.(*comparing) //nolint:forcetypeassert // Due made it
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	res, err := o.proposeHere(ctx, fsm.ListFetched{
		Term: o.term, Ref: c.Ref(), Version: c.Version, OK: r.OK, Status: r.Status, Error: r.Error, Counts: c.counts, Different: c.different,
	})
	if err != nil {
		return err
	}
	if res.Err != nil {
		o.log.Debug("what came of a list was refused", "list", d.ID, "error", res.Err)
	}
	return nil
}
