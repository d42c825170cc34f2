package worker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
)

// doneTask is a task whose leader answers as told, in order.
func doneTask(answers ...func(rpc.Done) (rpc.DoneReply, error)) Task {
	return Task{done: func(_ context.Context, m rpc.Done) (rpc.DoneReply, error) {
		next := answers[0]
		answers = answers[1:]
		return next(m)
	}}
}

func TestOnce(t *testing.T) {
	none := func(rpc.Done) (rpc.DoneReply, error) { return rpc.DoneReply{}, nil }
	recorded := func(rpc.Done) (rpc.DoneReply, error) { return rpc.DoneReply{Done: true, Value: []byte("before")}, nil }
	records := func(m rpc.Done) (rpc.DoneReply, error) {
		if !m.Record || m.Name != "charge" || string(m.Value) != "now" {
			t.Errorf("recorded %+v", m)
		}
		return rpc.DoneReply{Done: true, Value: m.Value}, nil
	}
	refuses := func(rpc.Done) (rpc.DoneReply, error) { return rpc.DoneReply{}, ErrStale }
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		task  Task
		fails error
		ran   bool
		value string
		want  error
	}{
		"new":             {task: doneTask(none, records), ran: true, value: "now"},
		"recorded before": {task: doneTask(recorded), value: "before"},
		"it fails":        {task: doneTask(none), fails: boom, ran: true, want: boom},
		"stale before":    {task: doneTask(refuses), want: ErrStale},
		"stale after":     {task: doneTask(none, refuses), ran: true, want: ErrStale},
	} {
		t.Run(name, func(t *testing.T) {
			ran := false
			value, err := c.task.Once(t.Context(), "charge", func(context.Context) ([]byte, error) {
				ran = true
				return []byte("now"), c.fails
			})
			if ran != c.ran || string(value) != c.value || !errors.Is(err, c.want) {
				t.Errorf("ran %v, %q, %v", ran, value, err)
			}
		})
	}
	if _, err := doneTask(none).Once(t.Context(), "a/b", nil); !errors.Is(err, job.ErrInvalid) {
		t.Error(err)
	}
	large := func(context.Context) ([]byte, error) { return make([]byte, job.MaxDoneValue+1), nil }
	if _, err := doneTask(none).Once(t.Context(), "a", large); !errors.Is(err, job.ErrInvalid) {
		t.Error(err)
	}
}

// A handler's question waits for a leader, and is asked again where the answer is no
// answer.
func TestDoneWaitsForALeader(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	answers := make(chan error, 3)
	l.with(func() {
		l.done = func(rpc.Done) (any, error) {
			select {
			case err := <-answers:
				return nil, err
			default:
				return rpc.DoneReply{Done: true, Value: []byte("v")}, nil
			}
		}
	})
	answers <- &rpc.Error{Code: string(job.CodeNoLeader), Text: "not me"}
	answers <- &rpc.Error{Code: string(job.CodeUnknownOutcome), Text: "who knows"}
	w := newWorker(t, l)
	w.Handle("once", func(ctx context.Context, task Task) ([]byte, error) {
		value, done, err := task.Done(ctx, "x")
		if err != nil || !done {
			return nil, errors.Join(errors.New("not done"), err)
		}
		return value, nil
	})
	runWorker(t, w)
	receive(t, l.hellos, patience)
	item := l.item(handler("once"))
	l.dispatch(item)
	if f := receive(t, l.finished, patience); job.Outcome(f.Outcome) != job.OutcomeSuccess || string(f.Output) != "v" {
		t.Errorf("got %+v", f)
	}
	answers <- &rpc.Error{Code: string(job.CodeStale), Text: "is not the token"}
	if _, err := w.askDone(t.Context(), rpc.Done{Ref: item.Ref, Name: "x"}); !errors.Is(err, ErrStale) {
		t.Error(err)
	}
	answers <- &rpc.Error{Code: string(job.CodeConflict), Text: "one too many"}
	if _, err := w.askDone(t.Context(), rpc.Done{Ref: item.Ref, Name: "x"}); err == nil || errors.Is(err, ErrStale) {
		t.Error(err)
	}
	l.stop()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := w.askDone(ctx, rpc.Done{Ref: item.Ref, Name: "x"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
