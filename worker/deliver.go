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
	maxSending     = 2                      // messages about what is owed that wait for an answer: what ends meanwhile gathers
	maxResults     = 1024                   // results in one message
	maxGiveBacks   = 200                    // attempts in one give-back, which is one command
	maxResultBytes = 1 << 20                // of results in one message
	sendTimeout    = 10 * time.Second       // for the leader to commit a result
	resendPause    = 500 * time.Millisecond // until what was not taken is sent again
	startedNotify  = time.Second            // for the connection to take a notification
)

func hostname() (string, error) { return os.Hostname() }

// deliver sends what is owed until ctx ends. Every session begins with all of
// it, since the previous one may have lost an answer.
func (s *session) deliver(ctx context.Context) {
	defer s.sending.Wait()
	s.w.table.sendAgain()
	for {
		select { // what comes while all are on their way leaves in one message
		case s.room <- struct{}{}:
		case <-ctx.Done():
			return
		}
		entries, more := s.w.table.take()
		if len(entries) > 0 {
			s.sending.Go(func() { s.send(ctx, entries) })
		} else {
			<-s.room
		}
		if more {
			continue
		}
		select {
		case <-s.w.table.changed:
		case <-ctx.Done():
			return
		}
	}
}

// send sends entries of one kind and gives its room back. What was not taken is
// sent again after a pause, in which it keeps nothing else from being sent.
func (s *session) send(ctx context.Context, entries []spooled) {
	left, err := s.sendOnce(ctx, entries)
	<-s.room
	var answer *rpc.Error
	switch {
	case ctx.Err() != nil, errors.Is(err, rpc.ErrClosed):
		return // the next session sends it
	case errors.As(err, &answer) && answer.Code == string(job.CodeNoLeader):
		_ = s.conn.Close() // it leads no more
		return
	case len(left) == 0:
		return
	}
	s.w.log.Warn("results were not taken and are sent again", "results", len(left),
		"task_id", job.ID(left[0].Ref.ID).String(), "error", err)
	sleep(ctx, jitter(resendPause))
	s.w.table.putBack(left)
}

// sendOnce sends entries and forgets what was taken. It returns the rest, and
// why it was not taken.
func (s *session) sendOnce(ctx context.Context, entries []spooled) (left []spooled, err error) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	if entries[0].GiveBack != "" {
		if err := s.sendGiveBack(ctx, entries); err != nil {
			return entries, err
		}
		s.w.acknowledged(entries)
		return nil, nil
	}
	reply, err := s.sendResults(ctx, entries)
	if err != nil {
		return entries, err
	}
	for _, r := range reply.Refused {
		if r.At >= 0 && r.At < len(entries) {
			s.w.log.Warn("a result did not count", append(refAttrs(entries[r.At].Ref, ""), "reason", r.Why)...)
		}
	}
	if len(reply.Again) == 0 {
		s.w.acknowledged(entries)
		return nil, nil
	}
	again := make(map[int]bool, len(reply.Again))
	for _, r := range reply.Again {
		again[r.At], err = true, errors.New(r.Why)
	}
	var taken []spooled
	for i, e := range entries {
		if again[i] {
			left = append(left, e)
		} else {
			taken = append(taken, e)
		}
	}
	s.w.acknowledged(taken)
	return left, err
}

func (s *session) sendGiveBack(ctx context.Context, entries []spooled) error {
	refs := make([]rpc.Ref, len(entries))
	for i := range entries {
		refs[i] = entries[i].Ref
	}
	g := rpc.GiveBack{Refs: refs, Reason: entries[0].GiveBack, Free: s.w.table.counts().Free}
	return s.conn.Call(ctx, rpc.MethodWorkerGiveBack, g, nil)
}

func (s *session) sendResults(ctx context.Context, entries []spooled) (reply rpc.FinishedReply, err error) {
	m := rpc.Finished{Results: make([]rpc.FinishedResult, len(entries))}
	for i := range entries {
		m.Results[i] = rpc.FinishedResult{Ref: entries[i].Ref, Result: entries[i].Result, Patient: entries[i].patient}
	}
	err = s.conn.Call(ctx, rpc.MethodWorkerFinished, m, &reply)
	return reply, err
}

// acknowledged forgets what the leader has taken for good.
func (w *Worker) acknowledged(entries []spooled) {
	keys := make([]attemptKey, len(entries))
	for i := range entries {
		keys[i] = entries[i].key()
	}
	if w.journal != nil {
		w.journal.forget(keys)
	}
	w.table.acknowledged(keys)
}

// notifyStarted may fail: the next session tells it again, and the result does too.
func (s *session) notifyStarted(items []rpc.StartedItem) {
	if len(items) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), startedNotify)
	defer cancel()
	if err := s.conn.Notify(ctx, rpc.MethodWorkerStarted, rpc.Started{Items: items}); err != nil {
		s.w.log.Debug("starts not reported", "attempts", len(items), "error", err)
	}
}
