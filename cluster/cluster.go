package cluster

import (
	"context"
	"log/slog"
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
	Suspect Liveness = "suspect"
	Dead    Liveness = "dead"
	Left    Liveness = "left"
)

// Member is a process of the cluster as gossip knows it: a hint, never proof.
type Member struct {
	Role      Role
	Name      string // stable
	Boot      string // random, once per process
	ClusterID string // empty until the server knows it
	Gossip    string // host:port
	RPC       string // host:port; servers
	HTTP      string // host:port; servers
	Version   string
	Slots     int               // workers
	Labels    map[string]string // workers, as far as they fit
	Liveness  Liveness
	Since     time.Time // of the liveness
}

// Config is what membership needs.
type Config struct {
	Self      Member
	Bind      string   // host:port
	Advertise string   // host:port; default: Bind
	Join      []string // gossip addresses of anybody in the cluster
	Logger    *slog.Logger
	Transport memberlist.Transport // nil: UDP and TCP on Bind
}

// Cluster is a running membership.
type Cluster struct{}

// Start joins the gossip; members that can't be reached yet are tried for as
// long as it runs. It fails where the address is taken or the name is in use by
// another living process.
func Start(cfg Config) (*Cluster, error) { panic("to be written") }

// Members returns everybody known, by role and name; of several boots of one
// name the newest living one.
func (c *Cluster) Members() []Member { panic("to be written") }

// Member finds one by role and name.
func (c *Cluster) Member(role Role, name string) (Member, bool) { panic("to be written") }

// Changed yields after changes, coalesced. One reader per channel.
func (c *Cluster) Changed() <-chan struct{} { panic("to be written") }

// Update changes what this process says of itself.
func (c *Cluster) Update(change func(*Member)) { panic("to be written") }

// Rejoin gives addresses that should be members (Raft's configuration knows
// them); those that gossip does not hold for alive are joined again every 10 s.
func (c *Cluster) Rejoin(addresses func() []string) { panic("to be written") }

// Leave tells the others that this process goes, then stops.
func (c *Cluster) Leave(ctx context.Context) error { panic("to be written") }

// Close stops without telling.
func (c *Cluster) Close() error { panic("to be written") }
