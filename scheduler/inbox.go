package scheduler

import "sync"

// inbox carries messages to the loop without ever blocking the sender. Hints
// are bounded by what they hold; what doesn't fit is dropped, and the loop is
// told. Other messages are never dropped: there is at most one per proposal in
// flight, session or heartbeat.
type inbox struct {
	wake chan struct{}

	mu struct {
		sync.Mutex
		isOpen   bool
		messages []func(*loop)
		hints    int // what the waiting hints hold
		lost     bool
	}
}

// put hands a message to the loop. False: no term is led, and the message was
// dropped, since the next term starts from state.
func (b *inbox) put(message func(*loop)) bool {
	b.mu.Lock()
	ok := b.mu.isOpen
	if ok {
		b.mu.messages = append(b.mu.messages, message)
	}
	b.mu.Unlock()
	b.ring()
	return ok
}

// hint hands a message to the loop that state can make good; weight counts what
// it holds.
func (b *inbox) hint(message func(*loop), weight int) {
	b.mu.Lock()
	switch {
	case !b.mu.isOpen:
	case b.mu.hints > 0 && b.mu.hints+weight > maxInbox:
		b.mu.lost = true
	default:
		b.mu.messages = append(b.mu.messages, message)
		b.mu.hints += weight
	}
	b.mu.Unlock()
	b.ring()
}

func (b *inbox) ring() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// overflow makes the next drain report that hints were lost.
func (b *inbox) overflow() {
	b.mu.Lock()
	b.mu.lost = b.mu.isOpen
	b.mu.Unlock()
	b.ring()
}

// drain runs the waiting messages and reports whether hints were lost.
func (b *inbox) drain(l *loop) (lost bool) {
	b.mu.Lock()
	messages := b.mu.messages
	lost = b.mu.lost
	b.mu.messages, b.mu.hints, b.mu.lost = nil, 0, false
	b.mu.Unlock()
	for _, m := range messages {
		m(l)
	}
	return lost
}

func (b *inbox) open() {
	b.mu.Lock()
	b.mu.isOpen, b.mu.messages, b.mu.hints, b.mu.lost = true, nil, 0, false
	b.mu.Unlock()
}

func (b *inbox) close() {
	b.mu.Lock()
	b.mu.isOpen, b.mu.messages, b.mu.hints = false, nil, 0
	b.mu.Unlock()
}
