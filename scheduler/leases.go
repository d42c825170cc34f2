package scheduler

import (
	"sync"
	"time"

	"github.com/axd-project/axd/internal/mutant"
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
		lives map[boot]lease
	}
}

// lease is what one life was granted.
type lease struct {
	answered time.Duration // the latest renewal, by Config.Mono
	ttl      time.Duration // the longest that any leader granted it
}

// grant starts or renews a lease without asking whether it had ended.
func (l *leases) grant(b boot, at, ttl time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.lives == nil {
		l.mu.lives = map[boot]lease{}
	}
	old := l.mu.lives[b]
	l.mu.lives[b] = lease{max(at, old.answered), max(ttl, old.ttl)}
}

// renew extends a lease that still runs; false: it has ended or never began,
// and the worker must open a new session.
func (l *leases) renew(b boot, at time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	old, ok := l.mu.lives[b]
	if ok {
		l.mu.lives[b] = lease{max(at, old.answered), old.ttl}
	}
	return ok
}

// expired ends the leases that are over by the given moment, slop included.
func (l *leases) expired(now, slop time.Duration) []boot {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []boot
	for b, is := range l.mu.lives {
		if is.answered+is.ttl+slop < now || mutant.LeaseByGossip && is.answered+suspectSilence < now {
			out = append(out, b)
			delete(l.mu.lives, b)
		}
	}
	return out
}

// renewedSince reports whether a life's lease was renewed at or after a moment.
func (l *leases) renewedSince(b boot, at time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	is, ok := l.mu.lives[b]
	return ok && is.answered >= at
}

// silent returns for how long a life has not been heard of; running is false where
// its lease has ended.
func (l *leases) silent(b boot, now time.Duration) (d time.Duration, running bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	is, ok := l.mu.lives[b]
	return now - is.answered, ok
}

// soonest returns when the first life will have been silent for so long that has
// not been yet.
func (l *leases) soonest(silence, now time.Duration) (at time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, is := range l.mu.lives {
		if then := is.answered + silence; then > now && (!ok || then < at) {
			at, ok = then, true
		}
	}
	return at, ok
}

// next returns when the first lease ends, slop not included.
func (l *leases) next() (at time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, is := range l.mu.lives {
		if end := is.answered + is.ttl; !ok || end < at {
			at, ok = end, true
		}
	}
	return at, ok
}

// running reports whether a life's lease has not ended.
func (l *leases) running(b boot) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.mu.lives[b]
	return ok
}

// reset forgets all: at the start of a term every life found in state is
// granted anew.
func (l *leases) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.lives = nil
}
