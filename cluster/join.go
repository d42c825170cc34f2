package cluster

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"
)

// checkJoin finds what can never be joined; names are looked up later, and
// again and again.
func checkJoin(addresses []string) error {
	for _, a := range addresses {
		if _, p, err := net.SplitHostPort(a); err != nil || p == "" || p == "0" {
			return fmt.Errorf("an address to join must be host:port, not %q", a)
		}
	}
	return nil
}

// Rejoin gives addresses that should be members (Raft's configuration knows
// them); those that gossip does not hold for alive are joined again every 10 s,
// like Config.Join. A partition longer than 30 s doesn't heal otherwise, since
// memberlist forgets its dead.
func (c *Cluster) Rejoin(addresses func() []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rejoin = addresses
}

// joinLoop joins soon and often while nobody is there, and then now and again.
func (c *Cluster) joinLoop() {
	delay := joinDelay
	for {
		c.joinMissing()
		wait := RejoinInterval
		if c.roster.alone() {
			wait, delay = delay, min(2*delay, joinDelayMax)
		} else {
			delay = joinDelay
		}
		select {
		case <-time.After(wait):
		case <-c.ctx.Done():
			return
		}
	}
}

// joinMissing joins the wanted addresses that gossip doesn't hold for alive,
// side by side, so that a dead one doesn't hold up the others.
func (c *Cluster) joinMissing() {
	places := make(chan struct{}, joinsAtOnce)
	for _, a := range c.missing() {
		places <- struct{}{}
		c.wg.Go(func() {
			defer func() { <-places }()
			if _, err := c.ml.Join([]string{a}); err != nil && c.ctx.Err() == nil {
				c.log.Debug("cluster: join", "address", a, "error", err)
			}
		})
	}
	for range joinsAtOnce {
		places <- struct{}{}
	}
}

func (c *Cluster) missing() []string {
	wanted := slices.Clone(c.cfg.Join)
	c.mu.Lock()
	more := c.rejoin
	c.mu.Unlock()
	if more != nil {
		wanted = append(wanted, more()...)
	}
	living := c.roster.living()
	var missing []string
	for _, a := range wanted {
		ctx, cancel := context.WithTimeout(c.ctx, joinDelayMax)
		ip, port, err := resolve(ctx, a)
		cancel()
		if err != nil {
			c.log.Debug("cluster: join", "address", a, "error", err)
			continue
		}
		if a = net.JoinHostPort(ip.String(), strconv.Itoa(port)); !living[a] {
			living[a] = true // once
			missing = append(missing, a)
		}
	}
	return missing
}
