package server

import (
	"cmp"
	"context"
	"strconv"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/internal/mutant"
	"github.com/axd-project/axd/notify"
)

func (s *Server) newCallbacks() *notify.Sender {
	return notify.New(notify.Config{
		Guard: notify.Guard{Allow: s.cfg.CallbackAllow}, UserAgent: "axd/" + cmp.Or(s.cfg.Version, "dev"),
		Now: s.clock.Now, Logger: s.log, Transport: s.cfg.Host.Callbacks,
	})
}

// hintOwed tells the senders what an entry made owed.
func (s *Server) hintOwed(events []fsm.Event) {
	for i := range events {
		if c := events[i].Callback; c != nil {
			s.callbacks.Owed(c.Target(), c.Due)
		}
		if l := events[i].List; l != nil {
			s.lists.Owed(l.Target(), l.Due)
		}
	}
}

// outbox is what state holds as owed, in one term of leadership.
type outbox struct {
	*Server
	term uint64
}

// Targets implements notify.Outbox.
func (o outbox) Targets(after string, limit int) []notify.Target {
	v := o.node.View()
	defer v.Close()
	return targets(fsm.CallbackTargets(v, after, limit))
}

func targets(owed []fsm.OwedTarget) []notify.Target {
	var out []notify.Target
	for _, t := range owed {
		out = append(out, notify.Target{Name: t.Name, Due: t.Due})
	}
	return out
}

// Due implements notify.Outbox.
func (o outbox) Due(target string, limit int) ([]notify.Delivery, int64) {
	v := o.node.View()
	defer v.Close()
	list, next := fsm.DueCallbacks(v, target, o.clock.Now(), limit)
	out := make([]notify.Delivery, len(list))
	for i := range list {
		c := &list[i]
		out[i] = notify.Delivery{ID: c.Ref().String(), URL: c.URL, Body: fsm.CallbackBody(v, c), Handle: c}
		if mutant.NewDelivery {
			out[i].ID += "-" + strconv.FormatUint(c.Version, 10)
		}
		keys, err := o.signingKeys(v, c.Namespace, c.Secret)
		if out[i].Keys = keys; err != nil {
			out[i].Unsent = err.Error()
		}
	}
	return out, next
}

// Settle implements notify.Outbox.
func (o outbox) Settle(ctx context.Context, d notify.Delivery, r notify.Outcome) error {
	c := d.Handle.(*fsm.Callback) //nolint:forcetypeassert // Due made it
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	res, err := o.proposeHere(ctx, fsm.CallbackTried{
		Term: o.term, Ref: c.Ref(), Version: c.Version, OK: r.OK, Status: r.Status, Error: r.Error,
	})
	if err != nil {
		return err
	}
	if res.Err != nil { // it has changed meanwhile, as by a redelivery: what it is now holds
		o.log.Debug("what came of a callback was refused", "callback", d.ID, "error", res.Err)
	}
	return nil
}
