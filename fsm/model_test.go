package fsm

import (
	"cmp"
	"maps"
	"slices"

	"github.com/axd-project/axd/job"
)

// model is the state machine written a second time, as plainly as it goes: Go
// maps, no rows, no indexes, no counters. TestModel holds the two together.
type model struct {
	now, index, term int64
	offset           uint32
	jobs             map[string]mJob
	tasks            map[job.ID]*mTask
	keys             map[string]mKey
	workers          map[string]mWorker
}

type mJob struct {
	version  uint64
	spec     string // the handler's name: it stands for the whole spec
	priority job.Priority
	retries  int
}

type mKey struct {
	id      job.ID
	content string
	expiry  int64
}

type mWorker struct {
	boot           string
	slots          int
	lost, draining bool
}

type mAttempt struct {
	token   job.Token
	outcome job.Outcome
	late    int
	report  string // the error text: it stands for the whole report
}

type mTask struct {
	id                  job.ID
	job                 string
	priority            job.Priority
	ownRetries          *int
	state               job.State
	due, ended          int64
	retry, cancel       bool
	attempt             uint32
	retries             int
	token, last         job.Token
	worker              string
	version             uint64
	keyExpiry           int64
	attempts            map[uint32]*mAttempt
	dispatched, started int64
	wantDue             int64
	wantPriority        job.Priority
	tooLate             bool
	unique              string
	queue, total        int64 // time-outs of its own, ms
	queueBy, endBy      int64
	key                 string
	discarded           bool
	limited             bool // by the one concurrency limit that there is
}

// mResult is what the model predicts of a result.
type mResult struct {
	code    job.Code // of an error; empty: none
	items   []mResult
	id      job.ID // Submit
	dedup   bool
	attempt uint32 // Assign
	token   job.Token
	state   job.State // of the task in the result
	version uint64    // PutJob
	changed bool
	deleted int
}

func newModel() *model {
	return &model{jobs: map[string]mJob{}, tasks: map[job.ID]*mTask{}, keys: map[string]mKey{}, workers: map[string]mWorker{}}
}

func refused(c job.Code) mResult { return mResult{code: c} }

// retryDelay is the delay before every retry in the model's runs.
const retryDelay = 700

func (m *model) next() uint32 { m.offset++; return m.offset - 1 }

func (m *model) begin(index, term, at int64) {
	m.index, m.term, m.offset = index, term, 0
	m.now = max(m.now, at)
}

func (m *model) apply(c Command) mResult {
	switch c := c.(type) {
	case drawnBy:
		return m.apply(c.inner)
	case PutJob:
		return m.putJob(c)
	case DeleteJob:
		return m.deleteJob(c)
	case Submit:
		var r mResult
		for i := range c.Tasks {
			r.items = append(r.items, m.submit(&c.Tasks[i], "", ""))
		}
		return r
	case SubmitNow:
		return m.submitNow(c)
	case Assign:
		return m.assign(c)
	case Started:
		return m.startedReport(c)
	case Finished:
		return m.finishedReport(c)
	case GiveBack:
		var r mResult
		for _, ref := range c.Attempts {
			r.items = append(r.items, m.giveBack(ref))
		}
		return r
	case LoseAttempts:
		return m.lose(c)
	case TimeOut:
		return m.timeOut(c)
	case Cancel:
		return m.cancel(c)
	case Reschedule:
		return m.reschedule(c)
	case DeadLetters:
		return m.deadLetters(c)
	case Expire:
		return m.expire(c)
	}
	return m.applyWorker(c)
}

func (m *model) putJob(c PutJob) mResult {
	j := m.jobs[c.Name]
	retries := 5
	if c.Spec.Retry != nil {
		retries = c.Spec.Retry.Max()
	}
	if j.version > 0 && j.spec == c.Spec.Handler && j.priority == c.Spec.Priority && j.retries == retries {
		return mResult{version: j.version}
	}
	m.jobs[c.Name] = mJob{version: j.version + 1, spec: c.Spec.Handler, priority: c.Spec.Priority, retries: retries}
	return mResult{version: j.version + 1, changed: true}
}

func (m *model) deleteJob(c DeleteJob) mResult {
	if m.jobs[c.Name].version == 0 {
		return refused(job.CodeNotFound)
	}
	for _, t := range m.tasks {
		if t.job == c.Name && !t.state.Terminal() {
			return refused(job.CodeConflict)
		}
	}
	delete(m.jobs, c.Name)
	return mResult{changed: true}
}

func (m *model) submitNow(c SubmitNow) mResult {
	inner, err := decodeCommand(newCodec(), c.Submit)
	if err != nil {
		panic(err)
	}
	var r mResult
	for i, s := range inner.(*Submit).Tasks {
		worker, boot := "", ""
		if int64(c.Term) == m.term {
			to := c.Workers[c.To[i]-1]
			worker, boot = to.Name, to.Boot
		}
		r.items = append(r.items, m.submit(&s, worker, boot))
	}
	return r
}

// submit creates a task, and gives it to the worker that is named, where it can.
func (m *model) submit(s *job.TaskSpec, worker, boot string) mResult {
	j, ok := m.jobs[s.Job]
	if s.Job != "" && !ok {
		return refused(job.CodeNotFound)
	}
	answer, replaced := m.admit(s)
	if answer != nil {
		return *answer
	}
	t := &mTask{
		id: job.NewID(m.now, uint64(m.index), m.next()), job: s.Job, state: job.Pending, version: 1,
		priority: cmp.Or(s.Priority, j.priority, job.Normal),
		due:      max(m.now, s.Due, m.now+s.Delay.Milliseconds()), attempts: map[uint32]*mAttempt{},
		unique: s.UniqueKey, key: s.IdempotencyKey, limited: s.Concurrency != nil,
	}
	if replaced != nil {
		replaced.state, replaced.retry, replaced.ended, replaced.keyExpiry = job.Cancelled, false, m.now, m.now
		replaced.version++
	}
	if s.Retry != nil {
		t.ownRetries = new(s.Retry.Max())
	}
	t.queue, t.total = s.QueueTimeoutOrDefault().Milliseconds(), s.TotalTimeoutOrDefault().Milliseconds()
	t.limit(true)
	if s.IdempotencyKey != "" {
		window := int64(24 * 3600 * 1000)
		if s.IdempotencyWindow != 0 {
			window = s.IdempotencyWindow.Milliseconds()
		}
		t.keyExpiry = m.now + window
		m.keys[s.IdempotencyKey] = mKey{t.id, string(s.Payload) + s.UniqueKey, t.keyExpiry}
	}
	m.tasks[t.id] = t
	if m.takes(worker, boot) && t.due <= m.now && !t.limited {
		t.version-- // written once
		m.give(t, worker)
	}
	return mResult{id: t.id, state: t.state}
}

func (m *model) takes(worker, boot string) bool {
	w, ok := m.workers[worker]
	return ok && w.boot == boot && !w.lost && !w.draining
}

func (m *model) give(t *mTask, worker string) {
	t.state, t.retry, t.tooLate, t.worker = job.Dispatched, false, false, worker
	t.attempt++
	t.version++
	t.token = job.Token{Index: uint64(m.index), Offset: m.next()}
	t.last = t.token
	t.dispatched, t.started = m.now, 0
	t.attempts[t.attempt] = &mAttempt{token: t.token}
	if t.attempt > 20 {
		delete(t.attempts, t.attempt-20)
	}
}

func (m *model) assign(c Assign) mResult {
	if int64(c.Term) != m.term {
		return refused(job.CodeStale)
	}
	var r mResult
	for _, item := range c.Items {
		t := m.tasks[item.Ref.ID]
		if t == nil || t.state != job.Pending || t.version != item.Version || t.due > m.now+MaxEarly || !m.takes(item.Worker, item.Boot) || !m.room(t) {
			r.items = append(r.items, refused(job.CodeStale))
			continue
		}
		m.give(t, item.Worker)
		r.items = append(r.items, mResult{attempt: t.attempt, token: t.token})
	}
	return r
}

// current finds the task of a token.
func (m *model) current(ref AttemptRef) (*mTask, job.Code) {
	t := m.tasks[ref.Ref.ID]
	switch {
	case t == nil:
		return nil, job.CodeNotFound
	case ref.Token.IsZero() || t.token != ref.Token:
		return t, job.CodeStale
	}
	return t, ""
}

func (m *model) startedReport(c Started) mResult {
	t, code := m.current(c.AttemptRef)
	if code != "" {
		return refused(code)
	}
	if t.state != job.Running {
		t.state, t.started = job.Running, min(max(c.At, t.dispatched), m.now)
		t.dropWish()
		t.version++
	}
	return mResult{state: t.state}
}

func (m *model) finishedReport(c Finished) mResult {
	t, code := m.current(c.AttemptRef)
	if t == nil {
		return refused(code)
	}
	if code == "" {
		m.end(t, c.Result.Outcome, c.Result.Error, retryDelay)
		return mResult{state: t.state}
	}
	for _, a := range t.attempts {
		if a.token == c.Token && !c.Token.IsZero() {
			if a.outcome == c.Result.Outcome && a.report == c.Result.Error {
				return mResult{state: t.state}
			}
			a.late = min(a.late+1, 3)
		}
	}
	return refused(code)
}

// end ends the current attempt.
func (m *model) end(t *mTask, o job.Outcome, report string, delay int64) {
	a := t.attempts[t.attempt]
	a.outcome, a.report = o, report
	t.token = job.Token{}
	t.dropWish()
	t.version++
	limit := m.jobs[t.job].retries
	if t.job == "" {
		limit = 5
	}
	if t.ownRetries != nil {
		limit = *t.ownRetries
	}
	switch {
	case o == job.OutcomeSuccess:
		t.state = job.Success
	case o == job.OutcomeCancelled || t.cancel:
		t.state = job.Cancelled
	case t.retries < limit && t.endBy != 0 && m.now+delay >= t.endBy:
		t.state = job.TimedOut
	case t.retries < limit:
		t.retries++
		t.state, t.retry, t.due = job.Pending, true, m.now+delay
		t.limit(false)
	case o == job.OutcomeTimeout:
		t.state = job.TimedOut
	default:
		t.state = job.Failed
	}
	if t.state.Terminal() {
		t.ended = m.now
	}
}

// dropWish forgets a reschedule that came too late.
func (t *mTask) dropWish() {
	t.tooLate = t.tooLate || t.wantDue != 0 || t.wantPriority != 0
	t.wantDue, t.wantPriority = 0, 0
}

func (m *model) giveBack(ref AttemptRef) mResult {
	t, code := m.current(ref)
	if code != "" {
		return refused(code)
	}
	if t.state == job.Running {
		t.attempts[t.attempt].outcome = job.OutcomeRefused
	} else {
		delete(t.attempts, t.attempt)
		t.attempt--
	}
	t.moveTo(t.wantDue)
	t.priority = cmp.Or(t.wantPriority, t.priority)
	t.wantDue, t.wantPriority = 0, 0
	t.token = job.Token{}
	t.version++
	t.state, t.retry = job.Pending, t.retries > 0
	if t.cancel {
		t.state, t.retry, t.ended = job.Cancelled, false, m.now
	}
	return mResult{}
}

func (m *model) lose(c LoseAttempts) mResult {
	if int64(c.Term) != m.term {
		return refused(job.CodeStale)
	}
	var r mResult
	for _, ref := range c.Attempts {
		t, code := m.current(ref)
		if code == "" {
			delay := int64(0)
			if c.Outcome == job.OutcomeTimeout {
				delay = retryDelay
			}
			m.end(t, c.Outcome, c.Reason, delay)
		}
		r.items = append(r.items, mResult{code: code})
	}
	for _, ref := range c.Unstarted {
		t, code := m.current(ref)
		switch {
		case code != "":
		case t.state == job.Running:
			code = job.CodeStale
		default:
			m.giveBack(ref)
		}
		r.items = append(r.items, mResult{code: code})
	}
	return r
}

func (m *model) cancel(c Cancel) (r mResult) {
	t := m.tasks[c.Ref.ID]
	switch {
	case t == nil:
		return refused(job.CodeNotFound)
	case t.state.Terminal():
		return refused(job.CodeConflict)
	case !t.cancel:
		defer func() { r.changed = true }()
		t.cancel = true
		t.wantDue, t.wantPriority = 0, 0
		t.version++
		if t.state == job.Pending {
			t.state, t.retry, t.ended = job.Cancelled, false, m.now
		}
	}
	return mResult{state: t.state}
}

func (m *model) reschedule(c Reschedule) mResult {
	t := m.tasks[c.Ref.ID]
	if t == nil {
		return refused(job.CodeNotFound)
	}
	due, priority := int64(0), c.Priority
	if c.Now || c.Due != 0 || c.Delay != 0 {
		due = max(m.now, c.Due, m.now+c.Delay.Milliseconds())
	}
	switch {
	case t.cancel, t.state != job.Pending && (t.state != job.Dispatched || t.due <= m.now):
		return refused(job.CodeConflict)
	case t.state == job.Dispatched:
		due, priority = cmp.Or(due, t.wantDue), cmp.Or(priority, t.wantPriority)
		changed := due != t.wantDue || priority != t.wantPriority
		if changed {
			t.version++
		}
		t.wantDue, t.wantPriority = due, priority
		return mResult{state: t.state, changed: changed}
	}
	t.tooLate = false
	due, priority = cmp.Or(due, t.due), cmp.Or(priority, t.priority)
	changed := due != t.due || priority != t.priority
	if changed {
		t.version++
	}
	if c.Now || c.Due != 0 || c.Delay != 0 {
		t.moveTo(due)
	}
	t.priority = priority
	return mResult{state: t.state, changed: changed}
}

// expire has no limit: the runs stay below maxFanOut rows.
func (m *model) expire(c Expire) mResult {
	var r mResult
	maps.DeleteFunc(m.tasks, func(_ job.ID, t *mTask) bool {
		if t.dead() {
			return false // a dead letter: the runs are shorter than its retention
		}
		if t.state.Terminal() && max(t.ended, t.keyExpiry) < min(c.EndedBefore, m.now) {
			maps.DeleteFunc(m.keys, func(_ string, k mKey) bool { return k.id == t.id })
			r.deleted++
			return true
		}
		return false
	})
	return r
}

// sorted lists the tasks by id.
func (m *model) sorted() []*mTask {
	return slices.SortedFunc(maps.Values(m.tasks), func(a, b *mTask) int { return slices.Compare(a.id[:], b.id[:]) })
}
