package worker

import (
	"math"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// readBoottime reads CLOCK_BOOTTIME. Go's monotonic clock stops while the
// machine is suspended; a lease must not.
func readBoottime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("read CLOCK_BOOTTIME: " + err.Error()) // Linux 2.6.39 has it
	}
	return time.Duration(ts.Nano())
}

// clockDrift is how much slower than this machine's clock the cluster's may run:
// the drift of two machines' crystals, and the rate at which a leader that is
// ahead works its error in.
const clockDrift = 700e-6

// clusterClock bounds the cluster's clock from below: a message that was stamped
// with the cluster's time s and came at the local instant r proves that at any
// later local instant l the cluster's time is at least s + (l-r), less drift.
// What waits for a time by this bound is never early, and late by no more than
// the quickest of the latest messages took.
type clusterClock struct {
	mu     sync.Mutex
	known  bool
	offset time.Duration // cluster's Unix time minus local, at least
	seen   time.Duration // local instant of the message that proved it
}

// observe takes a stamp, in Unix µs, of a message that came at a local instant.
// It tells whether more is known by it than before.
func (c *clusterClock) observe(nowUS int64, received time.Duration) bool {
	if nowUS == 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	offset := time.Duration(nowUS)*time.Microsecond - received
	if c.known && received+offset <= c.bound(received) {
		return false
	}
	c.known, c.offset, c.seen = true, offset, received
	return true
}

// clockHaste is how much faster than this machine's clock the cluster's may run,
// while a leader that is behind catches up, with something to spare.
const clockHaste = 0.06

// answered takes the stamp of an answer to a request that was sent at a local
// instant. The cluster's clock can't be later now than the stamp and the time
// since: where the bound says otherwise, the leader has set its clock back, which
// it does rather than run far ahead of the others, and what was known is void.
func (c *clusterClock) answered(nowUS int64, sent, received time.Duration) (setBack bool) {
	return c.voidBeyond(nowUS, sent, received, 0)
}

// leadersApart is how far apart the clocks of two leaders may be that are both
// right, with much to spare. A leader that finds itself so far ahead sets its own
// back.
const leadersApart = 5 * time.Second

// welcomed is answered for the beginning of a session, whose leader may be another
// one: only what is far beyond its clock is void.
func (c *clusterClock) welcomed(nowUS int64, sent, received time.Duration) (setBack bool) {
	return c.voidBeyond(nowUS, sent, received, leadersApart)
}

func (c *clusterClock) voidBeyond(nowUS int64, sent, received, apart time.Duration) bool {
	latest := time.Duration(nowUS)*time.Microsecond + time.Duration(float64(received-sent)*(1+clockHaste)) + time.Millisecond
	c.mu.Lock()
	defer c.mu.Unlock()
	if nowUS == 0 || !c.known || c.bound(received) <= latest+apart {
		return false
	}
	c.known = false
	return true
}

func (c *clusterClock) bound(local time.Duration) time.Duration {
	return local + c.offset - time.Duration(math.Ceil(float64(max(local-c.seen, 0))*clockDrift))
}

// at gives the cluster's Unix time at a local instant, at least; 0 while nothing
// is known.
func (c *clusterClock) at(local time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		return 0
	}
	return c.bound(local)
}

// when gives the local instant at which the cluster's clock has certainly
// reached a Unix time; never while nothing is known.
func (c *clusterClock) when(cluster time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		return never
	}
	ahead := cluster - (c.seen + c.offset)
	if ahead <= 0 {
		return c.seen + ahead
	}
	return c.seen + time.Duration(math.Ceil(float64(ahead)/(1-clockDrift)))
}

// reset forgets what is known: another leader has another clock.
func (c *clusterClock) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = false
}

// lease is the worker's right to run attempts, renewed by the leader's answers.
type lease struct {
	mu    sync.Mutex
	until time.Duration
	ttl   time.Duration
}

// renew extends the lease by ttl from when the answered request was sent: from
// when the answer came it would outlive the leader's count. It never shortens.
func (l *lease) renew(sent, ttl time.Duration) (until time.Duration, extended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ttl = ttl
	if sent+ttl <= l.until {
		return l.until, false
	}
	l.until = sent + ttl
	return l.until, true
}

// valid tells whether the lease holds at an instant.
func (l *lease) valid(at time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return at < l.until
}

// ends gives the instants at which an attempt with this grace is asked to stop,
// and at which it must be gone.
func (l *lease) ends(grace time.Duration) (term, kill time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return leaseTerm(l.until, l.ttl, grace), l.until
}

// half is when the lease's second half begins: before it nothing is stopped.
func (l *lease) half() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until - l.ttl/2
}

// leaseTerm is when TERM comes: a grace before the lease ends, but never in the
// first half of the lease, where the next renewal is not late yet.
func leaseTerm(until, ttl, grace time.Duration) time.Duration {
	return until - min(grace, ttl/2)
}
