package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

func idempotent(spec job.TaskSpec) job.TaskSpec {
	spec.Idempotent = new(true)
	return spec
}

// hang stops the process as SIGSTOP does; resume lets it go on.
func (m *model) hang()   { m.setHung(true) }
func (m *model) resume() { m.setHung(false) }

func (m *model) setHung(hung bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hung = hung
	for ref, timer := range m.armed {
		timer.Stop()
		delete(m.armed, ref)
	}
}

func (m *model) hangs() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hung
}

// guard is what a resource outside does: it takes the effect of an attempt only
// while no later one of the task was there.
type guard map[fsm.TaskRef]job.Token

func (g guard) take(ref fsm.AttemptRef) bool {
	if ref.Token.Compare(g[ref.Ref]) < 0 {
		return false
	}
	g[ref.Ref] = ref.Token
	return true
}

func TestIdempotentTasksLeaveASilentWorkerAtOnce(t *testing.T) {
	for name, hang := range map[string]func(*model){
		"killed":  (*model).crash,
		"stopped": (*model).hang, // its connection stays
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				w := c.worker("w1", 8, 0)
				w.mustConnect()
				none := &job.Retry{MaxRetries: new(0)}
				last := idempotent(handler(0))
				last.Retry = none
				refs := c.submit(idempotent(handler(0)), handler(0), last, idempotent(handler(8*time.Second)))
				time.Sleep(5500 * time.Millisecond)
				other := c.worker("w2", 8, 0)
				other.mustConnect()
				g := guard{}
				old := w.seen()
				for _, s := range old {
					g.take(s.ref)
				}
				hung := time.Now()
				hang(w)
				time.Sleep(3900 * time.Millisecond)
				seen := other.seen()
				if len(seen) != 2 || seen[0].ref.Ref != refs[0] || seen[0].at.Sub(hung) > 2100*time.Millisecond {
					t.Fatalf("the other worker was sent %d attempts", len(seen))
				}
				if seen[1].ref.Ref != refs[3] || seen[1].at.UnixMilli()-seen[1].due > 100 {
					t.Errorf("what was armed for later came to %v, %d ms late", seen[1].ref, seen[1].at.UnixMilli()-seen[1].due)
				}
				for _, ref := range []fsm.TaskRef{refs[1], refs[2]} {
					if s := c.task(ref).State; s != job.Dispatched {
						t.Errorf("a task that can't be moved is %s", s)
					}
				}
				// The old attempt ends after all: its result is refused, and kept as evidence.
				if !g.take(seen[0].ref) || g.take(old[0].ref) {
					t.Error("the guard lets the older attempt pass")
				}
				late := c.apply(fsm.Finished{AttemptRef: old[0].ref, Result: fsm.AttemptResult{Outcome: job.OutcomeSuccess}})
				r, release := c.Read()
				at, _ := fsm.GetAttempt(r, refs[0], 1)
				release()
				if job.AsError(late.Err).Code != job.CodeStale || len(at.Late) != 1 || c.task(refs[0]).State != job.Dispatched {
					t.Errorf("a late result: %v, evidence %v", late.Err, at.Late)
				}
				time.Sleep(20 * time.Second)
				if got := c.task(refs[0]); got.Retries != 1 {
					t.Errorf("%d retries are spent, want 1", got.Retries)
				}
				c.check()
			})
		})
	}
}

// A worker whose connection broke for a moment keeps what it runs.
func TestAShortSilenceMovesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 2, 0)
		w.mustConnect()
		ref := c.submit(idempotent(handler(0)))[0]
		time.Sleep(1100 * time.Millisecond)
		w.disconnect()
		time.Sleep(900 * time.Millisecond)
		w.mustConnect()
		time.Sleep(5 * time.Second)
		if got := c.task(ref); got.Retries != 0 || got.State != job.Dispatched {
			t.Errorf("the task is %s after %d retries", got.State, got.Retries)
		}
	})
}

// A worker that hangs gets nothing new, and is trusted again once it is heard.
func TestASuspectWorkerGetsNoWorkBeforeItIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 2, 0)
		w.mustConnect()
		ref := c.submit(idempotent(handler(0)))[0]
		time.Sleep(1100 * time.Millisecond)
		w.hang()
		time.Sleep(4 * time.Second)
		if got := c.task(ref); got.State != job.Pending || got.Retries != 1 {
			t.Fatalf("the task is %s after %d retries, want pending after 1", got.State, got.Retries)
		}
		w.resume()
		time.Sleep(2100 * time.Millisecond)
		if got := c.task(ref); got.State != job.Dispatched || got.Retries != 1 {
			t.Errorf("the task is %s after %d retries, want dispatched after 1", got.State, got.Retries)
		}
	})
}
