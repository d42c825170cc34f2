package raftnode

import (
	"errors"
	"math"
	"slices"
	"sync"

	"github.com/hashicorp/raft"
)

// appender writes what a leader appends while it is already being sent to the
// followers, so that the two take as long as the slower one, not as their sum
// (Ongaro, Consensus, 2014, section 10.2.1). Raft counts the leader itself as
// soon as it has appended; so no follower's answer may reach raft before the
// leader's own write is durable, or an entry could be committed with one copy
// less than a quorum. See transport.AppendEntries.
type appender struct {
	write func([]*raft.Log) error // in one transaction, durable when it returns

	mu      sync.Mutex
	changed *sync.Cond
	queue   []*raft.Log // not yet durable, oldest first
	writing bool        // a goroutine is at it, until nothing is left
	broken  bool
}

var errNotWritten = errors.New("the log could not be written")

func newAppender(write func([]*raft.Log) error) *appender {
	a := &appender{write: write}
	a.changed = sync.NewCond(&a.mu)
	return a
}

// add has entries written. What is added while a write goes on goes into the next
// one together.
func (a *appender) add(logs []*raft.Log) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queue = append(a.queue, logs...)
	if !a.writing {
		a.writing = true
		go a.run()
	}
}

func (a *appender) run() {
	ended := false
	defer func() {
		if !ended { // write failed; it may have ended the goroutine
			a.fail()
		}
	}()
	for {
		logs := a.next()
		if len(logs) == 0 {
			ended = true
			return
		}
		if a.write(logs) != nil {
			return
		}
		a.written(len(logs))
	}
}

// next returns what is to be written; nothing: the goroutine ends.
func (a *appender) next() []*raft.Log {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.writing = len(a.queue) > 0
	return slices.Clone(a.queue)
}

func (a *appender) written(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	rest := copy(a.queue, a.queue[n:])
	clear(a.queue[rest:])
	a.queue = a.queue[:rest]
	a.changed.Broadcast()
}

func (a *appender) fail() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.broken = true
	a.changed.Broadcast()
}

// await returns once nothing up to an index is left to write.
func (a *appender) await(index uint64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.queue) > 0 && a.queue[0].Index <= index {
		if a.broken {
			return errNotWritten
		}
		a.changed.Wait()
	}
	return nil
}

// drain returns once nothing is left to write.
func (a *appender) drain() error { return a.await(math.MaxUint64) }

// get returns an entry that is not yet durable.
func (a *appender) get(index uint64) (*raft.Log, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i, found := slices.BinarySearchFunc(a.queue, index, func(l *raft.Log, index uint64) int {
		switch {
		case l.Index < index:
			return -1
		case l.Index > index:
			return 1
		}
		return 0
	})
	if !found {
		return nil, false
	}
	return a.queue[i], true
}
