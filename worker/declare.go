package worker

import (
	"context"
	"time"

	"github.com/axd-project/axd/rpc"
)

const declareEvery = 30 * time.Second

// declare tells the leader regularly what the worker holds, so that it can mend
// what the two disagree on. A leader that takes no declarations loses nothing.
func (s *session) declare(ctx context.Context) {
	for {
		sleep(ctx, jitter(s.w.declareEvery))
		if ctx.Err() != nil {
			return
		}
		if err := s.conn.Call(ctx, rpc.MethodWorkerDeclare, rpc.Declare{Held: s.w.table.held()}, nil); err != nil && ctx.Err() == nil {
			s.w.log.Debug("the leader did not take what the worker holds", "error", err)
		}
	}
}
