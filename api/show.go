package api

import (
	"context"
	"encoding/json"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// taskView shows tasks with what other records know of them: the address of the
// worker, and the app and owner that a task leaves to its job.
type taskView struct {
	v       fsm.Reader
	now     int64
	workers map[string]string
	jobs    map[string]job.Policy
}

func (a *api) taskView(v fsm.Reader) *taskView {
	return &taskView{v: v, now: a.backend.Now(), workers: map[string]string{}, jobs: map[string]job.Policy{}}
}

func (s *taskView) show(t fsm.Task) client.Task {
	out := showTask(t, s.now)
	if t.Worker != "" {
		address, known := s.workers[t.Worker]
		if !known {
			w, _ := fsm.GetWorker(s.v, t.Worker)
			address = w.Address
			s.workers[t.Worker] = address
		}
		out.WorkerAddress = address
	}
	if t.Job != "" {
		policy, known := s.jobs[t.Job]
		if !known {
			j, _ := fsm.GetJob(s.v, t.Namespace, t.Job)
			policy = j.Spec.Policy
			s.jobs[t.Job] = policy
		}
		p := policy.Merge(t.Policy)
		out.App, out.Owner = p.App, p.Owner
		out.CallbackURL, out.CallbackJob, out.CallbackOn, out.CallbackSecret = p.CallbackURL, p.CallbackJob, p.CallbackOn, p.CallbackSecret
	}
	return out
}

// showChanged shows a task that a command answered. What other records add comes
// from what this server has: the command is done, whatever a read says.
func (a *api) showChanged(ctx context.Context, t fsm.Task) client.Task {
	out := showTask(t, a.backend.Now())
	if t.Job == "" && t.Worker == "" {
		return out
	}
	_ = a.backend.Read(ctx, true, func(v fsm.Reader) error {
		out = a.taskView(v).show(t)
		return nil
	})
	return out
}

// showTask shows what a task's own record says; now is the cluster's clock.
func showTask(t fsm.Task, now int64) client.Task {
	out := client.Task{
		ID:              t.ID.String(),
		Namespace:       t.Namespace,
		Job:             t.Job,
		Step:            t.Step,
		Schedule:        t.Schedule,
		NominalTime:     instant(t.Nominal),
		Item:            t.Item,
		State:           string(job.Show(t.State, t.Due, t.Retry, now)),
		Priority:        t.Policy.Priority.String(),
		ExecuteTime:     instant(t.Due),
		CreatedAt:       at(t.Created),
		DispatchedAt:    instant(t.Dispatched),
		StartedAt:       instant(t.Started),
		FinishedAt:      instant(t.Ended),
		ExitCode:        t.ExitCode,
		RetryCount:      t.Retries,
		MaxRetries:      t.MaxRetries,
		LastError:       t.Error,
		Attempt:         int(t.Attempt),
		Worker:          t.Worker,
		IdempotencyKey:  t.IdempotencyKey,
		UniqueKey:       t.UniqueKey,
		FairnessKey:     t.FairnessKey,
		ConcurrencyKey:  t.ConcurrencyKey,
		RateKey:         t.RateKey,
		CancelRequested: t.CancelRequested,

		Armed:               t.State == job.Dispatched && t.Due > now,
		RescheduleRequested: t.Wished(),
		RescheduleTooLate:   t.TooLate,
		DeadLetter:          t.Dead,

		App:   t.Policy.App,
		Owner: t.Policy.Owner,

		CallbackURL: t.Policy.CallbackURL,
		CallbackJob: t.Policy.CallbackJob,
		CallbackOn:  t.Policy.CallbackOn,

		CallbackSecret: t.Policy.CallbackSecret,
	}
	if !t.Run.IsZero() {
		out.Run = t.Run.String()
	}
	if t.Extra != nil {
		showExtra(&out, &t)
	}
	if !t.CallbackOf.IsZero() {
		out.CallbackOf = t.CallbackOf.String()
	}
	if !t.Compensates.IsZero() {
		out.Compensates = t.Compensates.String()
	}
	if !t.CompensatedBy.IsZero() {
		out.CompensatedBy = t.CompensatedBy.String()
	}
	if t.Started != 0 && t.Ended != 0 {
		d := job.Duration(time.Duration(t.Ended-t.Started) * time.Millisecond)
		out.Duration = &d
	}
	return out
}

// showAttempt is one dispatch as the API shows it.
func showAttempt(a fsm.Attempt) client.Attempt {
	out := client.Attempt{
		Number:        int(a.Number),
		Worker:        a.Worker,
		WorkerAddress: a.Address,
		Token:         a.Token.String(),
		JobVersion:    a.JobVersion,
		DispatchedAt:  at(a.Assigned),
		StartedAt:     instant(a.Started),
		FinishedAt:    instant(a.Ended),
		Outcome:       a.Outcome.String(),
		ExitCode:      a.Result.ExitCode,
		Error:         a.Result.Error,
		ErrorClass:    job.ErrorClass(a.Outcome, a.Result.Class),
		StdoutTail:    string(a.Result.Stdout),
		StderrTail:    string(a.Result.Stderr),
		Output:        showOutput(a.Result.Output),
	}
	// The worker's report of the end tells; without one it isn't known.
	if a.Started != 0 && a.Outcome != 0 && a.Outcome != job.OutcomeLost {
		late := a.Result.LateStart
		out.LateMS = &late
	}
	for _, l := range a.Late {
		out.LateResults = append(out.LateResults, client.LateResult{At: at(l.At), Outcome: l.Outcome.String(), Error: l.Error})
	}
	return out
}

// showOutput returns an attempt's output as JSON: itself where it is JSON, else
// as a string.
func showOutput(b []byte) json.RawMessage {
	if len(b) == 0 {
		return nil
	}
	if json.Valid(b) {
		return b
	}
	s, err := json.Marshal(string(b))
	if err != nil {
		return nil // a string always has a JSON form
	}
	return s
}

// showJob is a job's definition in its newest version.
func showJob(j fsm.Job) client.Job {
	out := client.Job{
		Namespace: j.Namespace, Name: j.Name, Spec: j.Spec, Version: j.Version,
		CreatedAt: instant(j.Created), UpdatedAt: instant(j.Updated), FileSet: j.FileSet,
	}
	if p := j.Paused; p != nil {
		out.Paused = &client.Pause{At: at(p.At), Reason: p.Reason, Actor: p.Actor}
	}
	return out
}

// The states of a worker.
const (
	workerAlive    = "alive"
	workerSuspect  = "suspect"
	workerLost     = "lost"
	workerDraining = "draining"
	workerStopped  = "stopped"
)

// showWorker joins what state holds of a worker with what else is known of it. Whether
// it is lost is decided by its lease and is state; the rest is a hint, so a worker
// that only gossip calls lost is suspect. But one that said goodbye to
// gossip has stopped: nobody else can say that.
func showWorker(w fsm.Worker, running, armed int, opinion string, seen time.Time) client.Worker {
	out := client.Worker{
		Name: w.Name, Address: w.Address, State: workerAlive, Running: running, Armed: armed, Slots: w.Slots,
		Labels: w.Labels, Version: w.Version, StartedAt: instant(w.Registered), Priorities: w.Priorities,
		Draining: w.Draining, DrainDeadline: instant(w.DrainBy),
	}
	switch {
	case opinion == workerStopped:
		out.State = workerStopped
	case w.Lost:
		out.State = workerLost
	case opinion == workerSuspect || opinion == workerLost:
		out.State = workerSuspect
	case w.Draining:
		out.State = workerDraining
	}
	if !seen.IsZero() {
		seen = seen.UTC().Truncate(time.Millisecond)
		out.LastSeen = &seen
	}
	return out
}

// at is a point in time of state, in UTC.
func at(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// instant is at for a time that may not have come.
func instant(ms int64) *time.Time {
	if ms == 0 {
		return nil
	}
	t := at(ms)
	return &t
}
