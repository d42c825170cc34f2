package scheduler

import (
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// TestChaos throws reconnects, restarts, overflows, leader changes, cancels, moves,
// drains and slow commits at the loop, then heals: all must end, and all slots be
// free. At each start the token must be valid and the task due, and no other attempt
// of the task may run; see model.start.
// AXD_SEEDS sets the number of seeds.
func TestChaos(t *testing.T) {
	seeds := chaosSeeds
	if s := os.Getenv("AXD_SEEDS"); s != "" {
		seeds, _ = strconv.Atoi(s)
	}
	for seed := range seeds {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newChaos(t, rand.New(&dice{src: rand.NewPCG(uint64(seed), 7)}))
				for range 400 {
					x.step()
				}
				x.heal()
				x.judge()
				x.end()
			})
		})
	}
}

const (
	chaosWorkers = 3
	chaosSlots   = 3
)

// chaos is one run.
type chaos struct {
	*cluster
	rnd     *rand.Rand
	healed  atomic.Bool
	log     chan proposed
	quit    chan struct{}
	workers []*model
	up      []bool
	life    int
	refs    []fsm.TaskRef
}

// dice is a source that the loop and the test may both draw from.
type dice struct {
	mu  sync.Mutex
	src rand.Source
}

// Uint64 implements rand.Source.
func (d *dice) Uint64() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.src.Uint64()
}

// proposed is a command on its way: wait until it is applied, lag until the
// proposer hears of it.
type proposed struct {
	cmd       fsm.Command
	done      func(fsm.Result, error)
	wait, lag time.Duration
	fail      bool
}

func newChaos(t *testing.T, rnd *rand.Rand) *chaos {
	c, h := newHooked(t)
	x := &chaos{
		cluster: c, rnd: rnd, log: make(chan proposed, 10_000), quit: make(chan struct{}),
		workers: make([]*model, chaosWorkers), up: make([]bool, chaosWorkers),
	}
	h.set(func(cmd fsm.Command, done func(fsm.Result, error)) bool {
		x.log <- x.delayed(cmd, done)
		return true
	})
	go x.commit()
	for i := range x.workers {
		x.workers[i] = x.newLife(i)
		x.connect(i)
	}
	return x
}

func (x *chaos) upTo(d time.Duration) time.Duration { return time.Duration(x.rnd.Int64N(int64(d))) }

func (x *chaos) delayed(cmd fsm.Command, done func(fsm.Result, error)) proposed {
	p := proposed{cmd: cmd, done: done, wait: time.Millisecond}
	if !x.healed.Load() {
		p.wait, p.lag = x.upTo(30*time.Millisecond), x.upTo(30*time.Millisecond)
		if x.rnd.IntN(100) == 0 {
			p.wait = x.upTo(3 * time.Second)
		}
		p.fail = x.rnd.IntN(20) == 0
	}
	return p
}

// commit applies proposals in order.
func (x *chaos) commit() {
	for {
		select {
		case <-x.quit:
			return
		case p := <-x.log:
			time.Sleep(p.wait)
			if p.fail {
				go p.done(fsm.Result{}, job.ErrNoLeader)
				continue
			}
			res := x.apply(p.cmd)
			go func() {
				time.Sleep(p.lag)
				p.done(res, nil)
			}()
		}
	}
}

func (x *chaos) newLife(i int) *model {
	w := x.worker("w"+strconv.Itoa(i), chaosSlots, 50*time.Millisecond+x.upTo(400*time.Millisecond))
	w.boot = "b" + strconv.Itoa(x.life)
	return w
}

func (x *chaos) connect(i int) {
	if !x.up[i] {
		x.up[i] = x.workers[i].connect() == nil
	}
}

func (x *chaos) disconnect(i int) {
	x.workers[i].disconnect()
	x.up[i] = false
}

// step does one thing that may happen.
func (x *chaos) step() {
	time.Sleep(x.upTo(200 * time.Millisecond))
	i := x.rnd.IntN(chaosWorkers)
	switch x.rnd.IntN(15) {
	case 0, 1, 2, 3, 4:
		if x.rnd.IntN(3) == 0 {
			x.refs = append(x.refs, x.submitNow(handler(0), handler(0))...)
			return
		}
		x.refs = append(x.refs, x.submit(handler(x.upTo(4*time.Second).Truncate(time.Millisecond)))...)
	case 5:
		if x.up[i] {
			x.disconnect(i)
			x.loseDispatch(i)
		}
	case 6, 7:
		x.connect(i)
	case 8:
		x.restart(i)
	case 9:
		if len(x.refs) > 0 {
			x.apply(fsm.Cancel{Ref: x.refs[x.rnd.IntN(len(x.refs))]})
		}
	case 10: // hints don't fit for a while
		x.sched.inbox.mu.Lock()
		x.sched.inbox.mu.hints = maxInbox
		x.sched.inbox.mu.Unlock()
	case 11, 12:
		if len(x.refs) > 0 {
			recent := x.refs[max(0, len(x.refs)-5):]
			x.apply(fsm.Reschedule{
				Ref: recent[x.rnd.IntN(len(recent))], Delay: job.Duration(x.upTo(3 * time.Second)), Priority: job.Priority(x.rnd.IntN(4)),
			})
		}
	case 13:
		x.apply(fsm.DrainWorker{Name: x.workers[i].name, Resume: x.rnd.IntN(3) > 0})
	case 14:
		if x.rnd.IntN(6) == 0 {
			for k := range x.workers {
				x.disconnect(k)
			}
			x.lead()
		}
	}
}

// loseDispatch lets a worker forget one attempt, as if it had never arrived.
func (x *chaos) loseDispatch(i int) {
	w := x.workers[i]
	w.mu.Lock()
	defer w.mu.Unlock()
	for ref := range w.held {
		if x.rnd.IntN(2) == 0 {
			delete(w.held, ref)
			x.ended(w, attemptOf(ref))
			if t := w.armed[ref]; t != nil {
				t.Stop()
				delete(w.armed, ref)
			}
		}
		return
	}
}

// restart kills a worker and starts it again, sometimes after its lease.
func (x *chaos) restart(i int) {
	x.disconnect(i)
	x.workers[i].crash()
	x.life++
	x.workers[i] = x.newLife(i)
	if x.rnd.IntN(2) == 0 {
		time.Sleep(11*time.Second + x.upTo(3*time.Second))
	}
	x.connect(i)
}

// heal ends all faults and lets everybody connect.
func (x *chaos) heal() {
	x.healed.Store(true)
	for _, w := range x.workers {
		x.apply(fsm.DrainWorker{Name: w.name, Resume: true})
	}
	time.Sleep(10 * time.Second)
	for i := range x.workers {
		for tries := 0; !x.up[i] && tries < 20; tries++ {
			x.connect(i)
			time.Sleep(time.Second)
		}
		if !x.up[i] {
			x.t.Fatalf("worker %d can't connect", i)
		}
	}
	time.Sleep(10 * time.Minute)
}

// judge wants every task ended, every slot free and the state whole.
func (x *chaos) judge() {
	for _, ref := range x.refs {
		if task := x.task(ref); !task.State.Terminal() {
			x.t.Errorf("task %s is %s on %s, attempt %d, ten minutes after all was well",
				ref.ID, task.State, task.Worker, task.Attempt)
		}
	}
	early := 0
	for _, ref := range x.refs {
		if task := x.task(ref); task.Started != 0 && task.Started < task.Due {
			early++
		}
	}
	if early > 0 {
		x.t.Errorf("%d tasks started before they were due", early)
	}
	before := x.dispatched()
	for _, w := range x.workers {
		w.mu.Lock()
		w.takes = 0
		w.mu.Unlock()
	}
	specs := make([]job.TaskSpec, chaosWorkers*chaosSlots)
	for i := range specs {
		specs[i] = handler(0)
	}
	specs[0].Policy.Priority = job.High // the slot that is kept for it
	x.submit(specs...)
	time.Sleep(5 * time.Second)
	if n := x.dispatched() - before; n != len(specs) {
		x.t.Errorf("%d of %d slots can be filled", n, len(specs))
	}
	x.check()
}

func (x *chaos) dispatched() (n int) {
	for _, w := range x.workers {
		n += len(w.seen())
	}
	return n
}

func (x *chaos) end() {
	close(x.quit)
	for i := range x.workers {
		x.disconnect(i)
	}
	time.Sleep(time.Second)
}
