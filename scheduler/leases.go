package scheduler

import (
	"sync"
	"time"
)

// boot names one life of a worker.
type boot struct{ worker, id string }

// leases knows until when each life of a worker may still run something. The
// worker counts its lease from when it sent the renewal; here it is counted
// from when the answer was given, which is later, and LeaseSlop is added: so
// the worker has always stopped before its attempts are declared lost.
//
// Renewals come from session goroutines, expiry from the loop; the lock makes
// one of them win.
type leases struct {
	mu struct {
		sync.Mutex
		answered map[boot]time.Duration // by Config.Mono
	}
}

// grant starts or renews a lease without asking whether it had ended.
func (l *leases) grant(b boot, at time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.answered == nil {
		l.mu.answered = map[boot]time.Duration{}
	}
	l.mu.answered[b] = max(at, l.mu.answered[b])
}

// renew extends a lease that still runs; false: it has ended or never began,
// and the worker must open a new session.
func (l *leases) renew(b boot, at time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	old, ok := l.mu.answered[b]
	if ok {
		l.mu.answered[b] = max(at, old)
	}
	return ok
}

// expired ends the leases that were last answered before the given moment.
func (l *leases) expired(before time.Duration) []boot {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []boot
	for b, at := range l.mu.answered {
		if at < before {
			out = append(out, b)
			delete(l.mu.answered, b)
		}
	}
	return out
}

// running reports whether a life's lease has not ended.
func (l *leases) running(b boot) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.mu.answered[b]
	return ok
}

// reset forgets all: at the start of a term every life found in state is
// granted anew.
func (l *leases) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.answered = nil
}
