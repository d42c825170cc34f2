package scheduler

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/store"
)

// hand is a leader's life without goroutines and without a clock: a test turns the loop
// by hand, commits what it proposes after delays of its own, and plays the workers. What
// goes wrong follows from the seed; the loop goes over maps, so one seed's lives are alike
// and not the same.
type hand struct {
	t    *testing.T
	seed uint64
	rng  *rand.Rand
	now  int64 // Unix ms, the cluster's and everybody's
	age  int64 // ms

	s         *Scheduler
	l         *loop
	judge     *judge
	nextJudge int64 // by age
	machine   *fsm.Machine
	store     store.Store
	index     uint64
	term      uint64
	log       []handEntry
	way       []handProposal // proposals, in the order of the log
	workers   []*hired
	calm      bool
	starts    int
}

type handEntry struct {
	meta  fsm.Meta
	entry []byte
}

type handProposal struct {
	cmd  fsm.Command
	done func(fsm.Result, error)
	at   int64 // when it is committed
	fail bool
}

const handStart = 1_700_000_000_000

func newHand(t *testing.T, seed uint64) *hand {
	h := &hand{
		t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), now: handStart, machine: fsm.NewMachine(), store: store.NewMemory(),
	}
	t.Cleanup(func() { _ = h.store.Close() })
	h.s = New(Config{
		Log: h, State: h, Logger: slog.New(slog.DiscardHandler), Now: func() int64 { return h.now },
		Mono: func() time.Duration { return time.Duration(h.age) * time.Millisecond }, LeaseTTL: handLease * time.Millisecond, Retention: time.Hour,
	})
	for i := range 3 {
		h.workers = append(h.workers, &hired{h: h, name: fmt.Sprint("w", i), boot: "b0", slots: 3})
	}
	h.lead()
	return h
}

func (h *hand) fatalf(format string, args ...any) {
	h.t.Helper()
	h.t.Fatalf("after %v: %s\nrun it again: AXD_MODEL_SEED=%d go test ./scheduler -run '^TestByHand$' -v",
		time.Duration(h.age)*time.Millisecond, fmt.Sprintf(format, args...), h.seed)
}

func (h *hand) chance(percent int) bool { return h.rng.IntN(100) < percent }

// Read implements State.
func (h *hand) Read() (fsm.Reader, func()) {
	v := h.store.View()
	return v, v.Close
}

// ProposeAsync implements Log.
func (h *hand) ProposeAsync(cmd fsm.Command, done func(fsm.Result, error)) {
	p := handProposal{cmd: cmd, done: done, at: h.now + 2}
	if !h.calm {
		p.at += h.rng.Int64N(40)
		if h.chance(1) {
			p.at += h.rng.Int64N(3000)
		}
		p.fail = h.chance(4)
	}
	h.way = append(h.way, p)
}

// tell proposes what nobody waits for.
func (h *hand) tell(cmd fsm.Command) { h.ProposeAsync(cmd, func(fsm.Result, error) {}) }

// commit applies what is due of the log's way, in its order.
func (h *hand) commit() {
	for len(h.way) > 0 && h.way[0].at <= h.now {
		p := h.way[0]
		h.way = h.way[1:]
		if p.fail {
			p.done(fsm.Result{}, job.ErrNoLeader)
			continue
		}
		p.done(h.apply(p.cmd), nil)
	}
}

func (h *hand) apply(cmd fsm.Command) fsm.Result {
	h.t.Helper()
	b, err := fsm.EncodeCommand(cmd)
	if err != nil {
		h.fatalf("%v", err)
	}
	entry, err := fsm.EncodeEntry(fsm.Entry{At: h.now, Commands: [][]byte{b}})
	if err != nil {
		h.fatalf("%v", err)
	}
	h.index++
	meta := fsm.Meta{Index: h.index, Term: h.term}
	h.log = append(h.log, handEntry{meta, entry})
	batch := h.store.Batch()
	res, events, err := h.machine.Apply(batch, meta, entry)
	if err != nil {
		h.fatalf("%v", err)
	}
	batch.Commit()
	h.s.Events(h.index, events)
	return res[0]
}

// lead begins a term. What is on its way is committed by the leader before, or lost.
func (h *hand) lead() {
	h.s.inbox.close()
	way := h.way
	h.way = nil
	for _, p := range way {
		if h.chance(50) {
			h.apply(p.cmd)
		}
		p.done(fsm.Result{}, job.ErrNoLeader)
	}
	for _, w := range h.workers {
		w.disconnect()
	}
	h.term++
	h.s.inbox.open()
	h.l = newLoop(h.s, h.term)
	h.judge = &judge{Scheduler: h.s, term: h.term}
	h.l.recover()
}

// pass lets time go by, in steps.
func (h *hand) pass(ms int64) {
	for end := h.now + ms; h.now < end; {
		step := min(1+h.rng.Int64N(60), end-h.now)
		h.now += step
		h.age += step
		h.commit()
		for _, w := range h.workers {
			w.work()
		}
		h.l.turn()
		h.compute()
	}
}

// compute answers what steps wait for, when a hint says so, and now and then without.
func (h *hand) compute() {
	select {
	case <-h.s.wanted:
	default:
		if h.age < h.nextJudge {
			return
		}
	}
	h.nextJudge = h.age + judgeLook.Milliseconds()
	verdicts, _ := h.judge.verdicts(nil)
	for _, v := range verdicts {
		h.tell(v)
	}
}

const handLease = 10_000 // ms

// hired is a worker.
type hired struct {
	h        *hand
	name     string
	boot     string
	slots    int
	gone     chan struct{} // nil: no session
	hello    int64         // when it was sent
	welcome  bool
	nextBeat int64
	lease    int64 // until when it may run something
	held     []*hiredAttempt
	past     map[fsm.AttemptRef]bool
}

type hiredAttempt struct {
	ref     fsm.AttemptRef
	number  uint32
	due     int64
	started int64
	ends    int64
	outcome job.Outcome
}

// Gone implements Session.
func (w *hiredLink) Gone() <-chan struct{} { return w.gone }

// hiredLink is one connection of a worker.
type hiredLink struct {
	*hired
	gone chan struct{}
}

func (w *hired) disconnect() {
	if w.gone != nil {
		close(w.gone)
		w.gone, w.welcome = nil, false
	}
}

// crash forgets everything, as a process that is killed.
func (w *hired) crash() {
	w.disconnect()
	w.held, w.past, w.lease = nil, nil, 0
	w.boot = fmt.Sprint("b", w.h.index)
}

func (w *hired) connect() {
	if w.gone != nil {
		return
	}
	w.gone = make(chan struct{})
	link := &hiredLink{w, w.gone}
	hello := Hello{
		Worker: fsm.RegisterWorker{Name: w.name, Boot: w.boot, Address: "here:1", Slots: w.slots}, Offers: []string{"handler:work"},
	}
	for _, a := range w.held {
		hello.Held = append(hello.Held, Held{AttemptRef: a.ref, Attempt: a.number})
	}
	w.hello = w.h.now
	w.h.s.inbox.put(func(l *loop) {
		l.attach(link, hello, func(_ uint64, err error) {
			switch {
			case w.gone != link.gone:
			case err != nil:
				w.disconnect()
			default:
				w.welcome, w.nextBeat = true, w.h.now+1000
				w.lease = max(w.lease, w.hello+handLease)
			}
		})
	})
}

// Dispatch implements Session.
func (w *hiredLink) Dispatch(_ uint64, items []Dispatch) {
	for i := range items {
		t := &items[i].Task
		ref := fsm.AttemptRef{Ref: t.Ref(), Token: t.Token}
		if w.hired.gone != w.gone || w.past[ref] || w.holds(ref) != nil {
			continue
		}
		w.held = append(w.held, &hiredAttempt{ref: ref, number: t.Attempt, due: t.Due, outcome: job.OutcomeSuccess})
	}
}

func (w *hired) holds(ref fsm.AttemptRef) *hiredAttempt {
	for _, a := range w.held {
		if a.ref == ref {
			return a
		}
	}
	return nil
}

// Kill implements Session.
func (w *hiredLink) Kill(ref fsm.AttemptRef, _ uint32, reason KillReason) {
	a := w.holds(ref)
	switch {
	case a == nil:
	case reason == KillStale:
		w.drop(a)
	default:
		a.ends, a.outcome = w.h.now, job.OutcomeCancelled
		if reason == KillTimeout {
			a.outcome = job.OutcomeTimeout
		}
	}
}

// Revoke implements Session.
func (w *hiredLink) Revoke(attempts []Held) {
	for _, held := range attempts {
		if a := w.holds(held.AttemptRef); a != nil && a.started == 0 {
			w.giveBack(a)
		}
	}
}

func (w *hired) giveBack(a *hiredAttempt) {
	w.drop(a)
	w.owe(fsm.GiveBack{Attempts: []fsm.AttemptRef{a.ref}})
	w.h.s.Room(w.name, w.free())
}

func (w *hired) drop(a *hiredAttempt) {
	w.held = slices.DeleteFunc(w.held, func(b *hiredAttempt) bool { return a == b })
	if w.past == nil {
		w.past = map[fsm.AttemptRef]bool{}
	}
	w.past[a.ref] = true
}

func (w *hired) free() int {
	free := w.slots
	for _, a := range w.held {
		if a.started != 0 {
			free--
		}
	}
	return free
}

// work does what is due at the worker.
func (w *hired) work() {
	h := w.h
	if w.welcome && h.now >= w.nextBeat {
		w.nextBeat = h.now + 1000
		if h.s.Renew(w.name, w.boot) {
			w.lease = h.now + handLease
			h.s.Heartbeat(w.name, w.free())
		} else {
			w.disconnect()
		}
	}
	slices.SortFunc(w.held, func(a, b *hiredAttempt) int { return a.ref.Token.Compare(b.ref.Token) })
	for _, a := range slices.Clone(w.held) {
		switch {
		case h.now >= w.lease: // it kills what runs, and starts nothing
			w.held = slices.DeleteFunc(w.held, func(b *hiredAttempt) bool { return a == b })
		case a.ends != 0 && h.now >= a.ends && w.welcome:
			w.end(a)
		case a.started == 0 && a.due <= h.now && w.free() == 0:
			w.giveBack(a)
		case a.started == 0 && a.ends == 0 && a.due <= h.now:
			w.start(a)
		}
	}
}

// start judges: the token must be valid, the task due, and no other attempt of it run.
func (w *hired) start(a *hiredAttempt) {
	h := w.h
	r, release := h.Read()
	task, ok := fsm.GetTask(r, a.ref.Ref)
	release()
	if !ok || h.now < task.Due && task.Token == a.ref.Token {
		h.fatalf("task %s is started %d ms before it is due", a.ref.Ref.ID, task.Due-h.now)
	}
	for _, other := range h.workers {
		for _, b := range other.held {
			if b != a && b.ref.Ref == a.ref.Ref && b.started != 0 && h.now < other.lease {
				h.fatalf("task %s is started by %s while it runs at %s", a.ref.Ref.ID, w.name, other.name)
			}
		}
	}
	h.starts++
	a.started = h.now
	if takes := h.rng.Int64N(900); takes > 0 {
		a.ends = h.now + takes
	} else {
		a.ends = h.now + 1
	}
	if h.chance(15) {
		a.outcome = job.OutcomeFailed
	}
}

func (w *hired) end(a *hiredAttempt) {
	w.drop(a)
	res := fsm.AttemptResult{Outcome: a.outcome, Started: a.started, Ended: w.h.now}
	w.owe(fsm.Finished{AttemptRef: a.ref, Result: res})
}

// owe reports until it is committed, or the process ends.
func (w *hired) owe(report fsm.Command) {
	boot := w.boot
	var again func(fsm.Result, error)
	again = func(_ fsm.Result, err error) {
		if err != nil && w.boot == boot {
			w.h.ProposeAsync(report, again)
		}
	}
	w.h.ProposeAsync(report, again)
}
