package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/axd-project/axd/cluster"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/worker"
)

// Worker is a place for one worker's processes, one after the other.
type Worker struct {
	Name string

	c    *Cluster
	host string // in the network; Name, unless it is a twin

	mu     sync.Mutex
	life   *workerLife
	lives  int
	frozen chan struct{} // closed at the thaw; nil while not frozen
	paired bool          // there is another one of its name
	told   int           // processes that ended because their name was taken
}

func newWorker(c *Cluster, name string) *Worker { return &Worker{Name: name, c: c, host: name} }

// twinLives are where the numbers of a twin's lives begin.
const twinLives = 1000

// Twin returns another worker of the same name, on a host of its own.
func (w *Worker) Twin() *Worker {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paired = true
	return &Worker{Name: w.Name, c: w.c, host: w.Name + "-twin", lives: twinLives + w.lives, paired: true}
}

// Told returns how many processes were told that another one has their name.
func (w *Worker) Told() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.told
}

// Forgive says that there is no twin any more.
func (w *Worker) Forgive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paired, w.told = false, 0
}

// ended judges the end of a process that had no crash.
func (w *Worker) ended(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.paired && errors.Is(err, job.ErrConflict) {
		w.told++
		w.c.note("worker %s on %s ended: %v", w.Name, w.host, err)
	} else if err != nil {
		w.c.Problem("worker %s ended: %v", w.Name, err)
	}
}

// workerLife is one process of a worker.
type workerLife struct {
	w      *Worker
	number int
	port   *Port
	member *Member
	cancel context.CancelFunc
	gone   chan struct{} // closed by a crash
	done   chan struct{}
}

const (
	workerLabel = "worker" // names the worker
	workerSlots = 8
	workerDrain = 3 * time.Second
)

// Start runs a new process.
func (w *Worker) Start() error {
	w.mu.Lock()
	w.lives++
	life := &workerLife{
		w: w, number: w.lives, port: w.c.Net.Open(w.host),
		gone: make(chan struct{}), done: make(chan struct{}),
	}
	w.mu.Unlock()
	var addresses []string
	for _, s := range w.c.Servers {
		addresses = append(addresses, s.Name+":7481")
	}
	run, err := worker.New(worker.Config{
		Name: w.Name, Slots: workerSlots, DrainTime: workerDrain, Version: "sim", Logger: slog.New(life.quiet()),
		Labels:  map[string]string{workerLabel: w.Name},
		Servers: func() []string { return addresses }, Dial: life.port.Dial, Clock: w.c.Age,
	})
	if err != nil {
		return fmt.Errorf("start worker %s: %w", w.Name, err)
	}
	run.Handle(handlerName, life.handle)
	life.member = w.c.Gossip.Join(w.host, cluster.Member{Role: cluster.RoleWorker, Name: w.Name, Slots: workerSlots})
	var ctx context.Context
	ctx, life.cancel = context.WithCancel(context.Background())
	w.mu.Lock()
	w.life = life
	w.mu.Unlock()
	w.c.tasks.Go(func() {
		defer close(life.done)
		err := run.Run(ctx)
		life.port.Close(false)
		if !life.crashed() {
			w.ended(err)
		}
	})
	return nil
}

// quiet drops what a process logs after it crashed: there is nobody left.
func (l *workerLife) quiet() slog.Handler { return lifeHandler{l.w.c.log.Handler(), l} }

type lifeHandler struct {
	slog.Handler
	life *workerLife
}

// Handle implements slog.Handler.
func (h lifeHandler) Handle(ctx context.Context, r slog.Record) error {
	if h.life.crashed() {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h lifeHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return lifeHandler{h.Handler.WithAttrs(attrs), h.life}
}

func (l *workerLife) crashed() bool {
	select {
	case <-l.gone:
		return true
	default:
		return false
	}
}

func (w *Worker) now() *workerLife {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.life
}

// Crash ends the process at once, silently if power is set.
func (w *Worker) Crash(power bool) bool {
	w.mu.Lock()
	life := w.life
	w.life = nil
	w.mu.Unlock()
	if life == nil {
		return false
	}
	w.c.Ledger.crash(w.Name, life.number)
	close(life.gone)
	life.port.Close(power)
	w.c.Gossip.Lose(life.member)
	life.cancel()
	return true
}

// Restart starts the worker unless it runs.
func (w *Worker) Restart() {
	if w.now() != nil {
		return
	}
	if err := w.Start(); err != nil {
		w.c.Problem("%v", err)
	}
}

// Stop asks the process to drain and waits for its end.
func (w *Worker) Stop() {
	w.mu.Lock()
	life := w.life
	w.life = nil
	w.mu.Unlock()
	if life == nil {
		return
	}
	life.cancel()
	<-life.done
	_ = life.member.Leave(context.Background())
}

// Freeze holds the handlers, whatever their contexts say, until Thaw: a process
// that was stopped.
func (w *Worker) Freeze() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.frozen = make(chan struct{})
}

// Thaw ends Freeze.
func (w *Worker) Thaw() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.frozen)
	w.frozen = nil
}

func (w *Worker) ice() chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.frozen
}

// handlerName is the handler that every worker offers.
const handlerName = "sim"

// behaviour is what a task's payload tells the handler to do.
type behaviour struct {
	Op    int   `json:"op"`
	RunMS int64 `json:"run_ms"`
	// Fail makes so many attempts fail before one succeeds.
	Fail int `json:"fail,omitempty"`
	// Hang makes each attempt run until its context ends.
	Hang bool `json:"hang,omitempty"`
	// FailOn makes attempts on one worker fail.
	FailOn string `json:"fail_on,omitempty"`
	// RetryMS: a failure asks for the next attempt after so long; below 0 for none.
	RetryMS int64 `json:"retry_ms,omitempty"`
	// Beat makes the attempt give heartbeats.
	Beat bool `json:"beat,omitempty"`
	// Key is what the limits of jobs count by.
	Key int `json:"k,omitempty"`
}

const beatEvery = 300 * time.Millisecond

var (
	errWanted = errors.New("this attempt was to fail")
	errGone   = errors.New("the process is gone")
)

// handle runs one attempt and tells the ledger.
func (l *workerLife) handle(ctx context.Context, t worker.Task) (output []byte, err error) {
	var b behaviour
	if err := json.Unmarshal(t.Payload, &b); err != nil {
		return nil, err
	}
	if l.crashed() {
		return nil, errGone
	}
	ledger := l.w.c.Ledger
	run := ledger.start(Attempt{
		Task: t.ID.String(), Number: t.Attempt, Token: t.Token, Worker: l.w.Name, Life: l.number, Due: t.Due,
		Job: t.Job, Payload: string(t.Payload), Silent: !b.Beat,
	})
	defer func() { ledger.end(run, err == nil) }()
	if err = l.work(ctx, &t, &b); errors.Is(err, errGone) {
		return nil, err
	}
	if ice := l.w.ice(); ice != nil {
		ledger.froze(run)
		select {
		case <-ice:
		case <-l.gone:
			return nil, errGone
		}
	}
	ledger.write(run)
	switch {
	case err != nil || t.Attempt > b.Fail && b.FailOn != l.w.Name:
		return []byte(`{"done": true}`), err
	case b.RetryMS == 0:
		return nil, errWanted
	}
	wish := &worker.AttemptError{Err: errWanted, Class: "wanted", Permanent: b.RetryMS < 0}
	wish.RetryIn = time.Duration(max(b.RetryMS, 0)) * time.Millisecond
	ledger.advised(run, wish.RetryIn, wish.Permanent)
	return nil, wish
}

// work passes an attempt's time.
func (l *workerLife) work(ctx context.Context, t *worker.Task, b *behaviour) error {
	length := time.Duration(b.RunMS) * time.Millisecond
	if b.Hang {
		length = time.Hour
	}
	done := time.NewTimer(length)
	defer done.Stop()
	var beats <-chan time.Time
	if b.Beat {
		pulse := time.NewTicker(beatEvery)
		defer pulse.Stop()
		beats = pulse.C
	}
	for {
		select {
		case <-done.C:
			return nil
		case <-beats:
			t.Heartbeat()
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.gone:
			return errGone
		}
	}
}
