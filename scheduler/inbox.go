package scheduler

import "sync"

// inbox carries messages to the loop without ever blocking the sender. Its
// bound is on what the messages hold, not on their number.
type inbox struct {
	wake chan struct{}

	mu struct {
		sync.Mutex
		isOpen   bool
		messages []func(*loop)
		weight   int
		lost     bool
	}
}

// put hands a message to the loop; weight counts what it holds. While no term
// is led, messages are dropped: the next term starts from state.
func (b *inbox) put(message func(*loop), weight int) bool {
	b.mu.Lock()
	ok := b.mu.isOpen
	if ok {
		if b.mu.weight > 0 && b.mu.weight+weight > maxInbox {
			b.mu.lost = true
			ok = false
		} else {
			b.mu.messages = append(b.mu.messages, message)
			b.mu.weight += weight
		}
	}
	b.mu.Unlock()
	b.ring()
	return ok
}

func (b *inbox) ring() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// overflow makes the next drain report that something was lost.
func (b *inbox) overflow() {
	b.mu.Lock()
	b.mu.lost = b.mu.isOpen
	b.mu.Unlock()
	b.ring()
}

// drain runs the waiting messages and reports whether any was lost.
func (b *inbox) drain(l *loop) (lost bool) {
	b.mu.Lock()
	messages := b.mu.messages
	lost = b.mu.lost
	b.mu.messages, b.mu.weight, b.mu.lost = nil, 0, false
	b.mu.Unlock()
	for _, m := range messages {
		m(l)
	}
	return lost
}

func (b *inbox) open() {
	b.mu.Lock()
	b.mu.isOpen, b.mu.messages, b.mu.weight, b.mu.lost = true, nil, 0, false
	b.mu.Unlock()
}

func (b *inbox) close() {
	b.mu.Lock()
	b.mu.isOpen, b.mu.messages, b.mu.weight = false, nil, 0
	b.mu.Unlock()
}
