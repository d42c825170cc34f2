package rpc

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// The room of a connection's queues.
const (
	queueBytes   = 8 << 20 // bytes that wait, at least one frame of MaxFrame
	queueEntries = 1024    // entries that wait
)

// queue is a channel bounded by count and by bytes.
type queue[T any] struct {
	room *semaphore.Weighted
	ch   chan sized[T]
}

type sized[T any] struct {
	value T
	cost  int64
}

func newQueue[T any]() *queue[T] {
	return &queue[T]{room: semaphore.NewWeighted(queueBytes), ch: make(chan sized[T], queueEntries)}
}

// cost bounds the count too: no entry is cheaper than its share of the room.
func cost(size int) int64 {
	return min(max(int64(size), queueBytes/queueEntries), queueBytes)
}

// put waits for room until ctx ends.
func (q *queue[T]) put(ctx context.Context, v T, size int) error {
	n := cost(size)
	if err := q.room.Acquire(ctx, n); err != nil {
		return err
	}
	q.ch <- sized[T]{v, n} // never waits: who has room has a place
	return nil
}

// tryPut tells whether there was room.
func (q *queue[T]) tryPut(v T, size int) bool {
	n := cost(size)
	if !q.room.TryAcquire(n) {
		return false
	}
	q.ch <- sized[T]{v, n}
	return true
}

// taken gives back the room of an entry read from ch.
func (q *queue[T]) taken(s sized[T]) { q.room.Release(s.cost) }
