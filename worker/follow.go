package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
)

const arrivalTime = 200 * time.Millisecond // for a dispatch that is on its way

var errTooManyFollowers = &rpc.Error{
	Code: string(job.CodeOverloaded), Text: fmt.Sprintf("an attempt can have %d followers at one time", maxFollowers),
}

// follow streams an attempt's output. It ends once the attempt has ended and the
// leader has its result, so that who followed finds the result in state; of an
// attempt that is not held there is nothing to stream.
func (w *Worker) follow(ctx context.Context, r *rpc.Request) error {
	var m rpc.Follow
	if err := r.Decode(&m); err != nil {
		return err
	}
	ref, h := w.table.output(m.Ref, &w.heads)
	if h == nil && w.table.unacknowledged(m.Ref) == nil {
		ref, h = w.awaitOutput(ctx, m.Ref)
	}
	if h != nil {
		if err := passOutput(ctx, h, r.Send); err != nil {
			return err
		}
		m.Ref = ref
	}
	if done := w.table.unacknowledged(m.Ref); done != nil {
		select {
		case <-done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// awaitOutput waits a moment for an attempt to arrive. It must not miss one that
// ends soon after.
func (w *Worker) awaitOutput(ctx context.Context, ref rpc.Ref) (rpc.Ref, *hub) {
	timer := time.NewTimer(arrivalTime)
	defer timer.Stop()
	for {
		arrival := w.table.arrival()
		if found, h := w.table.output(ref, &w.heads); h != nil {
			return found, h
		}
		select {
		case <-arrival:
		case <-timer.C:
			return ref, nil
		case <-ctx.Done():
			return ref, nil
		}
	}
}

// passOutput sends an attempt's output until the attempt or ctx ends.
func passOutput(ctx context.Context, h *hub, send func(any) error) error {
	f := h.follow()
	if f == nil {
		return errTooManyFollowers
	}
	defer h.leave(f)
	for {
		out, ok, ended := f.next()
		switch {
		case ended:
			return nil
		case ok:
			if err := send(out); err != nil {
				return err
			}
			continue
		}
		select {
		case <-f.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
