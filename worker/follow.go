package worker

import (
	"context"
	"errors"
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
	a := w.table.find(m.Ref)
	if a == nil && w.table.unacknowledged(m.Ref) == nil {
		sleep(ctx, arrivalTime)
		a = w.table.find(m.Ref)
	}
	if a != nil {
		m.Ref = a.item.Ref
		if err := passOutput(ctx, a.hub, r.Send); err != nil {
			return err
		}
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

// passOutput sends an attempt's output until the attempt or ctx ends.
func passOutput(ctx context.Context, h *hub, send func(any) error) error {
	f := h.follow()
	if f == nil {
		return errTooManyFollowers
	}
	defer h.leave(f)
	for {
		select {
		case out, ok := <-f.chunks:
			if !ok {
				var errs []error
				for _, out := range h.rest(f) {
					errs = append(errs, send(out))
				}
				return errors.Join(errs...)
			}
			if err := send(out); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
