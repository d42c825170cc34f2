package fsm

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/axd-project/axd/job"
)

// TestModel applies random entries to the machine and to the model and compares
// the results, then the state; every invariant must hold after every entry.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &modelRun{t: t, model: newModel(), tx: newMemTx(), m: NewMachine(), at: scriptStart, term: 1}
		for range rapid.IntRange(1, 30).Draw(t, "entries") {
			r.entry()
		}
		r.compareLists()
		r.compareReplicas()
	})
}

type modelRun struct {
	t     *rapid.T
	model *model
	tx    *memTx
	m     *Machine
	index int64
	term  int64
	at    int64
	refs  []AttemptRef // every attempt there ever was
	log   []logged
}

func (r *modelRun) entry() {
	t := r.t
	r.index++
	r.at += rapid.SampledFrom([]int64{0, 1, 300, 700, 5000, -200}).Draw(t, "step")
	if rapid.IntRange(0, 9).Draw(t, "election") == 0 {
		r.term++
	}
	if rapid.IntRange(0, 9).Draw(t, "reset") == 0 {
		r.m.Reset()
	}
	r.model.begin(r.index, r.term, r.at)
	e := Entry{At: r.at}
	var want []mResult
	var said []string
	for range rapid.IntRange(1, 4).Draw(t, "commands") {
		c := r.sent(r.command())
		b, err := EncodeCommand(plainCommand(c))
		if err != nil {
			t.Fatal(err)
		}
		e.Commands = append(e.Commands, b)
		want = append(want, r.model.apply(c))
		said = append(said, fmt.Sprintf("%T%+v", c, c))
	}
	encoded, err := EncodeEntry(e)
	if err != nil {
		t.Fatal(err)
	}
	meta := Meta{Index: uint64(r.index), Term: uint64(r.term)}
	r.log = append(r.log, logged{meta, encoded})
	got, _, err := r.m.Apply(r.tx, meta, encoded)
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		compareResult(t, said[i], want[i], got[i])
		for _, s := range got[i].Tasks {
			if s.Err == nil && !s.Task.Token.IsZero() {
				r.remember(s.Task.Token)
			}
		}
		for _, a := range got[i].Assigned {
			if a.Err == nil {
				r.remember(a.Token)
			}
		}
	}
	if broken := Check(r.tx, 10); broken != nil {
		t.Fatalf("after %v: %q", said, broken)
	}
	r.compareState()
}

func (r *modelRun) remember(token job.Token) {
	for _, task := range r.model.sorted() {
		if task.last == token {
			r.refs = append(r.refs, AttemptRef{TaskRef{"default", task.id}, token})
		}
	}
}

// command draws a command, mostly one that makes sense.
func (r *modelRun) command() Command {
	t := r.t
	switch rapid.IntRange(0, 17).Draw(t, "verb") {
	case 0:
		return PutJob{Namespace: "default", Name: r.jobName(), Spec: job.Spec{
			Executor: job.Executor{Handler: rapid.SampledFrom([]string{"h1", "h2"}).Draw(t, "handler")},
			Policy:   job.Policy{Priority: r.priority(), Retry: r.retry()},
		}}
	case 1:
		return DeleteJob{Namespace: "default", Name: r.jobName()}
	case 2, 3:
		return r.submit()
	case 4:
		return r.submitNow()
	case 5, 6, 7:
		return r.assign()
	case 8:
		return Started{AttemptRef: r.attempt(), At: r.at - 100}
	case 9, 10:
		return Finished{AttemptRef: r.attempt(), Result: AttemptResult{
			Outcome: rapid.SampledFrom([]job.Outcome{
				job.OutcomeSuccess, job.OutcomeFailed, job.OutcomeFailed, job.OutcomeTimeout, job.OutcomeLost, job.OutcomeCancelled,
			}).Draw(t, "outcome"),
			Error: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "report"),
		}}
	case 11:
		return GiveBack{Attempts: []AttemptRef{r.attempt(), r.attempt()}, Reason: "full"}
	case 12:
		return LoseAttempts{
			Term: r.drawTerm(), Attempts: []AttemptRef{r.attempt(), r.attempt()}, Reason: "lease",
			Outcome:   rapid.SampledFrom([]job.Outcome{job.OutcomeLost, job.OutcomeTimeout}).Draw(t, "outcome"),
			Unstarted: []AttemptRef{r.attempt()},
		}
	case 13:
		return Cancel{Ref: r.task()}
	case 14:
		return r.rescheduleOrExpire()
	case 17:
		return r.deadLetters()
	case 15:
		c := TimeOut{Term: r.drawTerm()}
		for range rapid.IntRange(1, 3).Draw(t, "tasks") {
			item := TaskVersion{Ref: r.task()}
			if task := r.model.tasks[item.Ref.ID]; task != nil {
				item.Version = task.version - uint64(rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "older"))
			}
			c.Tasks = append(c.Tasks, item)
		}
		return c
	}
	return r.workerCommand()
}

func (r *modelRun) jobName() string {
	return rapid.SampledFrom([]string{"j1", "j1-two"}).Draw(r.t, "job")
}

func (r *modelRun) worker() string {
	return rapid.SampledFrom([]string{"w1", "w2"}).Draw(r.t, "worker")
}

func (r *modelRun) priority() job.Priority {
	return job.Priority(rapid.IntRange(0, 3).Draw(r.t, "priority"))
}

// retry always says how many, so that the model needs no defaults of delays.
func (r *modelRun) retry() *job.Retry {
	none := job.JitterNone
	delay := job.Duration(retryDelay * 1_000_000)
	return &job.Retry{MaxRetries: new(rapid.IntRange(0, 3).Draw(r.t, "retries")), Initial: delay, Factor: 1, Cap: delay, Jitter: &none}
}

func (r *modelRun) submitNow() Command {
	s := r.submit()
	b, err := EncodeCommand(s)
	if err != nil {
		r.t.Fatal(err)
	}
	c := SubmitNow{Term: r.drawTerm(), Submit: b}
	for i := range s.Tasks {
		name := r.worker()
		boot := rapid.SampledFrom([]string{"b1", "b2", r.model.workers[name].boot}).Draw(r.t, "boot")
		c.Workers = append(c.Workers, WorkerLife{Name: name, Boot: boot})
		c.To = append(c.To, i+1)
	}
	return c
}

func (r *modelRun) submit() Submit {
	t := r.t
	c := Submit{Namespace: "default"}
	for range rapid.IntRange(1, 3).Draw(t, "tasks") {
		s := job.TaskSpec{
			Policy:  job.Policy{Priority: r.priority()},
			Payload: []byte(rapid.SampledFrom([]string{"1", "2"}).Draw(t, "payload")),
		}
		if rapid.Bool().Draw(t, "has job") {
			s.Job = r.jobName()
		} else {
			s.Executor = job.Executor{Handler: "own"}
			s.Retry = r.retry()
		}
		s.QueueTimeout, s.TotalTimeout = r.limit("queue"), r.limit("total")
		switch rapid.IntRange(0, 3).Draw(t, "when") {
		case 0:
			s.Delay = job.Duration(rapid.IntRange(1, 3000).Draw(t, "delay")) * 1_000_000
		case 1:
			s.Due = r.at + rapid.Int64Range(-1000, 3000).Draw(t, "due")
		}
		if rapid.IntRange(0, 2).Draw(t, "has key") == 0 {
			// The executor and time belong to the content of a request; here only the
			// payload may differ.
			s = job.TaskSpec{Executor: job.Executor{Handler: "own"}, Payload: s.Payload, Policy: job.Policy{Retry: fixedRetry()}}
			s.IdempotencyKey = rapid.SampledFrom([]string{"k1", "k2"}).Draw(t, "key")
			s.IdempotencyWindow = job.Duration(2_000_000_000)
			s.IdempotencyPolicy = rapid.SampledFrom([]job.IdempotencyPolicy{
				"", job.IdempotencyReturn, job.IdempotencyReject, job.IdempotencyReplace,
			}).Draw(t, "policy")
		}
		if rapid.IntRange(0, 3).Draw(t, "is unique") == 0 {
			s.UniqueKey = rapid.SampledFrom([]string{"u1", "u2"}).Draw(t, "unique")
		}
		if s.IdempotencyKey == "" && rapid.Bool().Draw(t, "limited") {
			s.Concurrency = &job.Concurrency{Max: modelMost, Name: "one"}
		}
		c.Tasks = append(c.Tasks, s)
	}
	return c
}

func (r *modelRun) limit(name string) *job.Duration {
	ms := rapid.SampledFrom([]int64{0, 0, 1, 700, 3000}).Draw(r.t, name)
	return new(job.Duration(ms * 1_000_000))
}

func fixedRetry() *job.Retry {
	none := job.JitterNone
	delay := job.Duration(retryDelay * 1_000_000)
	return &job.Retry{MaxRetries: new(1), Initial: delay, Factor: 1, Cap: delay, Jitter: &none}
}

func (r *modelRun) task() TaskRef {
	tasks := r.model.sorted()
	if len(tasks) == 0 || rapid.IntRange(0, 19).Draw(r.t, "unknown") == 0 {
		return TaskRef{"default", job.NewID(1, 2, 3)}
	}
	return TaskRef{"default", rapid.SampledFrom(tasks).Draw(r.t, "task").id}
}

// attempt draws a current attempt more often than an old one.
func (r *modelRun) attempt() AttemptRef {
	var current []AttemptRef
	for _, task := range r.model.sorted() {
		if !task.token.IsZero() {
			current = append(current, AttemptRef{TaskRef{"default", task.id}, task.token})
		}
	}
	if len(current) > 0 && rapid.IntRange(0, 4).Draw(r.t, "old") > 0 {
		return rapid.SampledFrom(current).Draw(r.t, "attempt")
	}
	if len(r.refs) > 0 {
		return rapid.SampledFrom(r.refs).Draw(r.t, "attempt")
	}
	return AttemptRef{Ref: r.task()}
}

func (r *modelRun) drawTerm() uint64 {
	if rapid.IntRange(0, 9).Draw(r.t, "old term") == 0 {
		return uint64(r.term - 1)
	}
	return uint64(r.term)
}

func (r *modelRun) assign() Command {
	c := Assign{Term: r.drawTerm()}
	for range rapid.IntRange(1, 3).Draw(r.t, "items") {
		item := AssignItem{Ref: r.task(), Worker: r.worker()}
		if task := r.model.tasks[item.Ref.ID]; task != nil {
			item.Version = task.version
		}
		item.Version += uint64(rapid.SampledFrom([]int{0, 0, 0, 0, 0, 0, 1}).Draw(r.t, "newer"))
		item.Boot = r.model.workers[item.Worker].boot
		if item.Boot == "" || rapid.IntRange(0, 9).Draw(r.t, "old boot") == 0 {
			item.Boot = "b0"
		}
		c.Items = append(c.Items, item)
	}
	return c
}

func (r *modelRun) rescheduleOrExpire() Command {
	t := r.t
	switch rapid.IntRange(0, 3).Draw(t, "how") {
	case 0:
		return Expire{EndedBefore: r.at - rapid.SampledFrom([]int64{0, 1000, -5000}).Draw(t, "keep")}
	case 1:
		return Reschedule{Ref: r.task(), Now: true, Priority: r.priority()}
	case 2:
		return Reschedule{Ref: r.task(), Due: r.at + rapid.Int64Range(-1000, 3000).Draw(t, "due")}
	}
	return Reschedule{Ref: r.task(), Priority: job.High}
}

func (r *modelRun) workerCommand() Command {
	t := r.t
	switch rapid.IntRange(0, 6).Draw(t, "worker verb") {
	case 0:
		return DrainWorker{Name: r.worker(), Resume: rapid.Bool().Draw(t, "resume")}
	case 1:
		return WorkerState{Term: uint64(r.term), Name: r.worker(), Alive: rapid.Bool().Draw(t, "alive")}
	case 2:
		return ForgetWorker{Name: r.worker()}
	}
	return RegisterWorker{
		Term: uint64(r.term), Name: r.worker(),
		Boot: rapid.SampledFrom([]string{"b1", "b2"}).Draw(t, "boot"), Slots: rapid.IntRange(1, 2).Draw(t, "slots"),
	}
}

func code(err *job.Error) job.Code {
	if err == nil {
		return ""
	}
	return err.Code
}

// compareResult compares what the model predicts.
func compareResult(t *rapid.T, said string, want mResult, got Result) {
	t.Helper()
	seen := mResult{code: code(got.Err), version: got.Version, changed: got.Changed, deleted: got.Deleted}
	if got.Task != nil {
		seen.state = got.Task.State
	}
	for _, s := range got.Tasks {
		item := mResult{code: code(s.Err), dedup: s.Deduplicated}
		if s.Task != nil {
			item.id, item.state = s.Task.ID, s.Task.State
		}
		seen.items = append(seen.items, item)
	}
	for _, a := range got.Assigned {
		seen.items = append(seen.items, mResult{code: code(a.Err), attempt: a.Attempt, token: a.Token})
	}
	for _, err := range got.Attempts {
		seen.items = append(seen.items, mResult{code: code(err)})
	}
	if fmt.Sprint(want) != fmt.Sprint(seen) {
		t.Fatalf("%s:\nmodel   %+v\nmachine %+v (%v)", said, want, seen, got.Err)
	}
}

// compareState compares every task and worker.
func (r *modelRun) compareState() {
	tasks := r.model.sorted()
	page, err := ListTasks(r.tx, TaskFilter{Namespace: "default"}, "", MaxPage, r.model.now)
	if err != nil || page.Next != "" || len(page.Tasks) != len(tasks) {
		r.t.Fatalf("the machine has %d tasks, the model %d; %v", len(page.Tasks), len(tasks), err)
	}
	for i, want := range tasks {
		got := page.Tasks[i]
		if s, w := taskLine(&got), want.line(); s != w {
			r.t.Fatalf("task %d:\nmodel   %s\nmachine %s", i, w, s)
		}
		attempts := ListAttempts(r.tx, got.Ref())
		if len(attempts) != len(want.attempts) {
			r.t.Fatalf("task %d has %d attempts, the model %d", i, len(attempts), len(want.attempts))
		}
		for _, a := range attempts {
			w := want.attempts[a.Number]
			if w == nil || a.Token != w.token || a.Outcome != w.outcome || len(a.Late) != w.late {
				r.t.Fatalf("task %d attempt %d: model %+v, machine %+v", i, a.Number, w, a)
			}
		}
	}
	for name, w := range r.model.workers {
		got, ok := GetWorker(r.tx, name)
		if !ok || (mWorker{got.Boot, got.Slots, got.Lost, got.Draining}) != w {
			r.t.Fatalf("worker %s: model %+v, machine %+v", name, w, got)
		}
	}
}

func (t *mTask) line() string {
	return fmt.Sprint(t.id, t.job, t.priority, t.state, t.due, t.ended != 0, t.retry, t.cancel, t.attempt, t.retries, t.token, t.last, t.version, t.keyExpiry, t.wantDue, t.wantPriority, t.tooLate, t.queueBy, t.endBy)
}

func taskLine(t *Task) string {
	return fmt.Sprint(t.ID, t.Job, t.Policy.Priority, t.State, t.Due, t.Ended != 0, t.Retry, t.CancelRequested, t.Attempt, t.Retries, t.Token, t.LastToken, t.Version, t.KeyExpiry, t.WantDue, t.WantPriority, t.TooLate, t.QueueBy, t.EndBy)
}
