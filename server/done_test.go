package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/worker"
)

// charging is a handler that charges once for its task, and fails at its first attempt
// after that; moved is called between the two.
type charging struct {
	mu      sync.Mutex
	charges int
	first   *worker.Task
	moved   func()
}

func (h *charging) handle(ctx context.Context, t worker.Task) ([]byte, error) {
	id, err := t.Once(ctx, "charge", func(context.Context) ([]byte, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.charges++
		return fmt.Appendf(nil, "c-%d", h.charges), nil
	})
	if err != nil {
		return nil, err
	}
	if t.Attempt == 1 {
		h.first = &t
		h.moved()
		return nil, errors.New("after the charge")
	}
	if _, _, err := h.first.Done(ctx, "charge"); !errors.Is(err, worker.ErrStale) {
		return nil, fmt.Errorf("an attempt that has ended may ask: %w", err)
	}
	if _, err := h.first.Once(ctx, "mail", func(context.Context) ([]byte, error) { return nil, nil }); !errors.Is(err, worker.ErrStale) {
		return nil, fmt.Errorf("an attempt that has ended may record: %w", err)
	}
	return id, nil
}

// What a handler has recorded as done is not done again by the next attempt, though
// another server leads by then; an attempt that has ended is refused.
func TestOnceOutlivesAttemptsAndLeaders(t *testing.T) {
	nodes, cfgs := three(t)
	nodes[0].votes(t, 3)
	c := clientOf(t, nodes...)
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	h := &charging{moved: func() {
		if _, err := c.TransferLeadership(ctx, ""); err != nil {
			t.Logf("leadership stays: %v", err)
		}
	}}
	w, err := worker.New(worker.Config{
		Name: "w1", Slots: 2, DataDir: t.TempDir(), Join: cfgs[0].Join, Logger: testLog(t), DrainTime: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Handle("charge", h.handle)
	running, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(running) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the worker ended with %v", err)
		}
	})
	req := client.SubmitRequest{Executor: job.Executor{Handler: "charge"}}
	req.Retry = &job.Retry{MaxRetries: new(1), Initial: job.Duration(time.Millisecond)}
	task, err := c.Submit(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	task = wait(t, c, task.ID, "success")
	if task.Attempt != 2 || h.charges != 1 || len(task.Done) != 1 || task.Done[0].Value != "c-1" || task.Done[0].Attempt != 1 {
		t.Errorf("charged %d times in %d attempts; recorded %+v", h.charges, task.Attempt, task.Done)
	}
	attempts, err := c.Attempts(ctx, task.ID)
	if err != nil || len(attempts) != 2 || string(attempts[1].Output) != `"c-1"` {
		t.Errorf("attempts %+v, %v", attempts, err)
	}
}
