package worker

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
)

const (
	maxSending    = 64                     // results that one session has in flight
	maxGiveBacks  = 256                    // attempts in one give-back
	sendTimeout   = 10 * time.Second       // for the leader to commit a result
	resendPause   = 200 * time.Millisecond // after a result could not be sent, doubling
	resendMax     = 5 * time.Second
	startedNotify = time.Second // for the connection to take a notification
)

func hostname() (string, error) { return os.Hostname() }

// deliver sends what is owed until ctx ends. Every session begins with all of
// it, since the previous one may have lost an answer.
func (s *session) deliver(ctx context.Context) {
	defer s.sending.Wait()
	for ctx.Err() == nil {
		entries := s.w.table.take(s, cap(s.room))
		s.send(ctx, entries)
		if len(entries) == cap(s.room) {
			continue // there may be more
		}
		select {
		case <-s.w.table.changed:
		case <-ctx.Done():
		}
	}
}

// send starts sending entries: results one by one, give-backs together by
// reason.
func (s *session) send(ctx context.Context, entries []spooled) {
	giveBacks := map[string][]rpc.Ref{}
	for _, e := range entries {
		if e.GiveBack != "" {
			giveBacks[e.GiveBack] = append(giveBacks[e.GiveBack], e.Ref)
			continue
		}
		s.start(ctx, []rpc.Ref{e.Ref}, func(ctx context.Context) error { return s.sendResult(ctx, e) })
	}
	for why, refs := range giveBacks {
		for len(refs) > 0 {
			part := refs[:min(len(refs), maxGiveBacks)]
			refs = refs[len(part):]
			s.start(ctx, part, func(ctx context.Context) error {
				free := s.w.table.counts().Free
				return s.conn.Call(ctx, rpc.MethodWorkerGiveBack, rpc.GiveBack{Refs: part, Reason: why, Free: free}, nil)
			})
		}
	}
}

// start sends in a goroutine of its own, again and again until it is answered
// or the session ends.
func (s *session) start(ctx context.Context, refs []rpc.Ref, call func(context.Context) error) {
	select {
	case s.room <- struct{}{}:
	case <-ctx.Done():
		return
	}
	s.sending.Go(func() {
		defer func() { <-s.room }()
		for pause := resendPause; ctx.Err() == nil; pause = min(2*pause, resendMax) {
			err := s.attemptCall(ctx, call)
			if err == nil {
				s.w.acknowledged(refs)
				return
			}
			if ctx.Err() != nil || errors.Is(err, rpc.ErrClosed) {
				return // the next session sends it
			}
			var answer *rpc.Error
			if errors.As(err, &answer) && answer.Code == string(job.CodeNoLeader) {
				_ = s.conn.Close() // it leads no more
				return
			}
			s.w.log.Warn("a result was not taken and is sent again", "task_id", job.ID(refs[0].ID).String(), "error", err)
			sleep(ctx, jitter(pause))
		}
	})
}

func (s *session) attemptCall(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	return call(ctx)
}

func (s *session) sendResult(ctx context.Context, e spooled) error {
	var reply rpc.FinishedReply
	if err := s.conn.Call(ctx, rpc.MethodWorkerFinished, rpc.Finished{Ref: e.Ref, Result: e.Result}, &reply); err != nil {
		return err
	}
	if reply.Refused != "" {
		s.w.log.Warn("a result did not count", append(refAttrs(e.Ref, ""), "reason", reply.Refused)...)
	}
	return nil
}

// acknowledged forgets what the leader has taken for good.
func (w *Worker) acknowledged(refs []rpc.Ref) {
	for _, ref := range refs {
		if err := w.spool.remove(ref); err != nil {
			w.log.Warn("an acknowledged result stays on disk and is sent again after a restart", "error", err)
		}
		w.table.acknowledged(ref)
	}
}

// tellStarted tells the leader that an attempt runs.
func (w *Worker) tellStarted(a *attempt) {
	w.table.mu.Lock()
	held := w.table.attempts[keyOf(a.item.Ref)] == a
	a.told = held
	started := rpc.Started{Ref: a.item.Ref, AtMS: a.started}
	w.table.mu.Unlock()
	w.mu.Lock()
	s := w.session
	w.mu.Unlock()
	if held && s != nil {
		s.notifyStarted(started)
	}
}

// notifyStarted may fail: the next session tells it again, and the result does too.
func (s *session) notifyStarted(m rpc.Started) {
	ctx, cancel := context.WithTimeout(context.Background(), startedNotify)
	defer cancel()
	if err := s.conn.Notify(ctx, rpc.MethodWorkerStarted, m); err != nil {
		s.w.log.Debug("start not reported", append(refAttrs(m.Ref, ""), "error", err)...)
	}
}
