package scheduler

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/internal/mutant"
	"github.com/axd-project/axd/job"
)

// Log commits commands. done is called exactly once, from any goroutine.
type Log interface {
	ProposeAsync(c fsm.Command, done func(fsm.Result, error))
}

// State opens a view of the applied state; release it soon.
type State interface {
	Read() (r fsm.Reader, release func())
}

// Config is what the loop needs. Zero values take their defaults where one is named.
type Config struct {
	Log    Log
	State  State
	Logger *slog.Logger

	// Now is the cluster's clock in Unix ms: what is due is judged by it.
	Now func() int64
	// Mono is a monotonic clock that counts suspend: leases are judged by it.
	Mono func() time.Duration

	LeaseTTL  time.Duration // of a worker
	LeaseSlop time.Duration // waited beyond the TTL before attempts are lost; default 2s
	Retention time.Duration // of ended tasks
	MaxLoaded int           // tasks held in memory per priority, due and soon due; default 20,000
	MaxGroups int           // limits and keys remembered though nothing is held up by them; default 20,000
	// Horizon is how long before they are due tasks are armed; at most 9s, default
	// 3s. It should outlast an election.
	Horizon time.Duration
}

// The bounds of the loop's memory and of one turn's work.
const (
	window          = 10_000                  // ms ahead of the horizon that the wheel is filled
	maxScan         = 500                     // due index rows read per priority and turn
	maxRaise        = 500                     // task records read per turn to become ready
	maxAssign       = 500                     // tasks in one assign
	maxAssigning    = 4                       // assigns in flight
	maxAssignLow    = 100                     // tasks in one assign with low priority, so that urgent ones don't wait behind it in the log
	maxAssigningLow = 2                       // assigns in flight beyond which none with low priority begins
	maxInbox        = 100_000                 // messages waiting for the loop
	maxLose         = 500                     // attempts in one lose
	maxTimeOut      = 500                     // tasks in one time-out
	assignPause     = 100 * time.Millisecond  // after an assign that could not be proposed
	houseInterval   = 500 * time.Millisecond  // between looks at leases and back-stops
	suspectSilence  = 2 * time.Second         // without heartbeat, after which a worker is suspect
	expireInterval  = 2 * time.Second         // between looks for records past their retention
	redispatchAfter = 10 * time.Second        // an attempt that was sent and has not started
	maxUnfit        = 100                     // tasks of one shape kept in memory while no connected worker fits it
	maxUnfitKinds   = 1000                    // kinds of task left to the index since no worker fits them, per priority
	backstopMargin  = 1500 * time.Millisecond // for the report of an attempt that ended in time
	backstopRepeat  = 5 * time.Second         // between two requests to end the same attempt
)

// Scheduler is the part of the loop that lives as long as the server; what
// belongs to one term is in the loop type.
type Scheduler struct {
	cfg    Config
	inbox  inbox
	leases leases
	ready  atomic.Int64 // due and not yet assigned; -1 while not leading
	loaded atomic.Int64
	roomy  atomic.Bool // some worker has a free slot
	// lowSuspended: see watchBusy.
	lowSuspended atomic.Bool
	mended       atomic.Int64  // see patrol
	wanted       chan struct{} // see judge
	// assignedTotal counts attempts since this process began.
	assignedTotal atomic.Int64
}

// New returns a scheduler that does nothing until Run leads a term.
func New(cfg Config) *Scheduler {
	if cfg.LeaseSlop == 0 {
		cfg.LeaseSlop = 2 * time.Second
	}
	if cfg.MaxLoaded == 0 {
		cfg.MaxLoaded = 20_000
	}
	if cfg.MaxGroups == 0 {
		cfg.MaxGroups = 20_000
	}
	if cfg.Horizon == 0 {
		cfg.Horizon = defaultHorizon
	}
	cfg.Horizon = min(cfg.Horizon, maxHorizon)
	s := &Scheduler{cfg: cfg, wanted: make(chan struct{}, 1)}
	s.inbox.wake = make(chan struct{}, 1)
	s.ready.Store(-1)
	return s
}

// Run leads one term until ctx ends. The caller has passed a barrier, so that
// state holds everything committed before the term. Only one Run is active.
func (s *Scheduler) Run(ctx context.Context, term uint64) {
	s.inbox.open()
	l := newLoop(s, term)
	defer func() {
		s.inbox.close()
		s.ready.Store(-1)
		s.loaded.Store(0)
		s.roomy.Store(false)
		s.lowSuspended.Store(false)
	}()
	l.recover()
	judging, stop := context.WithCancel(ctx)
	judged := make(chan struct{})
	go func() {
		defer close(judged)
		s.runJudge(judging, term)
	}()
	defer func() {
		stop()
		<-judged
	}()

	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.inbox.wake:
		case <-timer.C:
		}
		timer.Reset(l.turn())
	}
}

// Ready returns the number of due tasks that wait for a worker, as far as they
// are loaded; -1 while this server doesn't lead.
func (s *Scheduler) Ready() int64 { return s.ready.Load() }

// Loaded returns the number of tasks held in memory, due and soon due.
func (s *Scheduler) Loaded() int64 { return s.loaded.Load() }

// Assigned returns the number of attempts assigned since the process began.
func (s *Scheduler) Assigned() int64 { return s.assignedTotal.Load() }

// Events hands to the loop what apply reported for the entry at a log index. It
// never blocks. Entries come in order.
func (s *Scheduler) Events(index uint64, events []fsm.Event) {
	s.inbox.hint(func(l *loop) {
		if index <= l.asOf {
			return // the state that the loop was built from holds it
		}
		l.at = index
		for i := range events {
			l.onEvent(&events[i])
		}
	}, len(events))
}

// Reset makes the loop rebuild itself from state, after the state was replaced.
func (s *Scheduler) Reset() { s.inbox.overflow() }

// loop is one term's memory. Only Run's goroutine touches it.
type loop struct {
	*Scheduler
	term   uint64
	asOf   uint64 // log index of the state that memory was built from
	at     uint64 // log index of the entry whose events are handled
	view   sharedView
	log    *slog.Logger
	due    dueWindow
	queues readyQueues // due tasks
	// upcoming are tasks due within the horizon, to be armed.
	upcoming readyQueues
	workers  map[string]*workerState
	// outgoing are the workers with something in their outbox.
	outgoing []*workerState
	jobs     map[jobKey]*fsm.Job // nil entry: no such job
	limits   limitMemory
	fires    fireWindow

	gates     map[fsm.BreakerKey]*gate
	known     map[string]*needs // parsed, by labels and require of a shape
	robin     map[shape]string  // whose turn it was, see pick
	rng       *rand.Rand
	sticking  bool // some task was sticky
	settings  job.Settings
	busySince int64 // by Config.Now; 0: it isn't

	assigning  int  // assign proposals of due tasks in flight
	arming     int  // assign proposals of armed tasks in flight
	recount    bool // who keeps slots may have changed, see keepSlots
	keepers    []*workerState
	toKeep     int           // slots that they keep
	mixed      int           // slots that they have
	dirty      bool          // something changed that may let a task be assigned
	nextMatch  time.Duration // not before: the last assign could not be proposed
	restored   time.Duration // until then old leases may run, see awaitOldLeases
	nextLook   time.Duration // when a worker is asked for more again; 0: none is doubted
	nextHouse  time.Duration
	nextExpire time.Duration
	expiring   bool
	// deadlinesFrom: no pending task has a deadline before it, Unix ms.
	deadlinesFrom int64
	timingOut     bool // a time-out of tasks is proposed
	actingOnDead  bool // a part of an act on dead letters is proposed
	runs          runMemory
	broadcasts    broadcastMemory
}

type jobKey struct{ namespace, name string }

func newLoop(s *Scheduler, term uint64) *loop {
	return &loop{Scheduler: s, term: term, log: s.cfg.Logger.With("term", term)}
}

// recover builds all memory from state. It serves the start of a term and a
// loop whose inbox overflowed; sessions survive the latter.
func (l *loop) recover() {
	old := l.workers
	now := l.cfg.Now()
	l.due = newDueWindow(now, l.cfg.MaxLoaded, l.cfg.Horizon.Milliseconds())
	if mutant.NothingRebuilt {
		for p := range l.due.frontier {
			l.due.frontier[p].Due = now + window
		}
	}
	l.fires = newFireWindow(now, l.cfg.Horizon.Milliseconds())
	fair := newFairness(func(namespace string) int { return l.settings.WeightOf(namespace) })
	l.queues, l.upcoming = newReadyQueues(fair, false), newReadyQueues(fair, true)
	l.workers, l.outgoing = map[string]*workerState{}, nil
	l.jobs = map[jobKey]*fsm.Job{}
	l.known, l.robin, l.sticking = map[string]*needs{}, map[shape]string{}, false
	l.rng = rand.New(rand.NewPCG(l.term, uint64(now))) //nolint:gosec // it spreads load
	l.dirty, l.recount = true, true
	l.deadlinesFrom = 0
	l.runs = newRunMemory()

	r, release := l.cfg.State.Read()
	defer release()
	l.asOf = fsm.ReadInfo(r).Applied
	l.awaitOldLeases(r, now)
	l.readSettings(r)
	l.readGates(r)
	l.recoverLimits(r)
	l.recoverWorkers(r, old)
}

// sharedView is one view of the state for all messages of a turn. It is opened
// after they were taken, so it holds whatever they report.
type sharedView struct {
	sharing bool
	reader  fsm.Reader
	release func()
}

func (v *sharedView) share() { v.sharing = true }

func (v *sharedView) end() {
	if v.reader != nil {
		v.release()
	}
	*v = sharedView{}
}

// read opens a view of the state, or takes the one that is shared.
func (l *loop) read() (fsm.Reader, func()) {
	if !l.view.sharing {
		return l.cfg.State.Read()
	}
	if l.view.reader == nil {
		l.view.reader, l.view.release = l.cfg.State.Read()
	}
	return l.view.reader, func() {}
}

// later hands the answer to a proposal to the loop. An answer that comes when
// another term is led concerns nobody: that term started from state.
func (l *loop) later(fn func(*loop)) {
	term := l.term
	l.inbox.put(func(now *loop) {
		if now.term == term {
			fn(now)
		}
	})
}

// turn does one round of bounded work and returns how long to wait for the next.
func (l *loop) turn() time.Duration {
	l.view.share()
	lost := l.inbox.drain(l)
	l.view.end()
	if lost {
		l.log.Warn("the scheduler's inbox overflowed; rebuilding from state")
		l.recover()
	}
	l.flush()
	now, mono := l.cfg.Now(), l.cfg.Mono()
	more := l.fillFires(now)
	more = l.fire(now) || more
	more = l.fill(now) || more
	more = l.raise(now) || more
	l.wakeRates(now)
	more = l.refill(now) || more
	if l.nextLook != 0 && mono >= l.nextLook {
		l.trustAgain(mono)
	}
	if l.dirty && mono >= l.nextMatch {
		more = l.hand(now) || more
	}
	if mono >= l.nextHouse {
		l.keepHouse(now, mono)
	}
	if mono >= l.nextExpire && !l.expiring {
		l.nextExpire = mono + expireInterval
		l.expireRecords(now)
	}
	l.ready.Store(int64(l.queues.len() + l.due.raised()))
	l.loaded.Store(int64(l.due.len()))
	l.roomy.Store(l.anyUsable())
	l.flush()
	if more {
		return 0
	}
	return l.sleep(now, mono)
}

// hand gives tasks to workers: the due ones first, then those that can be armed.
func (l *loop) hand(now int64) (more bool) {
	for _, w := range l.workers {
		w.comeDue(now)
	}
	more = l.match(now)
	return l.arm(now) || more
}

// keepHouse is the work of every houseInterval, and of the moment at which a
// lease ends.
func (l *loop) keepHouse(now int64, mono time.Duration) {
	l.expireLeases(now, mono)
	l.backstop(mono)
	l.endDrains(now, mono)
	l.timeOut(now)
	l.actOnDead()
	l.tendRuns(now)
	l.tendBroadcasts()
	l.actOnSchedules()
	l.tendJoins(now)
	l.redispatch(mono)
	l.trimUnfit()
	l.watchBusy(now)
	l.watchGates(now)
	l.tendGroups()
	l.tendShares()
	for _, w := range l.workers {
		w.pace.turn()
	}
	l.dirty, l.recount = l.dirty || l.upcoming.len() > 0, true
	l.nextHouse = mono + houseInterval
	if at, ok := l.leases.soonest(l.suspectAfter(), mono); ok {
		l.nextHouse = min(l.nextHouse, at+time.Millisecond)
	}
	if end, ok := l.leases.next(); ok {
		l.nextHouse = min(l.nextHouse, max(end+l.cfg.LeaseSlop, mono)+time.Millisecond)
	}
}

// sleep is the time until something may be due, at most until the next look at
// leases.
func (l *loop) sleep(now int64, mono time.Duration) time.Duration {
	d := max(l.nextHouse-mono, 0)
	if l.dirty && l.nextMatch > mono {
		d = min(d, l.nextMatch-mono)
	}
	if l.nextLook != 0 {
		d = min(d, max(l.nextLook-mono, 0))
	}
	for _, next := range []func() (int64, bool){l.due.next, l.limits.nextWake, l.fires.next} {
		if at, ok := next(); ok {
			d = min(d, time.Duration(max(at-now, 0))*time.Millisecond)
		}
	}
	return d
}

// job returns a job's newest version from the cache or from state.
func (l *loop) job(r fsm.Reader, namespace, name string) *fsm.Job {
	key := jobKey{namespace, name}
	if j, ok := l.jobs[key]; ok {
		return j
	}
	var j *fsm.Job
	if got, ok := fsm.GetJob(r, namespace, name); ok {
		j = &got
	}
	l.jobs[key] = j
	return j
}

// policy resolves what a task asks for, its job's wishes included.
func (l *loop) policy(r fsm.Reader, t *fsm.Task) (job.Policy, job.Executor, uint64) {
	if t.Job == "" {
		return t.Policy, job.Executor{}, 0
	}
	j := l.job(r, t.Namespace, t.Job)
	if j == nil {
		return t.Policy, job.Executor{}, 0
	}
	return j.Spec.Policy.Merge(t.Policy), j.Spec.Executor, j.Version
}

// expireRecords proposes to delete what outlived its retention, if there is any.
func (l *loop) expireRecords(now int64) {
	before := now - l.cfg.Retention.Milliseconds()
	r, release := l.cfg.State.Read()
	some := fsm.Expirable(r, before, now)
	release()
	if !some {
		return
	}
	l.expiring = true
	l.cfg.Log.ProposeAsync(fsm.Expire{EndedBefore: before}, func(res fsm.Result, err error) {
		l.later(func(l *loop) {
			l.expiring = false
			if err == nil && res.More {
				l.nextExpire = 0
			}
		})
	})
}
