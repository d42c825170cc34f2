package notify

import (
	"time"
)

// queued is how many deliveries of a target are read ahead for each request that it
// may have at once.
const queued = 4

// lane is the work for one target: it ends when nothing is due.
type lane struct {
	*run
	*target
	queue    []Delivery
	inFlight map[string]bool // by id
	done     chan result
	failing  bool // the last try was not taken: one at a time, until one is
}

type result struct {
	id  string
	ok  bool
	err error // it could not be recorded
}

func (r *run) lane(t *target) {
	l := &lane{run: r, target: t, inFlight: map[string]bool{}, done: make(chan result, r.cfg.PerTarget)}
	for {
		next := l.fill()
		if len(l.inFlight) == 0 {
			if l.ctx.Err() != nil {
				next = l.cfg.Now()
			}
			if r.leave(t, next) {
				return
			}
			continue
		}
		l.await(next)
	}
}

// fill starts as many requests as may be, and returns when the next one is due that
// has not been started; 0: none is known, or it waits for another to end.
func (l *lane) fill() (next int64) {
	for l.ctx.Err() == nil {
		if len(l.inFlight) >= l.width() {
			return 0
		}
		if len(l.queue) == 0 {
			if next = l.read(); len(l.queue) == 0 {
				return next
			}
		}
		d := l.queue[0]
		l.queue = l.queue[1:]
		select {
		case l.slots <- struct{}{}:
		case <-l.ctx.Done():
			return 0
		}
		l.inFlight[d.ID] = true
		l.lanes.Go(func() { l.send(d) })
	}
	return 0
}

func (l *lane) width() int {
	if l.failing {
		return 1
	}
	return l.cfg.PerTarget
}

// read reads what is due, but for what is on its way.
func (l *lane) read() (next int64) {
	list, next := l.outbox.Due(l.name, l.cfg.PerTarget*queued+len(l.inFlight))
	for _, d := range list {
		if !l.inFlight[d.ID] {
			l.queue = append(l.queue, d)
		}
	}
	return next
}

// send makes one try and records what came of it.
func (l *lane) send(d Delivery) {
	o := l.post(l.ctx, &d)
	<-l.slots
	if l.ctx.Err() != nil && !o.OK {
		l.done <- result{id: d.ID, err: l.ctx.Err()} // broken off: that says nothing of the target
		return
	}
	if o.OK {
		l.delivered.Add(1)
	} else {
		l.failed.Add(1)
		l.cfg.Logger.Info("a "+l.cfg.What+" failed", "id", d.ID, "target", l.name, "error", o.Error)
	}
	err := l.outbox.Settle(l.ctx, d, o)
	if err != nil {
		l.cfg.Logger.Debug("what came of a "+l.cfg.What+" could not be recorded: it comes again", "id", d.ID, "error", err)
		pause := time.NewTimer(commitWait)
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-l.ctx.Done():
		}
	}
	l.done <- result{id: d.ID, ok: o.OK, err: err}
}

// await waits until a request has ended, or something is due or came.
func (l *lane) await(next int64) {
	var due <-chan time.Time
	if next != 0 {
		timer := time.NewTimer(max(minWait, time.Duration(next-l.cfg.Now())*time.Millisecond))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case r := <-l.done:
		delete(l.inFlight, r.id)
		if r.err == nil {
			l.failing = !r.ok
		}
	case <-due:
	case <-l.hint:
	}
}
