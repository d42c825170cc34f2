package chaos

const (
	resetChance  = 0.05 // of a connection, at each write
	lossChance   = 0.2  // of a packet
	gossipChance = 0.6  // of what a member says in a round
)

func isolate(i *injector, f Fault) func() effect {
	servers, _ := i.c.hosts()
	return i.cut(both(f.On, without(servers, f.On[0])))
}

func isolateAll(i *injector, f Fault) func() effect { return i.cut(i.around(f.On)) }

func oneWay(i *injector, f Fault) func() effect {
	servers, _ := i.c.hosts()
	return i.cut(pairs(f.On, i.some(without(servers, f.On[0]))))
}

func oneWayBack(i *injector, f Fault) func() effect {
	servers, _ := i.c.hosts()
	return i.cut(pairs(i.some(without(servers, f.On[0])), f.On))
}

func deaf(i *injector, f Fault) func() effect {
	servers, _ := i.c.hosts()
	return i.cut(pairs(without(servers, f.On[0]), f.On))
}

func bridge(i *injector, f Fault) func() effect {
	servers, _ := i.c.hosts()
	return i.cut(both(f.On, i.some(without(servers, f.On[0]))))
}

func workerCut(i *injector, f Fault) func() effect {
	servers, _ := i.c.hosts()
	return i.cut(both(f.On, servers))
}

func refuse(i *injector, f Fault) func() effect {
	servers, _ := i.c.hosts()
	return i.weaken(pairs(f.On, without(servers, f.On[0])), "connections reset or refused",
		func(k linkKey) { i.c.Net.Refuse(k.from, k.to) }, func(k linkKey) { i.c.Net.Admit(k.from, k.to) })
}

func delayed(i *injector, f Fault) func() effect {
	servers, _ := i.c.hosts()
	return i.weaken(pairs(servers, servers), "writes delayed",
		func(k linkKey) { i.c.Net.Slow(k.from, k.to, f.By, f.By) }, func(k linkKey) { i.c.Net.Slow(k.from, k.to, 0, 0) })
}

func lossy(i *injector, f Fault) func() effect {
	return i.weaken(i.around(f.On), "packets lost",
		func(k linkKey) { i.c.Net.Lose(k.from, k.to, lossChance) }, func(k linkKey) { i.c.Net.Lose(k.from, k.to, 0) })
}

func resets(i *injector, f Fault) func() effect {
	servers, workers := i.c.hosts()
	return i.weaken(both(f.On, append(without(servers, f.On[0]), workers...)), "connections reset",
		func(k linkKey) { i.c.Net.Break(k.from, k.to, resetChance) }, func(k linkKey) { i.c.Net.Break(k.from, k.to, 0) })
}

// around are all directions to and from a host.
func (i *injector) around(on []string) []linkKey {
	servers, workers := i.c.hosts()
	return both(on, append(append(without(servers, on[0]), workers...), clientHost))
}

func (i *injector) cut(links []linkKey) (end func() effect) {
	return i.weaken(links, "writes, reads or dials held",
		func(k linkKey) { i.c.Net.Cut(k.from, k.to) }, func(k linkKey) { i.c.Net.Heal(k.from, k.to) })
}

// weaken changes links for the time of a fault; it acted if traffic met it.
func (i *injector) weaken(links []linkKey, what string, begin, end func(linkKey)) func() effect {
	count := func() (n int) {
		for _, k := range links {
			n += i.c.Net.Acted(k.from, k.to)
		}
		return n
	}
	before := count()
	for _, k := range links {
		begin(k)
	}
	return func() effect {
		i.waitFor(func() bool { return count() > before })
		for _, k := range links {
			end(k)
		}
		return effect{count() - before, what}
	}
}

func gossipLoss(i *injector, _ Fault) func() effect {
	before := i.c.Gossip.Dropped()
	i.c.Gossip.Mute(gossipChance)
	return func() effect {
		i.waitFor(func() bool { return i.c.Gossip.Dropped() > before })
		i.c.Gossip.Mute(0)
		return effect{i.c.Gossip.Dropped() - before, "messages lost"}
	}
}

func gossipCut(i *injector, f Fault) func() effect {
	servers, workers := i.c.hosts()
	links := pairs(f.On, append(without(servers, f.On[0]), workers...))
	before := i.c.Gossip.Dropped()
	for _, k := range links {
		i.c.Gossip.Cut(k.from, k.to)
	}
	return func() effect {
		for _, k := range links {
			i.c.Gossip.Heal(k.from, k.to)
		}
		return effect{i.c.Gossip.Dropped() - before, "messages held"}
	}
}
