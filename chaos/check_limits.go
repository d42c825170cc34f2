package chaos

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// limitWatch counts, entry by entry, the valid attempts under each limit, and the
// tasks of each unique key.
type limitWatch struct {
	*check
	active map[int]map[string]bool // of limitedJob, by key
	unique map[string]map[string]bool
	begun  []int64 // attempts of ratedJob, by the cluster's clock
}

func newLimitWatch(c *check) *limitWatch {
	return &limitWatch{check: c, active: map[int]map[string]bool{}, unique: map[string]map[string]bool{}}
}

func (w *limitWatch) done(fsm.Reader) {
	const most = rateMax + rateBurst - 1
	slices.Sort(w.begun)
	for i := most; i < len(w.begun); i++ {
		if span := w.begun[i] - w.begun[i-most]; span < ratePer.Milliseconds() {
			w.broken("%d attempts of job %s began within %d ms from %d on: %v allows %d", most+1, ratedJob, span, w.begun[i-most], ratePer, most)
		}
	}
}

func (w *limitWatch) see(entry []change) {
	for i := range entry {
		w.one(&entry[i])
	}
}

func (w *limitWatch) one(ch *change) {
	id := ch.is.ID.String()
	began := !ch.is.Token.IsZero() && ch.is.Token != ch.was.Token
	switch ch.is.Job {
	case ratedJob:
		if began {
			w.begun = append(w.begun, ch.is.Dispatched)
		}
	case limitedJob:
		body, _ := fsm.BodyOf(ch.view, &ch.is)
		key := limitKey(string(body.Payload))
		held := member(w.active, key, id, !ch.is.Token.IsZero())
		if began && held > keyLimit {
			w.broken("entry %d gives task %s an attempt, with which %d of key %d are valid: the limit is %d", ch.index, id, held, key, keyLimit)
		}
	}
	if k := ch.is.UniqueKey; k != "" {
		if live := member(w.unique, k, id, !ch.is.State.Terminal()); live > 1 && !ch.is.State.Terminal() {
			w.broken("at entry %d %d tasks of the unique key %s have not ended", ch.index, live, k)
		}
	}
}

// member puts an id into a set, or takes it out, and returns how many are there.
func member[K comparable](sets map[K]map[string]bool, k K, id string, in bool) int {
	if sets[k] == nil {
		sets[k] = map[string]bool{}
	}
	if in {
		sets[k][id] = true
	} else {
		delete(sets[k], id)
	}
	return len(sets[k])
}

func limitKey(payload string) int {
	var b behaviour
	_ = json.Unmarshal([]byte(payload), &b) // what is none has no key
	return b.Key
}

// sweep: as workers saw it, no more attempts of a key ran at a time than may, but for
// those of processes that were held.
func (c *check) sweep() {
	byKey := map[int][]Attempt{}
	for _, a := range c.Attempts {
		if a.Job == limitedJob && !a.Frozen {
			k := limitKey(a.Payload)
			byKey[k] = append(byKey[k], a)
		}
	}
	for key, list := range byKey {
		slices.SortFunc(list, func(a, b Attempt) int { return cmp.Compare(a.Start.UnixNano(), b.Start.UnixNano()) })
		var running []Attempt
		for _, a := range list {
			running = slices.DeleteFunc(running, func(r Attempt) bool { return !r.End.IsZero() && !r.End.After(a.Start) })
			if running = append(running, a); len(running) > keyLimit {
				c.broken("%d attempts of key %d ran at %s: the limit is %d; the last is %s of task %s",
					len(running), key, clock(a.Start), keyLimit, a, a.Task)
			}
		}
	}
}

// breakerWatch counts failures in a row of each worker and job: those of attempts that
// end while the breaker is open began before, and don't count.
type breakerWatch struct {
	*check
	failures map[breakerOf]int
	open     map[breakerOf]int64 // until when, by the cluster's clock
	boots    map[string]string   // of workers
}

type breakerOf struct{ worker, job string }

const (
	breakAfter = 5      // failures in a row open a breaker
	breakFor   = 30_000 // ms, twice as long each time in a row
	breakMost  = 300_000
)

func newBreakerWatch(c *check) *breakerWatch {
	return &breakerWatch{check: c, failures: map[breakerOf]int{}, open: map[breakerOf]int64{}, boots: map[string]string{}}
}

func (w *breakerWatch) see(entry []change) {
	for i := range entry {
		w.one(&entry[i])
	}
}

func (w *breakerWatch) one(ch *change) {
	if ch.was.Token.IsZero() || ch.is.Token == ch.was.Token {
		return
	}
	if at, ok := fsm.GetAttempt(ch.view, ch.was.Ref(), ch.was.Attempt); ok {
		w.reborn(ch.view, at.Worker)
		w.ended(breakerOf{at.Worker, ch.was.Job}, at.Outcome, ch.at)
	}
}

func (w *breakerWatch) ended(of breakerOf, as job.Outcome, now int64) {
	switch {
	case as == job.OutcomeSuccess:
		delete(w.failures, of)
		delete(w.open, of)
	case as != job.OutcomeFailed && as != job.OutcomeTimeout || w.open[of] > now:
	default:
		w.failures[of]++
		if again := w.failures[of] - breakAfter; again >= 0 {
			w.open[of] = now + int64(min(breakFor<<min(again, breakAfter), breakMost))
		}
	}
}

// reborn forgets the failures of a worker that was started again.
func (w *breakerWatch) reborn(v fsm.Reader, name string) {
	is, ok := fsm.GetWorker(v, name)
	if !ok || w.boots[name] == is.Boot {
		return
	}
	w.boots[name] = is.Boot
	for k := range w.failures {
		if k.worker == name {
			delete(w.failures, k)
			delete(w.open, k)
		}
	}
}

func (w *breakerWatch) done(v fsm.Reader) {
	list := fsm.ListBreakers(v)
	for i := range list {
		w.reborn(v, list[i].Worker)
	}
	w.compare(list)
}

// compare: the state has the breakers that follow from the attempts.
func (w *breakerWatch) compare(list []fsm.Breaker) {
	held := map[breakerOf]fsm.Breaker{}
	for _, b := range list {
		if b.Kind == fsm.BreakerWorkerJob {
			held[breakerOf{b.Worker, b.Job}] = b
		}
	}
	for of, n := range w.failures {
		b := held[of]
		if b.Failures != n {
			w.broken("job %s has failed %d times in a row on worker %s, and its breaker counts %d", of.job, n, of.worker, b.Failures)
		}
		if n >= breakAfter && b.OpenUntil == 0 {
			w.broken("job %s has failed %d times in a row on worker %s, and its breaker is closed", of.job, n, of.worker)
		} else if n >= breakAfter && b.OpenUntil != w.open[of] {
			w.broken("the breaker of job %s on worker %s is open until %s: by its failures until %s", of.job, of.worker, stamp(b.OpenUntil), stamp(w.open[of]))
		}
		delete(held, of)
	}
	for of, b := range held {
		if b.Failures > 0 {
			w.broken("the breaker of job %s on worker %s counts %d failures that no attempt shows", of.job, of.worker, b.Failures)
		}
	}
}
