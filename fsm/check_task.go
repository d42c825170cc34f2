package fsm

import (
	"bytes"

	"github.com/axd-project/axd/job"
)

// task checks a task and that its rows in the other tables exist; that those
// rows belong to a task is checked from their side.
func (c *checker) task(k, v []byte) {
	t, ok := record[Task](c, k, v)
	if !ok {
		return
	}
	ref := t.Ref()
	c.want(bytes.Equal(k, key{}.task(ref)), "task %s: under the key %x", t.ID, k)
	c.taskFields(&t)
	c.tally(&t)
	if t.Schedule != "" {
		c.firedTask(&t)
	}
	if t.State == job.Pending {
		c.want(c.has(key{}.dueRow(t.Policy.Priority, t.dueKey())), "task %s: pending without a due row", t.ID)
	}
	if at := t.Deadline(); at != 0 {
		c.want(c.has(key{}.deadline(at, ref)), "task %s: pending until %d without a row of its deadline", t.ID, at)
	}
	if t.State.Terminal() {
		c.want(c.has(key{}.byState(t.Namespace, t.State).id(t.ID)), "task %s: has no row by state %v", t.ID, t.State)
		c.want(t.Dead || !t.isOwn() || c.has(key{}.ended(t.retainFrom(), ref)), "task %s: %v without an ended row", t.ID, t.State)
	}
	if t.HasBody {
		c.want(len(t.Body) == 0 && c.has(key{}.body(ref)), "task %s: has no body of its own", t.ID)
	}
	if t.Extra != nil && t.Extra.Done {
		c.want(c.has(key{}.once(ref)), "task %s: has recorded nothing as done", t.ID)
	}
	if t.KeyExpiry > c.clock {
		b, _ := c.r.Get(key{}.idempotency(t.Namespace, t.claimedKey()))
		row, ok := decodeKeyRow(b)
		c.want(ok && row.ID == t.ID, "task %s: key %q is live, and has no row for it", t.ID, t.IdempotencyKey)
	}
	c.claimsUnique(&t)
	if t.Extra != nil {
		c.ofBroadcast(&t)
	}
	c.deadTask(&t)
	c.holdsLimit(&t)
	if t.Job != "" {
		c.want(c.has(key{}.byJob(t.Namespace, t.Job).id(t.ID)), "task %s: has no row by job %s", t.ID, t.Job)
		c.want(t.State.Terminal() || c.has(key{}.job(t.Namespace, t.Job)), "task %s: %v, but job %s does not exist", t.ID, t.State, t.Job)
	}
	if !t.Run.IsZero() {
		c.runTasks[t.RunRef()]++
	}
	if t.Callback != 0 {
		c.want(c.has(key{}.callback(CallbackRef{ref, t.Callback})), "task %s: callback %d does not exist", t.ID, t.Callback)
	}
	if t.State.Active() {
		c.want(c.has(key{}.active(t.Worker, ref)), "task %s: %v without an active row of worker %s", t.ID, t.State, t.Worker)
		c.want(c.has(key{}.attempt(ref, t.Attempt)), "task %s: %v without attempt %d", t.ID, t.State, t.Attempt)
	}
}

// taskFields checks what a task says of itself.
func (c *checker) taskFields(t *Task) {
	c.want(t.State >= job.Pending && t.State <= job.UpstreamFailed, "task %s: unknown state %d", t.ID, t.State)
	c.want(t.Policy.Priority >= job.High && t.Policy.Priority <= job.Low, "task %s: unknown priority %d", t.ID, t.Policy.Priority)
	c.want(t.State.Active() == !t.Token.IsZero(), "task %s: %v with token %v", t.ID, t.State, t.Token)
	c.want(t.Token.IsZero() || t.Token == t.LastToken, "task %s: token %v is not its last, %v", t.ID, t.Token, t.LastToken)
	c.want(t.State.Terminal() == (t.Ended != 0), "task %s: %v, ended %d", t.ID, t.State, t.Ended)
	c.want(!t.State.Active() || t.Dispatched >= t.Due-MaxEarly, "task %s: due %d, dispatched %d", t.ID, t.Due, t.Dispatched)
	c.want(t.State != job.Running || t.Started >= t.Dispatched, "task %s: dispatched %d, started %d", t.ID, t.Dispatched, t.Started)
	c.want(t.State != job.Running || t.Started >= t.Due, "task %s: due %d, started %d", t.ID, t.Due, t.Started)
	c.want(!t.Wished() || t.State == job.Dispatched && !t.CancelRequested, "task %s: %v with a wish to move", t.ID, t.State)
	c.want((t.Run.IsZero()) == (t.Step == ""), "task %s: step %q of run %s", t.ID, t.Step, t.Run)
	c.want(t.State != job.Blocked || !t.Run.IsZero() || t.IsBroadcast(), "task %s: blocked, of no run, and no broadcast", t.ID)
	c.want(!t.Retry || t.State == job.Pending, "task %s: %v with a retry mark", t.ID, t.State)
	c.want(t.Retries <= int(t.Attempt), "task %s: %d retries in %d attempts", t.ID, t.Retries, t.Attempt)
	c.want(len(t.Body) <= maxInlineBody, "task %s: a body of %d bytes in the task", t.ID, len(t.Body))
	c.want((t.IdempotencyKey == "") == (t.KeyExpiry == 0), "task %s: key %q until %d", t.ID, t.IdempotencyKey, t.KeyExpiry)
}

func (c *checker) deadline(k, _ []byte) {
	kr := readKey(k)
	at, ref := kr.time(), kr.ref()
	c.want(kr.done(), "deadline row %x: can't be read", k)
	if t, ok := c.taskOf("deadline row", ref); ok {
		c.want(t.Deadline() == at, "deadline row of task %s at %d: the task is %v until %d", t.ID, at, t.State, t.Deadline())
	}
}

func (c *checker) tally(t *Task) {
	c.counts[string(key{}.counter(countAll).u8(byte(t.State)))]++
	c.counts[string(key{}.counter(countNamespace).name(t.Namespace).u8(byte(t.State)))]++
	if t.Job != "" {
		c.counts[string(key{}.counter(countJob).name(t.Namespace).name(t.Job).u8(byte(t.State)))]++
	}
}

func (c *checker) attempt(k, v []byte) {
	a, ok := record[Attempt](c, k, v)
	if !ok {
		return
	}
	kr := readKey(k)
	ref, n := kr.ref(), kr.u32()
	c.want(kr.done() && n == a.Number, "attempt %d of task %s: under the key %x", a.Number, ref.ID, k)
	t, ok := c.taskOf("attempt", ref)
	if !ok {
		return
	}
	c.want(n > 0 && n <= t.Attempt && n+MaxAttempts > t.Attempt, "attempt %d of task %s: kept at attempt %d", n, t.ID, t.Attempt)
	c.want((a.Ended == 0) == (a.Outcome == 0), "attempt %d of task %s: ended %d, outcome %v", n, t.ID, a.Ended, a.Outcome)
	c.want(len(a.Late) <= maxLate, "attempt %d of task %s: %d late results", n, t.ID, len(a.Late))
	current := t.State.Active() && n == t.Attempt
	c.want((a.Ended == 0) == current, "attempt %d of task %s: ended %d, the task is %v at attempt %d", n, t.ID, a.Ended, t.State, t.Attempt)
	c.want(!current || a.Token == t.Token, "attempt %d of task %s: token %v, the task's is %v", n, t.ID, a.Token, t.Token)
	c.want(a.Token.Compare(t.LastToken) <= 0, "attempt %d of task %s: token %v is above the last, %v", n, t.ID, a.Token, t.LastToken)
	if b, ok := c.r.Get(key{}.attempt(ref, n+1)); ok {
		if next, ok := record[Attempt](c, k, bytes.Clone(b)); ok {
			c.want(a.Token.Compare(next.Token) < 0, "attempts %d and %d of task %s: tokens don't rise", n, n+1, t.ID)
		}
	}
}
