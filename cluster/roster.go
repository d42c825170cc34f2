package cluster

import (
	"cmp"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// roster is what has been heard of the members. memberlist's delegates write it
// under memberlist's own locks, so it calls nothing while it holds its lock, and
// wakes its readers without waiting for them.
type roster struct {
	self string // our name in memberlist

	mu      sync.Mutex
	entries map[string]*entry // by name in memberlist
	me      Member
	meMeta  []byte
	heard   uint64    // counts arrivals
	started time.Time // of this process
	contact time.Time // when the first other member came; zero: never
	readers []chan struct{}
}

// entry is one process.
type entry struct {
	member  Member // without Liveness, Since and Seen
	node    string
	ip      net.IP
	port    uint16
	state   Liveness // Alive, Dead or Left
	since   time.Time
	misses  int       // pings in a row without an answer
	answers int       // pings in a row with one; of rivals
	suspect time.Time // when misses became too many
	seen    time.Time // of the last sign of life
	order   uint64    // of arrival
}

func newRoster(self Member) *roster {
	r := &roster{self: nodeName(self), entries: make(map[string]*entry)}
	r.setSelf(self)
	return r
}

func (r *roster) startedAt(t time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started = t
}

// setSelf takes what we say of ourselves; checkSelf has passed it.
func (r *roster) setSelf(m Member) {
	b, err := encodeMeta(m)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.meMeta = b
	}
	gossip := r.me.Gossip
	r.me = m
	r.me.Gossip = gossip
	r.wake()
}

func (r *roster) selfMeta() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.meMeta
}

// selfMember is ourselves with all labels, which gossip may have cut.
func (r *roster) selfMember() Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.selfLocked()
}

func (r *roster) selfLocked() Member {
	m := r.me
	m.Labels = maps.Clone(m.Labels)
	m.Liveness, m.Since = Alive, r.started
	return m
}

func (r *roster) subscribe() chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.readers) >= maxSubscribers {
		panic("cluster: too many readers of Changed: take its channel once, not in a loop")
	}
	ch := make(chan struct{}, 1)
	ch <- struct{}{} // whatever was read before may be old
	r.readers = append(r.readers, ch)
	return ch
}

func (r *roster) wake() {
	for _, ch := range r.readers {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// foreign tells whether a member belongs to another cluster than ours, as far
// as both are known.
func (r *roster) foreign(m Member) bool {
	return r.me.ClusterID != "" && m.ClusterID != "" && m.ClusterID != r.me.ClusterID
}

// admit judges what a node says of itself.
func (r *roster) admit(m Member) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.foreign(m)
}

// alive notes a node that joined or changed.
func (r *roster) alive(n *memberlist.Node, m Member, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n.Name == r.self {
		r.me.Gossip = m.Gossip
		r.wake()
		return
	}
	e := r.entries[n.Name]
	if e != nil && e.state == Left {
		return // news from before its goodbye
	}
	if e == nil || e.state != Alive {
		r.heard++
		e = &entry{node: n.Name, state: Alive, since: now, order: r.heard}
		r.entries[n.Name] = e
	}
	e.member, e.ip, e.port, e.seen = m, slices.Clone(n.Addr), n.Port, now
	if r.contact.IsZero() {
		r.contact = now
	}
	r.wake()
}

// gone notes a node that died, or left if it said so.
func (r *roster) gone(node string, state Liveness, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[node]
	if e == nil || e.state == Left || e.state == state {
		return
	}
	e.state, e.since = state, now
	r.wake()
}

// pinged notes whether a node answered a ping.
func (r *roster) pinged(node string, answered bool, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[node]
	if e == nil {
		return
	}
	was := e.misses >= suspectMisses
	if answered {
		e.misses, e.seen = 0, now
		e.answers++
	} else {
		e.misses++
		e.answers = 0
	}
	if is := e.misses >= suspectMisses; is != was {
		e.suspect = now
		if !is && e.state == Alive {
			e.since = now
		}
		r.wake()
	}
}

// liveness is an entry's own, apart from what others at its address tell.
func (e *entry) liveness() (Liveness, time.Time) {
	if e.state == Alive && e.misses >= suspectMisses {
		return Suspect, e.suspect
	}
	return e.state, e.since
}

// newer tells which of two processes is the later one.
func (e *entry) newer(o *entry) bool {
	if c := e.member.Started.Compare(o.member.Started); c != 0 {
		return c > 0
	}
	return e.order > o.order
}

// takenOver returns the processes whose address a later one holds: one address
// has one process, so they have ended, whatever gossip still thinks.
func (r *roster) takenOver() map[*entry]time.Time {
	at := make(map[string]*entry)
	over := make(map[*entry]time.Time)
	for _, e := range r.entries {
		if e.state != Alive {
			continue
		}
		if e.member.Gossip == r.me.Gossip {
			over[e] = r.started
			continue
		}
		o := at[e.member.Gossip]
		switch {
		case o == nil:
			at[e.member.Gossip] = e
		case e.newer(o):
			at[e.member.Gossip], over[o] = e, e.since
		default:
			over[e] = o.since
		}
	}
	return over
}

// members is the list that users see.
func (r *roster) members() []Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	type key struct {
		role Role
		name string
	}
	best := make(map[key]Member)
	add := func(m Member) {
		k := key{m.Role, m.Name}
		if o, ok := best[k]; !ok || preferred(m, o) {
			best[k] = m
		}
	}
	over := r.takenOver()
	for _, e := range r.entries {
		if r.foreign(e.member) {
			continue
		}
		m := e.member
		m.Labels = maps.Clone(m.Labels)
		m.Liveness, m.Since = e.liveness()
		m.Seen = e.seen
		if since, ok := over[e]; ok {
			m.Liveness, m.Since = Dead, since
		}
		add(m)
	}
	add(r.selfLocked())
	return slices.SortedFunc(maps.Values(best), func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), strings.Compare(a.Name, b.Name))
	})
}

// preferred tells which of two boots of one name stands for it.
func preferred(a, b Member) bool {
	if ra, rb := rank(a.Liveness), rank(b.Liveness); ra != rb {
		return ra > rb
	}
	if c := a.Started.Compare(b.Started); c != 0 {
		return c > 0
	}
	return a.Boot > b.Boot
}

func rank(l Liveness) int {
	switch l {
	case Alive:
		return 2
	case Suspect:
		return 1
	default:
		return 0
	}
}

// living returns the addresses that gossip holds for alive.
func (r *roster) living() map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string]bool{r.me.Gossip: true}
	for _, e := range r.entries {
		if e.state == Alive && !r.foreign(e.member) {
			all[e.member.Gossip] = true
		}
	}
	return all
}

// alone tells whether nobody else is known to live.
func (r *roster) alone() bool { return len(r.living()) == 1 }

// livingServers returns up to n servers as memberlist addresses them.
func (r *roster) livingServers(n int) []*memberlist.Node {
	r.mu.Lock()
	defer r.mu.Unlock()
	var nodes []*memberlist.Node
	for _, e := range r.entries {
		if e.state == Alive && e.member.Role == RoleServer && len(nodes) < n {
			nodes = append(nodes, e.target())
		}
	}
	return nodes
}

func (e *entry) target() *memberlist.Node {
	return &memberlist.Node{Name: e.node, Addr: e.ip, Port: e.port}
}

// prune forgets the long dead, and earlier boots of who is there again.
func (r *roster) prune(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var dead []*entry
	latest := make(map[string]*entry)
	for _, e := range r.entries {
		k := string(e.member.Role) + "/" + e.member.Name
		if o := latest[k]; o == nil || e.order > o.order {
			latest[k] = e
		}
		if e.state != Alive {
			dead = append(dead, e)
		}
	}
	slices.SortFunc(dead, func(a, b *entry) int { return b.since.Compare(a.since) })
	for i, e := range dead {
		k := string(e.member.Role) + "/" + e.member.Name
		if i >= maxDead || now.Sub(e.since) > deadRetention || latest[k] != e || k+"/"+r.me.Boot == r.self {
			delete(r.entries, e.node)
		}
	}
}
