package client

import "time"

// LeaderHeader is on the answers of a server that doesn't lead: host:port of the
// leader's API as the servers know it.
const LeaderHeader = "Axd-Leader"

// shunTime is how long a server that didn't answer is not returned to because it
// leads: whoever can't reach the leader is well served by the others.
const shunTime = 30 * time.Second

// heed has the next call go to the leader, where it would be forwarded to, if
// that is one of the servers the client was given. Reads that may be stale need
// no leader.
func (c *Client) heed(leader string) {
	if leader == "" || c.cfg.Stale {
		return
	}
	for i, u := range c.base {
		if u.Host == leader && time.Now().UnixMilli()-c.failed[i].Load() >= shunTime.Milliseconds() {
			c.at.Store(uint32(i))
			return
		}
	}
}

// leave has the next call go to the server after at, unless another call has
// moved on already.
func (c *Client) leave(at uint32) {
	n := uint32(len(c.base)) //nolint:gosec // at most 32
	c.failed[at%n].Store(time.Now().UnixMilli())
	c.at.CompareAndSwap(at, (at+1)%n)
}
