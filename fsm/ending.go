package fsm

import (
	"encoding/binary"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"

	"github.com/axd-project/axd/internal/mutant"
	"github.com/axd-project/axd/job"
)

// endAttempt ends the current attempt of the active task old and decides what
// becomes of the task. It returns the task after the change.
//
// Success counts even where a cancel was asked for: the work is done. Otherwise
// a wish to cancel wins over a retry, which is due at once or after its back-off.
func (a *apply) endAttempt(old *Task, r AttemptResult, atOnce bool) *Task {
	t := new(Task)
	*t = *old
	at := a.currentAttempt(old)
	if r.Started != 0 {
		at.Started = within(r.Started, max(at.Assigned, old.Due), a.now)
	}
	at.Ended = a.now
	if r.Ended != 0 {
		at.Ended = within(r.Ended, max(at.Assigned, at.Started), a.now)
	}
	at.Outcome, at.Result = r.Outcome, r
	a.putAttempt(t.Ref(), at)

	t.Started, t.Token = at.Started, job.Token{}
	t.dropWish()
	t.ExitCode = r.ExitCode
	switch {
	case r.Outcome == job.OutcomeSuccess:
		t.Error = ""
		t.end(job.Success, at.Ended)
	case r.Outcome == job.OutcomeCancelled || t.CancelRequested:
		if !t.CancelRequested { // else the error tells who asked for it
			t.Error = r.Error
		}
		t.end(job.Cancelled, at.Ended)
	default:
		t.Error = failure(t, r)
		a.retry(t, &r, at.Ended, atOnce)
	}
	a.write(old, t)
	a.judge(t, &r)
	a.event(Event{Kind: EventAttemptEnded, Task: t, Outcome: r.Outcome, Worker: old.Worker, Token: old.Token})
	a.settled(t)
	return t
}

// settled reports where a task went when it left a worker.
func (a *apply) settled(t *Task) {
	if t.State.Terminal() {
		a.event(Event{Kind: EventEnded, Task: t})
		return
	}
	a.event(Event{Kind: EventPending, Task: t})
}

func (t *Task) end(s job.State, at int64) {
	t.State, t.Ended, t.Retry = s, at, false
	t.WantDue, t.WantPriority = 0, 0
}

// retry sends a failed task back to pending, or ends it when its retries are
// spent or its policy says that another attempt would fail alike.
func (a *apply) retry(t *Task, res *AttemptResult, ended int64, atOnce bool) {
	policy := a.policy(t)
	r := policy.RetryOrDefault()
	t.MaxRetries = r.Max()
	if t.Retries < t.MaxRetries && !a.futile(t, &r, res) {
		due := a.now
		switch {
		case atOnce:
		case res.RetryMS > 0:
			due = min(a.now+r.Wanted(res.RetryMS).Milliseconds(), job.MaxTime)
		default:
			due = min(a.now+r.Delay(t.Retries+1, draw(t.ID, t.Attempt)).Milliseconds(), job.MaxTime)
		}
		if t.EndBy != 0 && due >= t.EndBy {
			t.outOfTime(&policy, ended)
			return
		}
		if mutant.CacheInApply {
			due += int64(len(a.jobs))
		}
		if !mutant.RetriesForgotten {
			t.Retries++
		}
		t.State, t.Retry, t.Due = job.Pending, true, due
		t.QueueBy = policy.QueueTimeoutOrDefault().Until(due)
		return
	}
	if res.Outcome == job.OutcomeTimeout {
		t.end(job.TimedOut, ended)
		return
	}
	t.end(job.Failed, ended)
}

// futile reports whether no attempt is to follow a failure, by the worker's word
// or by the filter of the retry rule.
func (a *apply) futile(t *Task, r *job.Retry, res *AttemptResult) bool {
	if res.RetryMS < 0 {
		return true
	}
	return r.NonRetryable != nil && r.NonRetryable.Matches(a.kind(t), res.ExitCode, job.ErrorClass(res.Outcome, res.Class))
}

// kind is that of the task's executor.
func (a *apply) kind(t *Task) string {
	if t.Job == "" {
		kind, _, _ := strings.Cut(t.Offer, ":")
		return kind
	}
	if j, ok := a.job(t.Namespace, t.Job); ok {
		return j.Spec.Kind()
	}
	return ""
}

// draw returns a number in [0, 1) for the jitter of a retry: the same on every
// server, another one for every attempt.
func draw(id job.ID, attempt uint32) float64 {
	var b [idLen + 4]byte
	copy(b[:], id[:])
	binary.BigEndian.PutUint32(b[idLen:], attempt)
	const mantissa = 53
	return float64(xxhash.Sum64(b[:])>>(64-mantissa)) / (1 << mantissa)
}

// failure says in words why an attempt did not succeed.
func failure(t *Task, r AttemptResult) string {
	switch {
	case r.Outcome == job.OutcomeLost:
		s := "attempt " + strconv.FormatUint(uint64(t.Attempt), 10) + " was lost with worker " + t.Worker
		if r.Error != "" {
			s += ": " + r.Error
		}
		return cut(s)
	case r.Error != "":
		return r.Error
	case r.Outcome == job.OutcomeTimeout:
		return "timed out"
	case r.ExitCode != nil:
		return "exit code " + strconv.Itoa(*r.ExitCode)
	}
	return "failed"
}

// bound cuts what an attempt leaves behind to its limits. Of the tails the last
// bytes stay. An output over the limit is dropped whole, since a part of it
// would not be what the job returned.
func bound(r *AttemptResult) {
	r.Stdout, r.Stderr = tail(r.Stdout), tail(r.Stderr)
	if n := len(r.Output); n > MaxOutputBytes {
		r.Output = nil
		if r.Error == "" {
			r.Error = "the output of " + strconv.Itoa(n) + " bytes was dropped: at most " + strconv.Itoa(MaxOutputBytes)
		}
	}
	r.Error = cut(r.Error)
	if !job.ValidErrorClass(r.Class) {
		r.Class = ""
	}
}

func tail(b []byte) []byte { return b[max(0, len(b)-MaxTailBytes):] }

// cut makes s valid UTF-8 of at most MaxErrorBytes.
func cut(s string) string {
	limit := MaxErrorBytes
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
