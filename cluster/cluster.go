package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

// Role is what a member does.
type Role string

// The roles.
const (
	RoleServer Role = "server"
	RoleWorker Role = "worker"
)

// Liveness is gossip's opinion of a member.
type Liveness string

// The liveness values.
const (
	Alive   Liveness = "alive"
	Suspect Liveness = "suspect" // it did not answer this process's last pings; only servers look
	Dead    Liveness = "dead"
	Left    Liveness = "left" // it said goodbye
)

// Member is a process of the cluster as gossip knows it: a hint, never proof.
type Member struct {
	Role      Role
	Name      string // stable
	Boot      string // random, once per process
	ClusterID string // empty until the member knows it
	Gossip    string // host:port
	RPC       string // host:port; servers
	HTTP      string // host:port; servers
	Version   string
	Slots     int               // workers
	Labels    map[string]string // workers, as far as they fit
	LabelsCut bool              // Labels is not all of them
	Started   time.Time         // by the member's clock, in milliseconds
	Liveness  Liveness
	Since     time.Time // of the liveness
	Seen      time.Time // the last sign of life that got here; zero for ourselves
}

// Config is what membership needs.
type Config struct {
	Self      Member   // Role, Name and Boot are required
	Bind      string   // host:port; port 0 takes a free one
	Advertise string   // host:port; default: Bind, or with a wildcard a private address of this host
	Join      []string // gossip addresses (host:port) of anybody in the cluster
	Logger    *slog.Logger
	Transport memberlist.Transport // nil: UDP and TCP on Bind; closed by the Cluster
	// Foreign is told of each member of another cluster that was refused, again
	// and again. It must not block, nor call the Cluster. Nil: nobody is.
	Foreign func(Member)
}

// The limits and intervals of membership.
const (
	RejoinInterval = 10 * time.Second // members that are missing are joined again

	label             = "axd" // refuses other programs' gossip
	suspicionMult     = 8     // one starved prober may not declare death in a moment
	joinDelay         = 200 * time.Millisecond
	joinDelayMax      = 5 * time.Second
	joinsAtOnce       = 8
	probeInterval     = time.Second
	pingsAtOnce       = 16
	pingsPerRound     = 64
	suspectMisses     = 2
	rivalAnswers      = 3                // pings in a row that prove a second process of our name
	newcomerWindow    = 30 * time.Second // who finds its name taken so soon came second
	deadRetention     = time.Hour        // how long the dead are listed
	maxDead           = 4096
	maxSubscribers    = 64
	goodbyes          = 16 // servers told directly at leaving
	updateTimeout     = 2 * time.Second
	leaveTimeout      = 3 * time.Second
	noisyLogsInterval = 10 * time.Second
)

// ConflictError tells that another living process has this process's role and
// name.
type ConflictError struct{ Other Member }

func (e *ConflictError) Error() string {
	return fmt.Sprintf("another %s named %s is alive at %s: give this one another name, or stop the other first",
		e.Other.Role, e.Other.Name, e.Other.Gossip)
}

// Cluster is a running membership. Its methods are safe for concurrent use.
type Cluster struct {
	cfg      Config
	log      *slog.Logger
	roster   *roster
	ml       *memberlist.Memberlist
	conflict chan error
	updates  chan struct{}

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	ending atomic.Bool // what memberlist complains of is of no interest any more

	mu      sync.Mutex
	self    Member
	rejoin  func() []string
	closing bool
}

// Start joins the gossip; members that can't be reached yet are tried for as
// long as it runs. It fails where an address is taken or malformed, or the
// metadata of Self don't fit into memberlist's 512 bytes even without labels.
// That the name is in use can't be known yet: see Conflict.
func Start(cfg Config) (*Cluster, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Self.Started.IsZero() {
		cfg.Self.Started = time.Now()
	}
	cfg.Self.Labels = maps.Clone(cfg.Self.Labels)
	if err := checkSelf(cfg.Self); err != nil {
		return nil, err
	}
	if err := checkJoin(cfg.Join); err != nil {
		return nil, err
	}
	c := &Cluster{
		cfg: cfg, log: cfg.Logger, self: cfg.Self,
		roster:   newRoster(cfg.Self),
		conflict: make(chan error, 1),
		updates:  make(chan struct{}, 1),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if err := c.create(); err != nil {
		c.cancel()
		return nil, err
	}
	c.roster.startedAt(time.Now())
	watched := c.roster.subscribe()
	for _, loop := range []func(){c.joinLoop, c.probeLoop, c.updateLoop, func() { c.reportLoop(watched) }} {
		c.wg.Go(loop)
	}
	return c, nil
}

// create starts memberlist.
func (c *Cluster) create() error {
	conf := memberlist.DefaultLANConfig()
	conf.Name = nodeName(c.cfg.Self)
	conf.Label = label
	conf.SuspicionMult = suspicionMult
	conf.EnableCompression = false
	conf.Logger = newLogger(c.log, &c.ending)
	d := &delegate{roster: c.roster, self: conf.Name, foreign: c.cfg.Foreign}
	conf.Delegate, conf.Events, conf.Alive, conf.Ping = d, d, d, d
	if err := c.network(conf); err != nil {
		return err
	}
	ml, err := memberlist.Create(conf)
	if err != nil {
		_ = conf.Transport.Shutdown()
		return fmt.Errorf("start gossip on %s: %w", c.cfg.Bind, err)
	}
	c.ml = ml
	return nil
}

// Members returns everybody known, by role and name; of several boots of one
// name the newest living one. The dead are kept for an hour.
func (c *Cluster) Members() []Member { return c.roster.members() }

// Member finds one by role and name.
func (c *Cluster) Member(role Role, name string) (Member, bool) {
	for _, m := range c.roster.members() {
		if m.Role == role && m.Name == name {
			return m, true
		}
	}
	return Member{}, false
}

// Self returns what this process says of itself; Gossip is the address that it
// really has.
func (c *Cluster) Self() Member { return c.roster.selfMember() }

// Changed returns a new channel that yields at once and then after changes,
// coalesced, for one reader. Take it once: it lasts until the Cluster ends, and there are at most
// 64 (more are a bug, and panic). It is never closed.
func (c *Cluster) Changed() <-chan struct{} { return c.roster.subscribe() }

// Conflict yields a *ConflictError, once, if another living process of this
// role and name was there first: this one has to end. A process that has been
// there for long only logs it.
func (c *Cluster) Conflict() <-chan error { return c.conflict }

// Health is memberlist's awareness of this process: 0 is healthy; the higher,
// the less its view of others deserves trust (it is starved or cut off).
func (c *Cluster) Health() int { return c.ml.GetHealthScore() }

// Update changes what this process says of itself. Role, Name, Boot, Gossip and
// Started stay. A change that doesn't fit the metadata is logged and dropped.
func (c *Cluster) Update(change func(*Member)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := c.self
	next.Labels = maps.Clone(next.Labels)
	change(&next)
	next.Role, next.Name, next.Boot, next.Started = c.self.Role, c.self.Name, c.self.Boot, c.self.Started
	if err := checkSelf(next); err != nil {
		c.log.Error("cluster: a change of this member's metadata is dropped", "error", err)
		return
	}
	c.self = next
	c.roster.setSelf(next)
	select {
	case c.updates <- struct{}{}:
	default:
	}
}

// updateLoop spreads changes: memberlist waits for its broadcast, so the callers
// of Update don't.
func (c *Cluster) updateLoop() {
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-c.updates:
			if err := c.ml.UpdateNode(updateTimeout); err != nil {
				c.log.Debug("cluster: update", "error", err) // it spreads with the next state exchange
			}
		}
	}
}

// Leave tells the others that this process goes, then stops. It takes a few
// seconds at most; its error says that some may not have heard it.
func (c *Cluster) Leave(ctx context.Context) error {
	c.mu.Lock()
	if c.closing {
		c.mu.Unlock()
		return nil
	}
	c.closing = true
	c.mu.Unlock()
	c.ending.Store(true)
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	c.sayGoodbye(ctx)
	left := leaveTimeout
	if at, ok := ctx.Deadline(); ok {
		left = max(time.Until(at), time.Millisecond)
	}
	err := c.ml.Leave(left)
	if err != nil {
		err = fmt.Errorf("leave the gossip: %w", err)
	}
	c.stop()
	return err
}

// sayGoodbye tells the servers directly: memberlist's broadcast doesn't show
// its receivers whether a member left or died.
func (c *Cluster) sayGoodbye(ctx context.Context) {
	msg := encodeGoodbye(nodeName(c.cfg.Self))
	told := make(chan struct{}, goodbyes)
	nodes := c.roster.livingServers(goodbyes)
	for _, n := range nodes {
		c.wg.Go(func() {
			_ = c.ml.SendReliable(n, msg) // a hint: who misses it sees the member die
			told <- struct{}{}
		})
	}
	for range nodes {
		select {
		case <-told:
		case <-ctx.Done():
			return
		}
	}
}

// Close stops without telling, and returns when everything this package
// started has ended; what memberlist has in flight ends within seconds.
func (c *Cluster) Close() error {
	c.mu.Lock()
	was := c.closing
	c.closing = true
	c.mu.Unlock()
	if !was {
		c.stop()
	}
	return nil
}

func (c *Cluster) stop() {
	c.ending.Store(true)
	c.cancel()
	_ = c.ml.Shutdown() // reports nothing but the transport's error, which it logs
	c.wg.Wait()
}
