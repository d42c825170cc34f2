package scheduler

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/store"
)

// commitDelay is how long a proposal takes in the model.
const commitDelay = 2 * time.Millisecond

// cluster is a model of everything around the scheduler: a log that is applied
// to a real state machine, and workers. It lives in a synctest bubble.
type cluster struct {
	t     *testing.T
	start time.Time
	sched *Scheduler

	mu      sync.Mutex
	machine *fsm.Machine
	store   store.Store
	index   uint64
	term    uint64
	deaf    bool // proposals fail
	twice   bool // a second leader proposes the same fires
	refused int  // assigns that apply refused
	stop    func()

	runningMu sync.Mutex
	running   map[fsm.TaskRef]run // the latest start of each task that goes on
}

func newCluster(t *testing.T, change ...func(*Config)) *cluster {
	t.Helper()
	c := &cluster{t: t, start: time.Now(), machine: fsm.NewMachine(), store: store.NewMemory()}
	cfg := Config{
		Log: c, State: c, Logger: slog.New(slog.DiscardHandler),
		Now:      func() int64 { return time.Now().UnixMilli() },
		Mono:     func() time.Duration { return time.Since(c.start) },
		LeaseTTL: 10 * time.Second, Retention: 7 * 24 * time.Hour,
	}
	for _, fn := range change {
		fn(&cfg)
	}
	c.sched = New(cfg)
	c.lead()
	t.Cleanup(func() {
		c.stop()
		if err := c.store.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// lead begins a new term; an earlier one is ended first.
func (c *cluster) lead() {
	if c.stop != nil {
		c.stop()
	}
	c.mu.Lock()
	c.term++
	term := c.term
	c.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.sched.Run(ctx, term)
	}()
	c.stop = func() {
		cancel()
		<-done
	}
	synctest.Wait()
}

// Read implements State.
func (c *cluster) Read() (fsm.Reader, func()) {
	v := c.store.View()
	return v, v.Close
}

// ProposeAsync implements Log.
func (c *cluster) ProposeAsync(cmd fsm.Command, done func(fsm.Result, error)) {
	c.mu.Lock()
	deaf := c.deaf
	again := c.twice && cmd.Code() == fsm.CodeFireSchedules
	c.mu.Unlock()
	if deaf {
		go done(fsm.Result{}, job.ErrNoLeader)
		return
	}
	go func() {
		time.Sleep(commitDelay)
		done(c.apply(cmd), nil)
		if again {
			c.apply(cmd)
		}
	}()
}

// apply commits one command and hands its events to the scheduler.
func (c *cluster) apply(cmd fsm.Command) fsm.Result {
	b, err := fsm.EncodeCommand(cmd)
	if err != nil {
		panic(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.index++
	entry, err := fsm.EncodeEntry(fsm.Entry{At: time.Now().UnixMilli(), Commands: [][]byte{b}})
	if err != nil {
		panic(err)
	}
	batch := c.store.Batch()
	res, events, err := c.machine.Apply(batch, fsm.Meta{Index: c.index, Term: c.term}, entry)
	if err != nil {
		panic(err)
	}
	batch.Commit()
	for _, a := range res[0].Assigned {
		if a.Err != nil {
			c.refused++
		}
	}
	c.sched.Events(c.index, events)
	return res[0]
}

// wanted is what a server says of tasks that all need the same.
func wanted(specs ...job.TaskSpec) []Wanted {
	w := Wanted{Namespace: job.DefaultNamespace, Job: specs[0].Job, Offer: specs[0].Offer(), Priority: specs[0].Priority}
	for i := range specs {
		w.Tasks = append(w.Tasks, i)
	}
	return []Wanted{w}
}

// submitNow submits immediate tasks as a server does.
func (c *cluster) submitNow(specs ...job.TaskSpec) []fsm.TaskRef {
	c.t.Helper()
	if specs[0].Route != nil {
		return c.submit(specs...) // as a server does
	}
	p := c.sched.Place(wanted(specs...))
	if p == nil {
		return c.submit(specs...)
	}
	return c.commitPlaced(p, specs...)
}

func (c *cluster) commitPlaced(p *Placement, specs ...job.TaskSpec) (out []fsm.TaskRef) {
	c.t.Helper()
	defer c.sched.Release(p)
	b, err := fsm.EncodeCommand(fsm.Submit{Namespace: job.DefaultNamespace, Tasks: specs})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, r := range c.apply(p.Command(b)).Tasks {
		if r.Err != nil {
			c.t.Fatal(r.Err)
		}
		out = append(out, r.Task.Ref())
	}
	return out
}

func (c *cluster) submit(specs ...job.TaskSpec) []fsm.TaskRef {
	c.t.Helper()
	res := c.apply(fsm.Submit{Namespace: job.DefaultNamespace, Tasks: specs})
	var out []fsm.TaskRef
	for _, r := range res.Tasks {
		if r.Err != nil {
			c.t.Fatal(r.Err)
		}
		out = append(out, r.Task.Ref())
	}
	return out
}

func (c *cluster) task(ref fsm.TaskRef) fsm.Task {
	c.t.Helper()
	r, release := c.Read()
	defer release()
	t, ok := fsm.GetTask(r, ref)
	if !ok {
		c.t.Fatalf("task %s is missing", ref.ID)
	}
	return t
}

// check judges the state's invariants.
func (c *cluster) check() {
	c.t.Helper()
	r, release := c.Read()
	defer release()
	for _, broken := range fsm.Check(r, 10) {
		c.t.Error(broken)
	}
}

func handler(delay time.Duration) job.TaskSpec {
	return job.TaskSpec{Executor: job.Executor{Handler: "work"}, Delay: job.Duration(delay)}
}

// start is one dispatch as a worker saw it.
type start struct {
	at    time.Time
	ref   fsm.AttemptRef
	due   int64
	boot  string
	again bool // the worker held it already

	most    int          // see Dispatch.MostLesser
	version uint64       // of the job
	timeout job.Duration // of its policy
}

// model is a worker: it runs what it is sent for a fixed time.
type model struct {
	c          *cluster
	name       string
	boot       string
	slots      int
	labels     map[string]string
	priorities []job.Priority
	takes      time.Duration // how long an attempt runs; 0: for ever
	fails      bool          // they fail
	returns    func(t *fsm.Task) string

	mu     sync.Mutex
	gone   chan struct{}
	lease  time.Time // until when it may start something
	held   map[fsm.AttemptRef]uint32
	past   map[fsm.AttemptRef]bool        // ended or given back: a dispatch that comes late is dropped
	armed  map[fsm.AttemptRef]*time.Timer // of held: not yet due
	starts []start
	kills  map[fsm.AttemptRef]KillReason
	link   *link
	hung   bool                    // it does nothing, though its connection is there
	deaf   bool                    // what it is sent is lost on the way
	lesser map[fsm.AttemptRef]bool // of less than high priority
	noSlot int                     // armed attempts given back since no slot was free
	kept   int                     // of noSlot: some was, for others
	other  int                     // slots that the leader knows nothing of what fills them
}

func (c *cluster) worker(name string, slots int, takes time.Duration) *model {
	m := &model{
		c: c, name: name, boot: "b1", slots: slots, takes: takes,
		held: map[fsm.AttemptRef]uint32{}, armed: map[fsm.AttemptRef]*time.Timer{}, past: map[fsm.AttemptRef]bool{}, kills: map[fsm.AttemptRef]KillReason{},
		lesser: map[fsm.AttemptRef]bool{},
	}
	c.t.Cleanup(m.disconnect)
	return m
}

// connect opens a session and heartbeats until the connection is gone.
func (m *model) connect() error {
	m.mu.Lock()
	gone := make(chan struct{})
	m.gone = gone
	h := Hello{
		Worker: fsm.RegisterWorker{Name: m.name, Boot: m.boot, Address: "here:1", Slots: m.slots, Labels: m.labels, Priorities: m.priorities},
		Offers: []string{"handler:work", "exec", "http"},
	}
	for ref, n := range m.held {
		h.Held = append(h.Held, Held{AttemptRef: ref, Attempt: n})
	}
	m.mu.Unlock()
	sched := m.c.sched
	sent := time.Now()
	m.link = &link{m: m, gone: gone, sent: sent}
	if _, err := sched.Attach(context.Background(), m.link, h); err != nil {
		return err
	}
	m.renewed(sent)
	go func() {
		for {
			select {
			case <-gone:
				return
			case <-time.After(time.Second):
				if !m.hangs() && sched.Renew(m.name, m.boot) {
					m.renewed(time.Now())
					sched.Heartbeat(m.name, m.free())
				}
			}
		}
	}()
	return nil
}

func (m *model) renewed(sent time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if until := sent.Add(10 * time.Second); until.After(m.lease) {
		m.lease = until
		m.c.goesOn(m)
	}
}

func (m *model) free() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.slots - m.other - (len(m.held) - len(m.armed))
}

// occupy fills slots with something unknown to the leader, and reports it.
func (m *model) occupy(slots int) {
	m.mu.Lock()
	m.other = slots
	m.mu.Unlock()
	m.c.sched.Room(m.name, m.free())
}

// crash ends the process: nothing starts or ends any more.
func (m *model) crash() {
	m.disconnect()
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.held)
	m.disarm()
	m.c.ended(m, everyAttempt)
}

func (m *model) armedNow() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.armed)
}

func (m *model) killedFor(ref fsm.AttemptRef) KillReason {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.kills[ref]
}

func (m *model) disarm() {
	for _, t := range m.armed {
		t.Stop()
	}
	clear(m.armed)
}

func (m *model) mustConnect() {
	m.c.t.Helper()
	if err := m.connect(); err != nil {
		m.c.t.Fatal(err)
	}
}

// disconnect ends the connection; what runs goes on.
func (m *model) disconnect() {
	m.mu.Lock()
	gone := m.gone
	m.gone = nil
	m.mu.Unlock()
	if gone != nil {
		close(gone)
	}
}

func (m *model) seen() []start {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]start(nil), m.starts...)
}

// link is one connection of a model worker.
type link struct {
	m    *model
	gone chan struct{}
	sent time.Time // when the hello was
}

// Gone implements Session.
func (k *link) Gone() <-chan struct{} { return k.gone }

// Dispatch implements Session.
func (k *link) Dispatch(_ uint64, items []Dispatch) {
	if gone(k) {
		return
	}
	m := k.m
	m.renewed(k.sent) // a worker reads the welcome first
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.deaf {
		return
	}
	for _, d := range items {
		ref := fsm.AttemptRef{Ref: d.Task.Ref(), Token: d.Task.Token}
		if m.past[ref] {
			continue
		}
		_, again := m.held[ref]
		m.lesser[ref] = d.Task.Policy.Priority != job.High
		s := start{ref: ref, due: d.Task.Due, boot: m.boot, again: again, most: d.MostLesser,
			version: d.JobVersion, timeout: d.Policy.TimeoutOrDefault()}
		m.held[ref] = d.Task.Attempt
		wait := time.Until(time.UnixMilli(s.due))
		switch {
		case wait <= 0 && time.Now().After(m.lease):
			delete(m.held, ref) // it is sent again
		case wait <= 0 && !again && len(m.held)-len(m.armed)+m.other > m.slots:
			m.refuse(ref)
		case wait <= 0 && !again && s.most > 0 && m.lesserNow() > s.most:
			m.kept++
			m.refuse(ref)
		case wait <= 0:
			m.start(s)
		case !again:
			m.armed[ref] = time.AfterFunc(wait, func() { m.due(s) })
		}
	}
}

// due starts an armed attempt, or gives it back where no slot is free.
func (m *model) due(s start) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.armed[s.ref] == nil {
		return
	}
	delete(m.armed, s.ref)
	switch {
	case time.Now().After(m.lease): // it waits for a new session, which will revoke or kill it
		delete(m.held, s.ref)
	case len(m.held)-len(m.armed)+m.other > m.slots:
		m.refuse(s.ref)
	case s.most > 0 && m.lesserNow() > s.most:
		m.kept++
		m.refuse(s.ref)
	default:
		m.start(s)
	}
}

// start runs an attempt, which must be valid and due. The lock is held.
func (m *model) start(s start) {
	s.at = time.Now()
	if !s.again {
		if task := m.c.task(s.ref.Ref); task.Token != s.ref.Token || s.at.UnixMilli() < task.Due {
			m.c.t.Errorf("task %s is started with token %s at %s; valid is %q, due %s", s.ref.Ref.ID, s.ref.Token, s.at, task.Token,
				time.UnixMilli(task.Due))
		}
	}
	m.starts = append(m.starts, s)
	m.c.runs(m, s.ref)
	if m.takes > 0 && !s.again {
		time.AfterFunc(m.takes, func() { m.finish(s.ref, m.outcome()) })
	}
}

func (m *model) giveBack(ref fsm.AttemptRef, reason string) {
	m.c.sched.Room(m.name, m.free())
	time.Sleep(commitDelay)
	m.c.apply(fsm.GiveBack{Attempts: []fsm.AttemptRef{ref}, Reason: reason})
}

func (m *model) finish(ref fsm.AttemptRef, outcome job.Outcome) {
	if held, started := m.drop(ref); held {
		m.tell(ref, outcome, started)
	}
}

// tell reports how an attempt ended.
func (m *model) tell(ref fsm.AttemptRef, outcome job.Outcome, started bool) {
	res := fsm.AttemptResult{Outcome: outcome}
	if started {
		res.Started = time.Now().UnixMilli()
		res.Ended = res.Started
		if m.returns != nil {
			t := m.c.task(ref.Ref)
			res.Output = []byte(m.returns(&t))
		}
	}
	m.c.apply(fsm.Finished{AttemptRef: ref, Result: res})
}
