package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
)

const (
	doneTime  = 10 * time.Second       // for the leader to answer once
	donePause = 100 * time.Millisecond // before another try
)

// ErrStale tells that the attempt is no longer valid: another one may be at work, and
// what this one does must not count.
var ErrStale = errors.New("the attempt is no longer valid")

// Once does something that must not be done twice for this task, such as a charge: it
// calls fn unless an attempt of the task has recorded under the name that it is done,
// and records it when fn has returned nil. It returns what fn returned, now or then,
// at most 1 KiB of UTF-8.
//
// The record is the cluster's: it outlives retries, lost workers, replays and changes
// of leader, and goes with the task. An attempt that is no longer valid gets ErrStale,
// before fn or after it. What nothing can promise is that fn runs once: between its
// effect and the record the process may die, and the next attempt runs fn again. So
// the window is as short as fn's last step; what is behind it should refuse an older
// token, or know the task's id.
//
// A task has up to 32 such names. Once waits for a leader until ctx ends.
func (t Task) Once(ctx context.Context, name string, fn func(context.Context) ([]byte, error)) ([]byte, error) {
	value, done, err := t.Done(ctx, name)
	if err != nil || done {
		return value, err
	}
	if value, err = fn(ctx); err != nil {
		return nil, err
	}
	if err := job.ValidateDone(name, value); err != nil {
		return nil, err
	}
	return t.record(ctx, name, value)
}

// Done tells whether an attempt of the task has recorded under the name that something
// is done, and what it left with it.
func (t Task) Done(ctx context.Context, name string) (value []byte, done bool, err error) {
	if err := job.ValidateDone(name, nil); err != nil {
		return nil, false, err
	}
	r, err := t.ask(ctx, rpc.Done{Name: name})
	return r.Value, r.Done, err
}

// record answers what is recorded: the first record stands.
func (t Task) record(ctx context.Context, name string, value []byte) ([]byte, error) {
	r, err := t.ask(ctx, rpc.Done{Name: name, Value: value, Record: true})
	return r.Value, err
}

func (t Task) ask(ctx context.Context, m rpc.Done) (rpc.DoneReply, error) {
	if t.done == nil {
		return rpc.DoneReply{}, errors.New("the task is not of a worker")
	}
	return t.done(ctx, m)
}

// askDone asks the leader, whoever that is, until ctx ends.
func (w *Worker) askDone(ctx context.Context, m rpc.Done) (rpc.DoneReply, error) {
	for {
		var reply rpc.DoneReply
		err := w.askDoneOnce(ctx, m, &reply)
		var answer *rpc.Error
		switch {
		case err == nil:
			return reply, nil
		case ctx.Err() != nil:
			return reply, fmt.Errorf("%w; the last try: %w", context.Cause(ctx), err)
		case errors.As(err, &answer) && answer.Code == string(job.CodeStale):
			return reply, fmt.Errorf("%w: %w", ErrStale, err)
		case errors.As(err, &answer) && !again(job.Code(answer.Code)):
			return reply, err
		}
		sleep(ctx, jitter(donePause))
	}
}

// again tells whether another try may be answered otherwise.
func again(code job.Code) bool {
	switch code {
	case job.CodeNoLeader, job.CodeOverloaded, job.CodeUnknownOutcome, job.CodeTimeout:
		return true
	}
	return false
}

var errNoSession = errors.New("no leader is known at the moment")

func (w *Worker) askDoneOnce(ctx context.Context, m rpc.Done, reply *rpc.DoneReply) error {
	w.mu.Lock()
	s := w.session
	w.mu.Unlock()
	if s == nil {
		return errNoSession
	}
	ctx, cancel := context.WithTimeout(ctx, doneTime)
	defer cancel()
	return s.conn.Call(ctx, rpc.MethodWorkerDone, m, reply)
}
