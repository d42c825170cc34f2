package worker

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"runtime"
	"sync"
	"time"

	"github.com/axd-project/axd/cluster"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
)

// Config is what a worker needs.
type Config struct {
	Name   string // stable and unique in the cluster
	Slots  int    // attempts at one time; default: twice the CPUs; at most MaxSlots
	Labels map[string]string
	// Priorities are those of the tasks that it takes; none: all.
	Priorities []job.Priority
	DataDir    string // locks, unacknowledged results, residue of an earlier life; needed with Exec, else without it nothing outlives the process

	Gossip string // host:port to bind; default 127.0.0.1:0
	// AdvertiseGossip is where servers reach Gossip, if elsewhere.
	AdvertiseGossip string
	Join            []string // gossip addresses of servers

	Exec bool // offer exec and http executors (axd worker); a library user has handlers alone
	// Supervisor is the command line that runs SupervisorMain; needed with Exec.
	Supervisor []string
	DrainTime  time.Duration // how long a stop waits for attempts; default 30s
	Version    string        // of this build, for people
	Logger     *slog.Logger  // default: slog.Default()

	// Servers returns RPC addresses to try; nil: from gossip, which otherwise runs
	// only if Gossip is set. Dial opens a connection; nil: TCP.
	Servers func() []string
	Dial    func(ctx context.Context, address string) (net.Conn, error)
	// Clock counts since any fixed moment, through suspends of the machine; nil:
	// CLOCK_BOOTTIME. With Exec it must be that.
	Clock func() time.Duration
}

// MaxSlots bounds the attempts that a worker runs at one time.
const MaxSlots = 4000

const (
	defaultDrainTime = 30 * time.Second
	defaultGossip    = "127.0.0.1:0"
)

// Task is what a handler is given.
type Task struct {
	ID        job.ID
	Namespace string
	Job       string
	Attempt   int
	Token     job.Token
	Payload   []byte
	Due       time.Time     // by the cluster's clock
	Late      time.Duration // from Due to the attempt's start, by what the worker knows of the cluster's clock; never negative

	// Of a step of a run: the run and the name of the step.
	Run  job.ID
	Step string
	// Of what a schedule fired, runs included: its name, and the time that it was planned
	// for, which Due may be after. Zero where none did.
	Schedule string
	Nominal  time.Time

	beat func()
	done func(context.Context, rpc.Done) (rpc.DoneReply, error)
}

// Heartbeat tells that the attempt is alive, which a job with a heartbeat_timeout
// wants to hear more often than that. It costs next to nothing, and may be called
// from any goroutine. It is apart from the worker's own heartbeat: a worker that is
// well says nothing of its attempts.
func (t Task) Heartbeat() {
	if t.beat != nil {
		t.beat()
	}
}

// HandlerFunc runs one attempt. ctx ends when the attempt must stop: a time-out,
// a cancel, the lease's end or the worker's; context.Cause tells which. A handler
// can't be killed, so one that goes on after ctx ended may overlap the next
// attempt: guard its effects with Task.Token. The returned bytes are the
// attempt's output, at most 16 KiB. A panic fails the attempt. An error that is or
// wraps an *AttemptError tells when to try again, or not to.
type HandlerFunc func(ctx context.Context, t Task) (output []byte, err error)

// Worker runs attempts.
type Worker struct {
	cfg      Config
	log      *slog.Logger
	boot     string
	injected bool // the clock is not the kernel's
	handlers map[string]HandlerFunc

	clock   clusterClock
	lease   lease
	dir     *dataDir     // nil without a data directory
	journal *journal     // ditto
	super   *supervisors // nil without Exec
	adopted []*attempt   // of an earlier life, until resume
	web     *webClient   // nil without Exec
	table   table
	alarm   alarm // for the armed attempts
	watch   watch
	known   executors
	cluster *cluster.Cluster // nil without gossip
	news    <-chan struct{}  // from gossip; nil without it
	terms   terms
	heads   headRoom

	declareEvery time.Duration // a test's is shorter

	hurried   chan struct{} // closed by Hurry
	hurryOnce sync.Once

	mu          sync.Mutex
	session     *session // nil while there is none
	clusterName string   // the cluster's id, once known
}

var nameRule = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$`)

// New checks the configuration. Its errors are *job.Error.
func New(cfg Config) (*Worker, error) {
	cfg.Slots = cmp.Or(cfg.Slots, 2*runtime.NumCPU())
	cfg.DrainTime = cmp.Or(cfg.DrainTime, defaultDrainTime)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	injected := cfg.Clock != nil
	if !injected {
		cfg.Clock = boottime
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	w := &Worker{
		cfg: cfg, log: cfg.Logger.With("worker", cfg.Name),
		boot: newBoot(), handlers: map[string]HandlerFunc{}, hurried: make(chan struct{}), injected: injected,
		declareEvery: declareEvery,
	}
	w.table, w.watch.alarmAt = newTable(cfg.Slots), never
	return w, nil
}

func (c *Config) check() error {
	switch {
	case !nameRule.MatchString(c.Name):
		return job.Invalid("name", "must match "+nameRule.String(), c.Name)
	case c.Slots < 1 || c.Slots > MaxSlots:
		return job.Invalid("slots", fmt.Sprintf("must be from 1 to %d", MaxSlots), fmt.Sprint(c.Slots))
	case c.DrainTime < 0:
		return job.Invalid("drain_time", "must not be negative", c.DrainTime.String())
	case len(c.Labels) > job.MaxLabels:
		return job.Invalid("labels", fmt.Sprintf("must be at most %d", job.MaxLabels), fmt.Sprint(len(c.Labels)))
	case c.Servers == nil && len(c.Join) == 0:
		return job.Invalid("join", "must name the gossip address of at least one server", "")
	case c.Exec && c.DataDir == "":
		return job.Invalid("data_dir", "must be set for a worker that runs commands", "")
	case c.Exec && len(c.Supervisor) == 0:
		return job.Invalid("supervisor", "must be the command line of the supervisor for a worker that runs commands", "")
	}
	if err := job.ValidatePriorities("priorities", c.Priorities); err != nil {
		return err
	}
	for key := range c.Labels {
		if !nameRule.MatchString(key) {
			return job.Invalid("labels", "keys must match "+nameRule.String(), key)
		}
	}
	return nil
}

func newBoot() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Handle offers a handler. Call it before Run. It panics where the name breaks
// the rule for names or is offered twice, since that is a programmer's error.
func (w *Worker) Handle(name string, h HandlerFunc) {
	if !nameRule.MatchString(name) || h == nil {
		panic(fmt.Sprintf("worker: handler %q needs a name that matches %s, and a function", name, nameRule))
	}
	if w.handlers[name] != nil {
		panic(fmt.Sprintf("worker: handler %q is offered twice", name))
	}
	w.handlers[name] = h
}

// kinds lists what the worker offers.
func (w *Worker) kinds() []string {
	var kinds []string
	if w.cfg.Exec {
		kinds = append(kinds, "exec", "http")
	}
	for name := range w.handlers {
		kinds = append(kinds, "handler:"+name)
	}
	return kinds
}
