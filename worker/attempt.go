package worker

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/axd-project/axd/internal/mutant"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
)

// ended is what an executor knows of an attempt's end.
type ended struct {
	outcome  job.Outcome
	exitCode *int
	err      string
	started  time.Duration // local; 0: never started
	ended    time.Duration // local
	stdout   []byte
	stderr   []byte
	output   []byte
	class    string // of the error
	retryMS  int64  // to the next attempt; 0: by the job's rule; below 0: never
	giveBack string // why it was not run to its end; no result then
	settle   func() // to be called once the result is safe; nil: nobody waits for that
}

func failed(text string) ended { return ended{outcome: job.OutcomeFailed, err: text} }

// notStarted is a failure before anything ran.
func notStarted(text string) ended {
	return ended{outcome: job.OutcomeFailed, err: text, class: job.ClassStart}
}

// dispatch judges one attempt that the leader sent, and starts it, arms it, or says
// why it is given back. now is the cluster's time.
func (w *Worker) dispatch(item *rpc.DispatchItem, now time.Duration) {
	if why := checkRef(item.Ref); why != "" {
		w.log.Error("dispatch refused", "reason", why)
		return // it can't even be given back
	}
	a := &attempt{item: *item}
	var err error
	why := ""
	switch a.executor, err = w.known.decode(item.Executor); {
	case err != nil:
		why = "the executor could not be decoded; the worker may run an older axd: " + err.Error()
	case !w.offers(a.executor):
		why = "the worker does not offer the executor " + a.executor.Kind() + " " + a.executor.Handler
	}
	if why != "" {
		w.giveBack(item.Ref, why)
		return
	}
	if a.executor.Handler == "" {
		a.hub = newHub(&w.heads)
	}
	if a.executor.Exec != nil {
		a.dir = w.dir.attempt(item.Ref)
	}
	a.ctx, a.cancel = context.WithCancelCause(context.Background())
	v, old := w.table.accept(a, a.due() > now)
	w.judged(a, v, old)
}

// judged does what the table has decided of an attempt, which may take an older
// one's place.
func (w *Worker) judged(a *attempt, v verdict, old *attempt) {
	item := &a.item
	if old != nil && v != verdictReplace && v != verdictDuplicate && v != verdictDraining {
		old.hub.close()
		w.giveBack(old.item.Ref, "a newer attempt has come")
	}
	switch v {
	case verdictStart:
		go w.runAttempt(a)
		return
	case verdictArmed:
		w.setAlarm()
		return
	case verdictDuplicate:
		w.log.Info("second dispatch of an attempt dropped", refAttrs(item.Ref, item.Job)...)
	case verdictReplace:
		w.log.Info("older attempt is stopped for a newer one", refAttrs(old.item.Ref, item.Job)...)
		w.table.stop(old, stopStale)
		return // it waits for the older one's end
	case verdictNoSlot:
		w.giveBack(item.Ref, "no free slot")
	case verdictTooManyArmed:
		w.giveBack(item.Ref, fmt.Sprintf("%d attempts wait for their time already", maxArmed))
	case verdictDraining:
		w.giveBack(item.Ref, "the worker drains")
	}
	a.cancel(nil)
}

// checkRef guards what becomes a file name.
func checkRef(ref rpc.Ref) string {
	if job.ValidateName("namespace", ref.Namespace) != nil {
		return "the namespace is malformed: " + job.Shorten(ref.Namespace)
	}
	if ref.Token.IsZero() {
		return "the token is missing"
	}
	return ""
}

func (w *Worker) offers(x job.Executor) bool {
	switch x.Kind() {
	case "exec", "http":
		return w.cfg.Exec
	case "handler":
		return w.handlers[x.Handler] != nil
	}
	return false
}

// giveBack returns an attempt that never had a slot.
func (w *Worker) giveBack(ref rpc.Ref, why string) {
	if w.log.Enabled(context.Background(), slog.LevelDebug) { // a worker without room may give back by the thousand
		w.log.Debug("attempt given back", append(refAttrs(ref, ""), "reason", why)...)
	}
	if !w.table.add(spooled{Ref: ref, GiveBack: why}) {
		w.log.Warn("too much is owed to the leader; a give-back is dropped", refAttrs(ref, "")...)
	}
}

// revoke gives back attempts that are armed; others have started.
func (w *Worker) revoke(refs []rpc.Ref) {
	for _, ref := range refs {
		if w.table.disarm(ref) {
			w.giveBack(ref, "revoked")
		}
	}
}

// kill ends an attempt, or withdraws one that waits for its time or turn.
func (w *Worker) kill(k rpc.Kill) {
	if k.Reason == rpc.KillDrain && w.table.disarm(k.Ref) {
		w.giveBack(k.Ref, "the worker drains")
		return
	}
	if w.table.disarm(k.Ref) {
		w.own(spooled{Ref: k.Ref, Result: encodeResult(rpc.AttemptResult{
			Outcome: uint8(outcomeOf(reasonOfKill(k.Reason))), Error: "ended before it started",
		})})
		return
	}
	a := w.table.find(k.Ref)
	if a == nil || k.Ref.Token.IsZero() {
		w.log.Debug("kill of an attempt that isn't held", refAttrs(k.Ref, "")...)
		return
	}
	w.table.stop(a, reasonOfKill(k.Reason))
}

func reasonOfKill(reason string) stopReason {
	switch reason {
	case rpc.KillTimeout:
		return stopTimeout
	case rpc.KillStale:
		return stopStale
	case rpc.KillDrain:
		return stopDrain
	}
	return stopCancel
}

// outcomeOf is the outcome of an attempt that was ended for a reason.
func outcomeOf(reason stopReason) job.Outcome {
	switch reason {
	case stopTimeout, stopTotal, stopSilent:
		return job.OutcomeTimeout
	case stopCancel:
		return job.OutcomeCancelled
	}
	return job.OutcomeLost // nobody wanted the task to end: where its token counts after all, it is retried
}

// runAttempt takes an attempt from its slot to its result.
func (w *Worker) runAttempt(a *attempt) {
	defer w.table.running.Done()
	defer a.cancel(nil)
	e := w.perform(a)
	w.watch.remove(a)
	w.table.release(a)
	s := spooled{Ref: a.item.Ref, GiveBack: e.giveBack}
	if e.giveBack == "" {
		s.Result = encodeResult(w.result(a, e))
	}
	// What never started need not be remembered: the leader sends it again.
	if e.giveBack == "" || e.started != 0 {
		w.keep(s)
	}
	if e.settle != nil {
		e.settle()
	}
	w.logEnd(a, e)
	next, v := w.table.settle(a, s, w.clock.at(w.cfg.Clock()))
	if next != nil {
		w.judged(next, v, nil)
	}
	a.hub.close() // after settle: who followed waits for what is owed
	if a.dir != "" {
		if err := a.dir.remove(); err != nil {
			w.log.Warn("an attempt's directory could not be removed", "error", err)
		}
	}
}

// keep puts what will be owed on disk, where there is one. Where that fails it is
// in memory alone, as the journal says.
func (w *Worker) keep(s spooled) {
	if w.journal != nil && !mutant.ResultUnkept {
		_ = w.journal.put(s)
	}
}

// own owes a result that no executor made.
func (w *Worker) own(s spooled) {
	w.keep(s)
	w.table.add(s)
}

// perform runs the attempt unless something forbids its start at this instant.
func (w *Worker) perform(a *attempt) ended {
	if a.adopted != nil {
		return w.unlessDrained(a, w.goOn(a))
	}
	if reason := w.table.reasonOf(a); reason != stopNone {
		return unstarted(reason)
	}
	a.began = w.cfg.Clock()
	if !w.lease.valid(a.began) {
		return unstarted(stopLease)
	}
	if a.limit = w.timeLimit(a); a.limit.passed() {
		return unstarted(a.limit.reason())
	}
	if a.dir != "" {
		ref := a.item.Ref
		err := a.dir.take(startLock{
			Namespace: ref.Namespace, ID: ref.ID, Attempt: ref.Attempt, Token: tokenOf(ref),
			MachineBoot: machineBoot(), WorkerBoot: w.boot,
		})
		if err != nil {
			// The table lets no attempt in twice, so a taken lock is a directory that
			// could not be removed.
			return notStarted("start lock: " + err.Error())
		}
	}
	var e ended
	switch a.executor.Kind() {
	case "exec":
		e = w.runExec(a)
	case "http":
		e = w.runInProcess(a, w.web.run)
	default:
		e = w.runInProcess(a, w.runHandler)
	}
	return w.unlessDrained(a, e)
}

// unlessDrained gives an attempt back that was ended since the worker stops.
func (w *Worker) unlessDrained(a *attempt, e ended) ended {
	if reason := w.table.reasonOf(a); reason == stopDrain && e.outcome != job.OutcomeSuccess && e.giveBack == "" {
		e.giveBack = stopCause(stopDrain).Error()
	}
	return e
}

// unstarted is the end of an attempt that was stopped before it started.
func unstarted(reason stopReason) ended {
	switch reason {
	case stopDrain, stopLease, stopGone:
		return ended{giveBack: stopCause(reason).Error()}
	}
	return ended{outcome: outcomeOf(reason), err: "ended before it started: " + stopCause(reason).Error()}
}

// begun notes that an attempt runs since a local instant.
func (w *Worker) begun(a *attempt, at time.Duration) {
	w.table.markStarted(a, w.startTime(a, at))
	w.watch.add(a, at, &w.lease)
	if level := a.logLevel(); w.log.Enabled(context.Background(), level) {
		w.log.Log(context.Background(), level, "attempt started", refAttrs(a.item.Ref, a.item.Job)...)
	}
}

// logLevel is at which the start and the good end of an attempt are logged. There
// may be thousands of handlers' attempts in a second.
func (a *attempt) logLevel() slog.Level {
	if a.executor.Handler != "" {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// startTime is an instant by the cluster's clock, in Unix ms. Nothing starts
// before it is due, so a bound before that is off, as after a change of leader.
func (w *Worker) startTime(a *attempt, at time.Duration) int64 {
	return max(w.clock.at(at).Milliseconds(), a.item.DueMS, 1)
}

func (w *Worker) result(a *attempt, e ended) rpc.AttemptResult {
	r := rpc.AttemptResult{
		Outcome: uint8(e.outcome), ExitCode: e.exitCode, Error: shorten(e.err, rpc.MaxErrorBytes),
		Stdout: e.stdout, Stderr: e.stderr, Output: e.output, Class: e.class, RetryMS: e.retryMS,
	}
	if e.started != 0 {
		// What was told of the start stands, though the clock is known better now.
		if r.Started = w.table.startedAt(a); r.Started == 0 {
			r.Started = w.startTime(a, e.started)
		}
		r.Ended = r.Started + max((e.ended-e.started).Milliseconds(), 0)
		r.LateStart = r.Started - a.item.DueMS
	}
	return r
}

func encodeResult(r rpc.AttemptResult) []byte {
	b, err := msgpack.Marshal(r)
	if err != nil {
		panic("encode a struct of plain fields: " + err.Error())
	}
	return b
}

// runInProcess runs an attempt that is a call in this process, with a context
// that ends at its time-out, at a kill, and before the lease's end.
func (w *Worker) runInProcess(a *attempt, run func(*attempt) ended) ended {
	w.begun(a, a.began)
	e := run(a)
	e.started, e.ended = a.began, w.cfg.Clock()
	return e
}

// success tells whether an exit code or status counts as success.
func (a *attempt) success(code int) bool {
	return job.Policy{SuccessCodes: a.item.SuccessCodes}.IsSuccess(a.executor.Kind(), code)
}

// keepOutput bounds what a job returned; a cut value would be worse than none.
func keepOutput(b []byte) (kept []byte, note string) {
	if len(b) > rpc.MaxOutputBytes {
		return nil, fmt.Sprintf("output of %d bytes is over the limit of %d and was not kept", len(b), rpc.MaxOutputBytes)
	}
	return b, ""
}

func refAttrs(ref rpc.Ref, jobName string) []any {
	attrs := []any{"task_id", job.ID(ref.ID).String(), "namespace", ref.Namespace, "attempt", ref.Attempt}
	if jobName != "" {
		attrs = append(attrs, "job", jobName)
	}
	return attrs
}

func (w *Worker) logEnd(a *attempt, e ended) {
	level := a.logLevel()
	if e.giveBack == "" && e.outcome != job.OutcomeSuccess {
		level = slog.LevelWarn
	}
	if !w.log.Enabled(context.Background(), level) {
		return
	}
	attrs := refAttrs(a.item.Ref, a.item.Job)
	if e.giveBack != "" {
		w.log.Log(context.Background(), level, "attempt given back", append(attrs, "reason", e.giveBack)...)
		return
	}
	attrs = append(attrs, "outcome", e.outcome.String(), "duration", e.ended-e.started)
	if e.exitCode != nil {
		attrs = append(attrs, "exit_code", *e.exitCode)
	}
	if e.err != "" {
		attrs = append(attrs, "error", shorten(e.err, 200))
	}
	w.log.Log(context.Background(), level, "attempt ended", attrs...)
}
