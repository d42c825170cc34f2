package fsm

import (
	"cmp"
	"slices"
	"strings"

	"github.com/axd-project/axd/job"
)

// MaxBreakers bounds the breakers that are kept. Beyond it the closed one that has
// not changed for the longest time makes room; where all are open a new one isn't
// counted.
const MaxBreakers = 1000

// The kinds of breaker.
const (
	BreakerWorker    = "worker"     // of a worker, whatever it runs
	BreakerWorkerJob = "worker_job" // of a worker and a job
	BreakerTarget    = "target"     // of what HTTP requests go to
)

// BreakerKey names a breaker.
type BreakerKey struct {
	Kind      string
	Worker    string // of BreakerWorker and BreakerWorkerJob
	Namespace string // of BreakerWorkerJob
	Job       string // of BreakerWorkerJob
	Target    string // of BreakerTarget
}

// Breaker counts failures in a row. There is one where there are some; the first
// success deletes it.
type Breaker struct {
	Kind      string `msgpack:"k"`
	Worker    string `msgpack:"w,omitempty"`
	Namespace string `msgpack:"n,omitempty"`
	Job       string `msgpack:"j,omitempty"`
	Target    string `msgpack:"t,omitempty"`
	Failures  int    `msgpack:"f"`
	OpenUntil int64  `msgpack:"u,omitempty"` // Unix ms; 0: closed; passed: half open
	Opened    int    `msgpack:"o,omitempty"` // times in a row
	Changed   int64  `msgpack:"c"`           // Unix ms
	Error     string `msgpack:"e,omitempty"` // of the latest failure
	// Of is what failed, of BreakerWorker: a job, or a task without one. It opens
	// when several have, so that one bad job doesn't take the worker from others.
	Of      string `msgpack:"O,omitempty"`
	Several bool   `msgpack:"s,omitempty"`
}

// Key names the breaker.
func (b *Breaker) Key() BreakerKey {
	return BreakerKey{b.Kind, b.Worker, b.Namespace, b.Job, b.Target}
}

func (k key) breaker(b BreakerKey) key {
	return k.table(tableBreakers).name(b.Kind).name(b.Worker).name(b.Namespace).name(b.Job).name(b.Target)
}

// ListBreakers reads all breakers, by kind and subject.
func ListBreakers(r Reader) (out []Breaker) {
	c := codecs.Get().(*codec)
	defer codecs.Put(c)
	r.Ascend(key{tableBreakers}, tableEnd(tableBreakers), func(k, v []byte) bool {
		var b Breaker
		mustDecode(c, k, v, &b)
		out = append(out, b)
		return true
	})
	return out
}

// known are the breakers of the state, read once.
func (a *apply) knownBreakers() map[BreakerKey]Breaker {
	if a.breakers == nil {
		a.breakers = map[BreakerKey]Breaker{}
		for _, b := range ListBreakers(a.tx) {
			a.breakers[b.Key()] = b
		}
	}
	return a.breakers
}

// judge counts how an attempt of the task ended for the breakers that it concerns.
// What the cluster or a user ended says nothing.
func (a *apply) judge(t *Task, r *AttemptResult) {
	known := a.knownBreakers()
	switch r.Outcome {
	case job.OutcomeSuccess:
		if len(known) == 0 {
			return // so it costs nothing where nothing fails
		}
	case job.OutcomeFailed, job.OutcomeTimeout:
	default:
		return
	}
	failed := r.Outcome != job.OutcomeSuccess
	target, answered := a.target(t), false
	if target != "" {
		answered = r.ExitCode != nil
		a.tell(BreakerKey{Kind: BreakerTarget, Target: target}, failed && (!answered || job.TargetFailed(*r.ExitCode)), t.Error, "")
	}
	failed = failed && !answered // an answer shows that the worker works
	of := t.Namespace + "/" + t.Job
	if t.Job == "" {
		of = t.Namespace + "/" + t.ID.String()
	}
	a.tell(BreakerKey{Kind: BreakerWorker, Worker: t.Worker}, failed, t.Error, of)
	if t.Job != "" {
		a.tell(BreakerKey{Kind: BreakerWorkerJob, Worker: t.Worker, Namespace: t.Namespace, Job: t.Job}, failed, t.Error, "")
	}
}

// target is where a task's request goes; empty: it makes none.
func (a *apply) target(t *Task) string {
	if t.Job != "" {
		if j, ok := a.job(t.Namespace, t.Job); ok {
			return j.Spec.HTTP.Target()
		}
		return ""
	}
	if t.Offer != job.KindHTTP {
		return ""
	}
	b, _ := BodyOf(a.tx, t)
	return b.Executor.HTTP.Target()
}

// tell counts one outcome for one breaker.
func (a *apply) tell(k BreakerKey, failed bool, text, of string) {
	b, ok := a.breakers[k]
	switch {
	case !failed && ok:
		a.dropBreaker(b)
		return
	case !failed, b.OpenUntil > a.now: // of attempts that began before it opened
		return
	case !ok:
		if len(a.breakers) >= MaxBreakers && !a.evictBreaker() {
			return
		}
		b = Breaker{Kind: k.Kind, Worker: k.Worker, Namespace: k.Namespace, Job: k.Job, Target: k.Target}
	}
	if k.Kind == BreakerWorker {
		b.Several = b.Several || b.Of != "" && b.Of != of
		b.Of = of
	}
	b.Failures++
	b.Changed, b.Error = a.now, text
	if b.Failures >= job.BreakerFailures && (b.Several || k.Kind != BreakerWorker) {
		b.Opened++
		b.OpenUntil = a.now + job.BreakerPause(b.Opened).Milliseconds()
	}
	a.breakers[k] = b
	a.key = a.key.breaker(k)
	a.set(a.key, mustEncode(a.codec, &b))
	if b.OpenUntil > 0 {
		a.event(Event{Kind: EventBreaker, Breaker: &b})
	}
}

func (a *apply) dropBreaker(b Breaker) {
	k := b.Key()
	delete(a.breakers, k)
	a.key = a.key.breaker(k)
	a.delete(a.key)
	if b.OpenUntil > 0 {
		b.OpenUntil = 0
		a.event(Event{Kind: EventBreaker, Breaker: &b})
	}
}

// evictBreaker drops the closed one that has not changed for the longest time.
func (a *apply) evictBreaker() bool {
	var oldest Breaker
	for _, b := range a.breakers {
		if b.OpenUntil == 0 && (oldest.Kind == "" || compareBreakers(b, oldest) < 0) {
			oldest = b
		}
	}
	if oldest.Kind == "" {
		return false
	}
	a.dropBreaker(oldest)
	return true
}

// compareBreakers orders by the last change, then by key, so that every server
// picks the same.
func compareBreakers(a, b Breaker) int {
	return cmp.Or(cmp.Compare(a.Changed, b.Changed), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Worker, b.Worker),
		strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Job, b.Job), strings.Compare(a.Target, b.Target))
}

// forgetBreakers drops those that a change of their worker or job has overtaken.
func (a *apply) forgetBreakers(of func(Breaker) bool) {
	var gone []Breaker
	for _, b := range a.knownBreakers() {
		if of(b) {
			gone = append(gone, b)
		}
	}
	slices.SortFunc(gone, compareBreakers)
	for _, b := range gone {
		a.dropBreaker(b)
	}
}

func (c *checker) breaker(k, v []byte) {
	b, ok := record[Breaker](c, k, v)
	if !ok {
		return
	}
	c.breakers++
	c.want(string(k) == string(key{}.breaker(b.Key())), "breaker %+v: under the key %x", b.Key(), k)
	c.want(b.Failures > 0 && (b.OpenUntil > 0) == (b.Failures >= job.BreakerFailures && (b.Several || b.Kind != BreakerWorker)) && (b.Opened > 0) == (b.OpenUntil > 0),
		"breaker %+v: %d failures, opened %d times, open until %d", b.Key(), b.Failures, b.Opened, b.OpenUntil)
	c.want(c.breakers <= MaxBreakers, "more than %d breakers", MaxBreakers)
	if b.Worker != "" {
		c.want(c.has(key{}.worker(b.Worker)), "breaker of worker %s: it does not exist", b.Worker)
	}
}
