package cluster

import (
	"net"
	"slices"
	"time"
)

// memberlist keeps its suspicions to itself, and can't tell two living
// processes of one name from a restart. So servers ping, within limits, whom
// memberlist has not heard lately, and everybody pings the rivals for its own
// name: a ping carries the boot and is answered by that very process alone.

// probeLoop pings once a second.
func (c *Cluster) probeLoop() {
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	var complained time.Time
	told := false
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		c.roster.prune(now)
		c.ping(c.roster.toPing(now))
		rival, newcomer, ok := c.roster.rival(time.Now(), len(c.cfg.Join) > 0)
		if !ok {
			continue
		}
		err := &ConflictError{Other: rival}
		if newcomer && !told {
			told, complained = true, now
			c.conflict <- err // has room for one
		}
		if now.Sub(complained) >= time.Minute {
			complained = now
			c.log.Error("cluster: a second process uses this name", "error", err)
		}
	}
}

// ping asks each node and notes its answer.
func (c *Cluster) ping(targets []target) {
	places := make(chan struct{}, pingsAtOnce)
	for _, t := range targets {
		places <- struct{}{}
		c.wg.Go(func() {
			defer func() { <-places }()
			_, err := c.ml.Ping(t.node, &net.UDPAddr{IP: t.ip, Port: int(t.port)})
			c.roster.pinged(t.node, err == nil, time.Now())
		})
	}
	for range pingsAtOnce {
		places <- struct{}{}
	}
}

// target is a node to ping.
type target struct {
	node string
	ip   net.IP
	port uint16
	seen time.Time
}

// toPing returns rivals, and for servers those not heard of for longest.
func (r *roster) toPing(now time.Time) []target {
	r.mu.Lock()
	defer r.mu.Unlock()
	var rivals, others []target
	over := r.takenOver()
	for _, e := range r.entries {
		_, ended := over[e]
		if e.state != Alive || ended || r.foreign(e.member) {
			continue
		}
		t := target{e.node, e.ip, e.port, e.seen}
		switch {
		case r.rivals(e):
			rivals = append(rivals, t)
		case r.me.Role == RoleServer && now.Sub(e.seen) >= 2*probeInterval:
			others = append(others, t)
		}
	}
	slices.SortFunc(others, func(a, b target) int { return a.seen.Compare(b.seen) })
	all := append(rivals, others...)
	return all[:min(len(all), pingsPerRound)]
}

func (r *roster) rivals(e *entry) bool {
	return e.member.Role == r.me.Role && e.member.Name == r.me.Name
}

// rival returns a second process of our name that has proved to live, and
// whether we are the one that came later.
func (r *roster) rival(now time.Time, joins bool) (m Member, newcomer, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	newcomer = now.Sub(r.started) < newcomerWindow ||
		joins && !r.contact.IsZero() && now.Sub(r.contact) < newcomerWindow
	for _, e := range r.entries {
		if e.state == Alive && r.rivals(e) && !r.foreign(e.member) && e.answers >= rivalAnswers && e.member.Gossip != r.me.Gossip {
			m = e.member
			m.Liveness, m.Since = e.liveness()
			return m, newcomer, true
		}
	}
	return Member{}, false, false
}

// reportLoop logs who came and went.
func (c *Cluster) reportLoop(changed <-chan struct{}) {
	type boot struct {
		role Role
		name string
		boot string
	}
	known := make(map[boot]Liveness)
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-changed:
		}
		now := make(map[boot]Liveness)
		for _, m := range c.roster.members() {
			k := boot{m.Role, m.Name, m.Boot}
			now[k] = m.Liveness
			if was := known[k]; was != m.Liveness {
				c.log.Info("cluster: member is "+string(m.Liveness), "role", m.Role, "name", m.Name, "boot", m.Boot, "address", m.Gossip, "was", was)
			}
		}
		known = now
	}
}
