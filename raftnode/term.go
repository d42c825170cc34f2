package raftnode

import "github.com/axd-project/axd/internal/mutant"

// leadership turns raft's notifications into terms. It receives at once, since
// raft's main loop blocks on the channel, and keeps what the reader hasn't
// taken: at most a loss and the term that followed it, so a lost and regained
// leadership reaches the reader as two values however slow it is.
type leadership struct {
	notify chan bool
	out    chan Term
	// won returns the newest term in which this server voted for itself. When
	// raft says that it leads, it leads in that one: the next such vote comes
	// only after raft has said that it lost.
	won     func() uint64
	current func() uint64

	stop chan struct{}
	done chan struct{}
}

func newLeadership(won, current func() uint64) *leadership {
	return &leadership{
		notify: make(chan bool), out: make(chan Term),
		won: won, current: current,
		stop: make(chan struct{}), done: make(chan struct{}),
	}
}

// run drains raft's notifications until close.
func (l *leadership) run() {
	defer close(l.done)
	defer close(l.out)
	var q termQueue
	for {
		var out chan Term
		var next Term
		if len(q.pending) > 0 {
			out, next = l.out, q.pending[0]
		}
		select {
		case <-l.stop:
			return
		case leading := <-l.notify:
			if leading {
				q.add(Term{Number: l.won(), Leading: true})
			} else {
				q.add(Term{Number: l.current()})
			}
		case out <- next:
			q.taken()
		}
	}
}

// close ends the drainer. Raft must have stopped.
func (l *leadership) close() {
	close(l.stop)
	<-l.done
}

// termQueue holds what the reader has yet to see.
type termQueue struct {
	seen    Term // last taken by the reader
	pending []Term
}

func (q *termQueue) taken() {
	q.seen = q.pending[0]
	q.pending = q.pending[1:]
}

// add merges a change into what is pending.
func (q *termQueue) add(t Term) {
	if !t.Leading {
		// What had not been seen to begin needs no end.
		q.pending = nil
		if q.seen.Leading {
			q.pending = []Term{t}
		}
		return
	}
	switch {
	case len(q.pending) == 0 && q.seen.Leading && mutant.LossHidden:
	case len(q.pending) == 0 && q.seen.Leading:
		// Raft said twice that it leads: it lost in between.
		q.pending = []Term{{Number: t.Number}, t}
	case len(q.pending) > 0 && q.pending[len(q.pending)-1].Leading:
		q.pending[len(q.pending)-1] = t
	default:
		q.pending = append(q.pending, t)
	}
}
