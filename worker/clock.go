package worker

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// boottime reads CLOCK_BOOTTIME. Go's monotonic clock stops while the machine
// is suspended; a lease must not.
func boottime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("read CLOCK_BOOTTIME: " + err.Error()) // Linux 2.6.39 has it
	}
	return time.Duration(ts.Nano())
}

const clockSamples = 8 // answers of the leader that the estimate is chosen from

// clusterClock estimates the cluster's clock from the leader's answers: of the
// last samples it takes the one with the shortest round trip.
type clusterClock struct {
	local func() time.Duration

	mu      sync.Mutex
	samples [clockSamples]clockSample
	next    int
}

type clockSample struct {
	roundTrip time.Duration
	offset    time.Duration // cluster's Unix time minus local
}

// observe adds an answer that carried the cluster's time, sent for at sent.
func (c *clusterClock) observe(nowMS int64, sent time.Duration) {
	received := c.local()
	trip := max(received-sent, 1) // 0 marks an unused sample
	c.mu.Lock()
	defer c.mu.Unlock()
	c.samples[c.next%clockSamples] = clockSample{
		roundTrip: trip,
		offset:    time.Duration(nowMS)*time.Millisecond + trip/2 - received,
	}
	c.next++
}

// reset forgets samples: another leader may have another clock.
func (c *clusterClock) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.samples, c.next = [clockSamples]clockSample{}, 0
}

// at gives the cluster's Unix milliseconds at a local instant; 0 while unknown.
func (c *clusterClock) at(local time.Duration) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	var best clockSample
	for _, s := range c.samples {
		if s.roundTrip > 0 && (best.roundTrip == 0 || s.roundTrip < best.roundTrip) {
			best = s
		}
	}
	if best.roundTrip == 0 {
		return 0
	}
	return (local + best.offset).Milliseconds()
}

// lease is the worker's right to run attempts, renewed by the leader's answers.
type lease struct {
	local func() time.Duration

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

// valid tells whether the lease holds at this instant.
func (l *lease) valid() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.local() < l.until
}

// ends gives the instants at which an attempt with this grace is asked to stop,
// and at which it must be gone.
func (l *lease) ends(grace time.Duration) (term, kill time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return leaseTerm(l.until, l.ttl, grace), l.until
}

// leaseTerm is when TERM comes: a grace before the lease ends, but never in the
// first half of the lease, where the next renewal is not late yet.
func leaseTerm(until, ttl, grace time.Duration) time.Duration {
	return until - min(grace, ttl/2)
}
