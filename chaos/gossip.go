package chaos

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/axd-project/axd/cluster"
)

// What the simulated gossip does in time, as the real one with its defaults.
const (
	gossipInterval = time.Second
	suspectAfter   = 3 * time.Second
	deadAfter      = 12 * time.Second
)

// Gossip is a simulated membership: each member hears of the others whom it
// reaches, directly or through one in between. It stands in for memberlist,
// whose timers would be most of what a simulation does.
type Gossip struct {
	net *Network

	mu      sync.Mutex
	members []*Member // that run
	rng     *rand.Rand
	cuts    map[linkKey]int // pairs between which nothing comes through, whatever the network does
	loss    float64         // chance that a member does not hear another one in a round
	dropped int             // by cuts and loss
}

// Member is one process's membership; it implements server.Membership.
type Member struct {
	g    *Gossip
	host string

	// Guarded by the gossip's mu.
	self  cluster.Member
	known map[string]*sighting // by role and name
}

// sighting is what one member knows of another.
type sighting struct {
	member cluster.Member
	heard  time.Time
}

// NewGossip returns an empty membership over a network; Run moves it.
func NewGossip(n *Network, rng *rand.Rand) *Gossip {
	return &Gossip{net: n, rng: rng, cuts: map[linkKey]int{}}
}

// Cut keeps gossip alone from getting from one host to another, in both directions
// if both are cut, until the same number of Heal calls.
func (g *Gossip) Cut(from, to string) { g.alter(func() { g.cuts[linkKey{from, to}]++ }) }

// Heal takes back one Cut.
func (g *Gossip) Heal(from, to string) { g.alter(func() { g.cuts[linkKey{from, to}]-- }) }

// Mute has members not hear each other with a chance each round; 0 ends it.
func (g *Gossip) Mute(chance float64) { g.alter(func() { g.loss = chance }) }

func (g *Gossip) alter(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
}

// Dropped counts what cuts and losses have kept back.
func (g *Gossip) Dropped() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.dropped
}

// Run lets members hear of each other until ctx ends.
func (g *Gossip) Run(ctx context.Context) {
	for pause(ctx, gossipInterval) {
		g.mu.Lock()
		g.round()
		g.mu.Unlock()
	}
}

// Join adds a process that runs on a host.
func (g *Gossip) Join(host string, self cluster.Member) *Member {
	m := &Member{g: g, host: host, self: self, known: map[string]*sighting{}}
	m.self.Gossip = host + ":7482"
	m.self.Started, m.self.Since, m.self.Liveness = time.Now(), time.Now(), cluster.Alive
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members = append(g.members, m)
	g.round()
	return m
}

// Lose takes a process away that can't say goodbye.
func (g *Gossip) Lose(m *Member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members = slices.DeleteFunc(g.members, func(is *Member) bool { return is == m })
}

func (g *Gossip) round() {
	for _, a := range g.members {
		for _, b := range g.members {
			if a == b || !g.reaches(a, b) {
				continue
			}
			if g.loss > 0 && g.rng.Float64() < g.loss {
				g.dropped++
				continue
			}
			a.hear(b)
		}
	}
}

func (g *Gossip) reaches(a, b *Member) bool {
	return g.connected(a.host, b.host) || slices.ContainsFunc(g.members, func(via *Member) bool {
		return g.connected(a.host, via.host) && g.connected(via.host, b.host)
	})
}

func (g *Gossip) connected(a, b string) bool {
	if g.cuts[linkKey{a, b}]+g.cuts[linkKey{b, a}] > 0 {
		g.dropped++
		return false
	}
	return g.net.Connected(a, b)
}

func memberKey(role cluster.Role, name string) string { return string(role) + " " + name }

// hear notes that b lives; of two of one name the younger counts.
func (m *Member) hear(b *Member) {
	if m.self.ClusterID != "" && b.self.ClusterID != "" && m.self.ClusterID != b.self.ClusterID {
		return
	}
	key := memberKey(b.self.Role, b.self.Name)
	is := m.known[key]
	if is != nil && is.member.Started.After(b.self.Started) {
		return
	}
	m.known[key] = &sighting{member: b.self, heard: time.Now()}
}

// Members implements server.Membership.
func (m *Member) Members() []cluster.Member {
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	out := []cluster.Member{m.self}
	for _, s := range m.known {
		out = append(out, s.view())
	}
	slices.SortFunc(out, func(a, b cluster.Member) int {
		return strings.Compare(memberKey(a.Role, a.Name), memberKey(b.Role, b.Name))
	})
	return out
}

func (s *sighting) view() cluster.Member {
	m := s.member
	if m.Liveness == cluster.Left {
		return m
	}
	switch silent := time.Since(s.heard); {
	case silent > deadAfter:
		m.Liveness, m.Since = cluster.Dead, s.heard.Add(deadAfter)
	case silent > suspectAfter:
		m.Liveness, m.Since = cluster.Suspect, s.heard.Add(suspectAfter)
	}
	return m
}

// Member implements server.Membership.
func (m *Member) Member(role cluster.Role, name string) (cluster.Member, bool) {
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	if role == m.self.Role && name == m.self.Name {
		return m.self, true
	}
	if s := m.known[memberKey(role, name)]; s != nil {
		return s.view(), true
	}
	return cluster.Member{}, false
}

// Self implements server.Membership.
func (m *Member) Self() cluster.Member {
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	return m.self
}

// Update implements server.Membership.
func (m *Member) Update(change func(*cluster.Member)) {
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	change(&m.self)
}

// Conflict implements server.Membership; names are never given twice here.
func (m *Member) Conflict() <-chan error { return nil }

// Rejoin implements server.Membership; everybody is found without it.
func (m *Member) Rejoin(func() []string) {}

// Leave implements server.Membership.
func (m *Member) Leave(context.Context) error {
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	if !slices.Contains(m.g.members, m) {
		return nil
	}
	m.self.Liveness, m.self.Since = cluster.Left, time.Now()
	m.g.round()
	m.g.members = slices.DeleteFunc(m.g.members, func(is *Member) bool { return is == m })
	return nil
}
