package bench

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/axd-project/axd/chaos/process"
	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

const (
	readyTime  = 60 * time.Second // for servers and workers to come up
	stallLimit = 30 * time.Second // without progress, before a scenario stops waiting
	statePoll  = 50 * time.Millisecond
	overPoll   = 500 * time.Millisecond
	retryTime  = 30 * time.Second // of one call of the load
)

// Options are what all scenarios share. Zero values take the defaults.
type Options struct {
	Bin  string   // the axd binary
	Dir  string   // where data goes; default: a new directory in os.TempDir, removed afterwards
	Addr []string // API addresses of a running cluster; default: own servers are started
	// Cluster is one whose servers the caller has started, and ends. Default: own
	// servers are started, with the flags that the scenario wants.
	Cluster  *process.Cluster
	Workers  int           // no-op workers; default 2
	Slots    int           // of each; default 1000
	Spool    bool          // workers keep results on disk until they are acknowledged
	Lead     time.Duration // from a submission to the first due time, at least; default 4s
	Settle   time.Duration // for what a start or a load leaves to the background; default 5s
	Progress io.Writer     // for people
}

const (
	defaultWorkers = 2
	defaultSlots   = 1000
	defaultLead    = 4 * time.Second // workers are told of a task about 3s ahead
	defaultSettle  = 5 * time.Second
	settleLimit    = 5 * time.Minute
	settledCores   = 0.15 // of all servers, at rest
)

// needs says what a scenario stands on.
type needs struct {
	own        bool // it kills or measures servers, so they must be the bench's own
	noop       bool // no-op workers
	workers    int  // so many of them, unless told otherwise; 0: the default
	slots      int  // of each, likewise
	commands   bool // ordinary workers
	quiet      bool // nobody asks the servers anything meanwhile
	serverArgs []string
}

// Scenario is one measurement.
type Scenario interface {
	// Name is what the command line calls it.
	Name() string
	needs() needs
	run(ctx context.Context, e *env, r *Result) error
}

// env is what a scenario works with.
type env struct {
	*console
	opts    Options
	dir     string
	cluster *process.Cluster // nil with Options.Addr
	group   *process.Group   // workers
	servers *process.Group   // nil where they are not the bench's own
	workers []*noopWorker
	plain   []*process.Process // ordinary workers
	addr    []string           // as the load takes them
	join    string
	monitor *monitor // nil with Options.Addr
	admin   *client.Client
	unique  string // makes the names of this run differ from those of others on the same cluster
	phases  int
}

// Run runs one scenario from the start of its processes to their end.
func Run(ctx context.Context, opts Options, s Scenario) (r *Result, err error) {
	n := s.needs()
	if n.own && len(opts.Addr) > 0 {
		return nil, job.Invalid("--addr", "is not for "+s.Name()+", which kills or measures servers of its own", strings.Join(opts.Addr, ","))
	}
	opts.Workers, opts.Slots = cmp.Or(opts.Workers, n.workers), cmp.Or(opts.Slots, n.slots)
	e, err := newEnv(opts)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.close(err != nil && ctx.Err() == nil)) }()
	if err := e.start(ctx, n); err != nil {
		return nil, err
	}
	r = newResult(s.Name())
	r.Settings = e.settings(n)
	if r.Settings != "" {
		e.say("%s: settings that differ from the defaults: %s", s.Name(), r.Settings)
	}
	if e.cluster != nil {
		e.monitor = watch(ctx, e.cluster, n.quiet)
		defer func() { e.monitor.cancel(); e.monitor.done.Wait() }()
	}
	if err := s.run(ctx, e, r); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name(), err)
	}
	if e.monitor != nil {
		e.monitor.stop(ctx, r)
		disk, err := e.cluster.DiskUsage()
		if err != nil {
			return nil, err
		}
		r.set("disk_mib", mib(disk))
	}
	e.done()
	if j, ok := s.(interface{ judge(*Result) }); ok {
		j.judge(r)
	}
	if e.cluster != nil {
		r.atMost("elections_needless", 0)
	}
	for _, line := range r.verdicts() {
		e.say("%s", line)
	}
	return r, nil
}

func newEnv(opts Options) (*env, error) {
	opts.Workers = cmp.Or(opts.Workers, defaultWorkers)
	opts.Slots = cmp.Or(opts.Slots, defaultSlots)
	opts.Lead = cmp.Or(opts.Lead, defaultLead)
	opts.Settle = cmp.Or(opts.Settle, defaultSettle)
	if opts.Progress == nil {
		opts.Progress = io.Discard
	}
	dir, err := os.MkdirTemp(opts.Dir, "axd-bench-")
	if err != nil {
		return nil, fmt.Errorf("directory for the data: %w", err)
	}
	e := &env{
		console: newConsole(opts.Progress), opts: opts, dir: dir, addr: opts.Addr,
		unique: strings.ToLower(rand.Text()[:8]),
	}
	if memory, err := process.InMemory(dir); err == nil && memory && len(opts.Addr) == 0 {
		e.say("%s lies in memory, where a sync costs nothing: the figures are not those of a disk; see --dir", dir)
	}
	return e, nil
}

// start brings up what the scenario needs.
func (e *env) start(ctx context.Context, n needs) (err error) {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	if e.group = process.NewGroup(false); e.opts.Cluster != nil {
		e.useServers(e.opts.Cluster)
	} else if len(e.opts.Addr) == 0 {
		if err := e.startServers(ctx, n); err != nil {
			return err
		}
	}
	if e.admin, err = client.New(client.Config{Addresses: e.addr, RetryTime: retryTime}); err != nil {
		return err
	}
	if err := e.findServers(ctx); err != nil {
		return err
	}
	if n.noop {
		err = e.startNoop(ctx)
	}
	if n.commands && err == nil {
		err = e.startPlain(ctx)
	}
	return err
}

func (e *env) startServers(ctx context.Context, n needs) error {
	c, err := process.New(process.Config{Bin: e.opts.Bin, Dir: e.dir, ServerArgs: n.serverArgs})
	if err != nil {
		return err
	}
	e.servers = c.Group
	e.useServers(c)
	return c.StartServers(ctx)
}

func (e *env) useServers(c *process.Cluster) {
	e.cluster, e.addr, e.join = c, c.HTTP(), c.Join()
}

// findServers learns where a running cluster gossips.
func (e *env) findServers(ctx context.Context) error {
	got, err := e.admin.Cluster(ctx)
	if err != nil {
		return err
	}
	var gossip []string
	for _, s := range got.Servers {
		if s.Gossip != "" {
			gossip = append(gossip, s.Gossip)
		}
	}
	if e.join == "" {
		e.join = strings.Join(gossip, ",")
	}
	return nil
}

func (e *env) startNoop(ctx context.Context) error {
	var names []string
	for i := range e.opts.Workers {
		name := fmt.Sprintf("bench-%s-%d", e.unique, i+1)
		w, err := e.startNoopWorker(name)
		if err != nil {
			return err
		}
		e.workers, names = append(e.workers, w), append(names, name)
	}
	return e.awaitWorkers(ctx, names)
}

// awaitWorkers waits until all these workers are alive.
func (e *env) awaitWorkers(ctx context.Context, names []string) error {
	for {
		got, err := e.admin.Cluster(ctx)
		if err != nil {
			return err
		}
		alive := map[string]bool{}
		for _, w := range got.Workers {
			alive[w.Name] = w.State == "alive"
		}
		missing := ""
		for _, name := range names {
			if !alive[name] {
				missing = name
			}
		}
		if missing == "" {
			return nil
		}
		if err := pause(ctx, statePoll); err != nil {
			return fmt.Errorf("worker %s did not come up: %w", missing, err)
		}
	}
}

// close ends all and removes the data, or keeps it after a failure.
func (e *env) close(failed bool) error {
	e.done()
	if e.admin != nil {
		e.admin.Close()
	}
	for _, w := range e.workers {
		w.close()
	}
	for _, g := range []*process.Group{e.group, e.servers} {
		if g != nil {
			g.Close()
		}
	}
	if failed {
		e.say("logs and data are kept in %s", e.dir)
		return nil
	}
	return os.RemoveAll(e.dir)
}

// settings names what differs from the defaults.
func (e *env) settings(n needs) string {
	out := n.serverArgs
	for _, s := range []struct {
		differs bool
		text    string
	}{
		{n.noop && e.opts.Workers != cmp.Or(n.workers, defaultWorkers), "--workers " + strconv.Itoa(e.opts.Workers)},
		{n.noop && e.opts.Slots != cmp.Or(n.slots, defaultSlots), "--slots " + strconv.Itoa(e.opts.Slots)},
		{n.noop && e.opts.Spool, "--spool"},
		{len(e.opts.Addr) > 0, "--addr " + strings.Join(e.opts.Addr, ",")},
	} {
		if s.differs {
			out = append(out[:len(out):len(out)], s.text)
		}
	}
	return strings.Join(out, " ")
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// spent is processor time by who used it.
type spent struct {
	at                     time.Time
	servers, workers, load time.Duration
	machine                time.Duration // by whomever; 0: it can't be told
}

func (e *env) spent() spent {
	s := spent{at: time.Now()}
	s.machine, _ = machineBusy()
	if e.cluster != nil {
		for _, p := range e.cluster.Servers {
			if u, err := p.Usage(); err == nil {
				s.servers += u.CPU
			}
		}
	}
	for _, w := range e.workers {
		if u, err := w.Usage(); err == nil {
			s.workers += u.CPU
		}
	}
	for _, w := range e.plain {
		if u, err := w.Usage(); err == nil {
			s.workers += u.CPU
		}
	}
	var ru syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &ru) == nil {
		s.load = time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
	}
	return s
}

// settle waits until the servers have done what a load left to the background,
// such as compactions; at most settleLimit.
func (e *env) settle(ctx context.Context) error {
	for end := time.Now().Add(settleLimit); time.Now().Before(end); {
		before := e.spent()
		if err := pause(ctx, e.opts.Settle); err != nil {
			return err
		}
		now := e.spent()
		if (now.servers - before.servers).Seconds() < settledCores*now.at.Sub(before.at).Seconds() {
			return nil
		}
	}
	e.say("the servers still work in the background after %s", settleLimit)
	return nil
}

// cores puts the processor use since an earlier look into a result.
func (e *env) cores(r *Result, since spent) {
	now := e.spent()
	wall := now.at.Sub(since.at).Seconds()
	if wall <= 0 {
		return
	}
	if e.cluster != nil {
		r.set("cpu_cores_servers", (now.servers-since.servers).Seconds()/wall)
	}
	r.set("cpu_cores_workers", (now.workers-since.workers).Seconds()/wall)
	r.set("cpu_cores_load", (now.load-since.load).Seconds()/wall)
	e.others(r, since, now, wall)
}
