package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// Explained is what only the leader's memory knows of a task.
type Explained struct {
	Version uint64 // of the task's record that it is about; 0: there is none
	Reasons []job.Reason
}

// quorumError is the error of a server that knows of no leader and of too few voters
// for one.
type quorumError struct{ cause *job.Error }

// NoQuorum builds it; why is a phrase.
func NoQuorum(why string) error { return &quorumError{job.Errorf(job.CodeNoLeader, why)} }

func (e *quorumError) Error() string { return e.cause.Error() }
func (e *quorumError) Unwrap() error { return e.cause }

const (
	explainTime  = time.Second // to ask the leader once
	explainTries = 3           // while the task changes between the leader's look and this server's
)

// explaining is a task whose reasons are put together.
type explaining struct {
	v      fsm.Reader
	task   fsm.Task
	policy job.Policy // the job's and the task's, merged
	kind   string     // of its executor
	now    int64
	found  []job.Reason
	pause  *fsm.Pause // of its job
	owes   bool       // its callback is owed, which only a leader sends
}

func (q *explaining) add(r job.Reason) { q.found = append(q.found, r) }

// recordReasons find what a task's own record tells, each a group of reasons.
// What is new adds itself here; the order is that of job.SortReasons.
var recordReasons = []func(*explaining){explainStep, explainBroadcast, explainTimes, explainWishes, explainDeadline, explainEnd, explainCallback}

func (a *api) explainTask(r *request) error {
	ref, wrong := r.taskRef()
	if wrong != nil {
		return wrong
	}
	var q *explaining
	var leader Explained
	var absent error
	for range explainTries {
		leader, absent = a.askLeader(r.ctx, ref)
		var err error
		if q, err = a.explainRecord(r, ref, absent); err != nil {
			return err
		}
		if absent != nil || q.task.Version == leader.Version || q.task.State.Terminal() {
			break
		}
	}
	out := client.Explanation{Stale: r.stale || absent != nil}
	if absent != nil && (!q.task.State.Terminal() || q.owes) {
		q.add(leaderReason(absent))
	}
	if !q.task.State.Terminal() {
		q.found = append(q.found, leader.Reasons...)
	}
	job.SortReasons(q.found)
	out.ID, out.Namespace, out.Job = q.task.ID.String(), q.task.Namespace, q.task.Job
	out.State = string(job.Show(q.task.State, q.task.Due, q.task.Retry, q.now))
	out.App, out.Owner, out.At = q.policy.App, q.policy.Owner, at(q.now)
	out.Schedule, out.NominalTime = q.task.Schedule, instant(q.task.Nominal)
	out.Reasons = showReasons(q.found, out.ID)
	return write(r, http.StatusOK, out)
}

func (a *api) askLeader(ctx context.Context, ref fsm.TaskRef) (Explained, error) {
	ctx, cancel := context.WithTimeout(ctx, explainTime)
	defer cancel()
	return a.backend.Explain(ctx, ref)
}

// explainRecord reads the task. Where no leader answered, it takes what this
// server has: an answer is wanted most where the cluster is in trouble.
func (a *api) explainRecord(r *request, ref fsm.TaskRef, absent error) (*explaining, error) {
	q := &explaining{}
	err := a.backend.Read(r.ctx, r.stale || absent != nil, func(v fsm.Reader) error {
		t, ok := fsm.GetTask(v, ref)
		switch {
		case !ok && errors.Is(absent, job.ErrNoLeader):
			return absent // it may have been created at another server
		case !ok:
			return job.NotFound("id", ref.ID.String())
		}
		*q = explaining{v: v, task: t, policy: t.Policy, now: a.backend.Now()}
		if t.Job != "" {
			if j, ok := fsm.GetJob(v, t.Namespace, t.Job); ok {
				q.policy, q.kind, q.pause = j.Spec.Policy.Merge(t.Policy), j.Spec.Kind(), j.Paused
			}
		} else if body, ok := fsm.BodyOf(v, &t); ok {
			q.kind = body.Executor.Kind()
		}
		for _, look := range recordReasons {
			look(q)
		}
		return nil
	})
	return q, err
}

// leaderReason says why the leader could not be asked.
func leaderReason(err error) job.Reason {
	var few *quorumError
	switch {
	case errors.As(err, &few):
		return job.Reason{
			Code: job.ReasonNoQuorum, Text: "No server leads, and none can: " + few.cause.Rule + ".",
			Next: "Start the missing servers or mend the network between them; for servers that are gone for good see 'axd cluster recover'.",
		}
	case errors.Is(err, job.ErrNoLeader):
		return job.Reason{
			Code: job.ReasonNoLeader, Text: "No leader answers, so nothing is assigned and no result is recorded. What is armed starts all the same.",
			Next: "Wait: one is elected within seconds. If not, 'axd cluster status' tells which servers answer.",
		}
	}
	return job.Reason{
		Code: job.ReasonLeaderSilent, Text: "The leader did not say what it knows, such as which workers match: " + job.AsError(err).Rule + ".",
		Next: "Ask again in a moment.",
	}
}

func showReasons(found []job.Reason, id string) []client.Reason {
	out := make([]client.Reason, 0, len(found))
	for _, f := range found {
		r := client.Reason{
			Code: string(f.Code), Text: f.Text, Next: strings.ReplaceAll(f.Next, job.ReasonTask, id), Since: instant(f.Since), Until: instant(f.Until), Worker: f.Worker,
			Workers: f.Workers, Slots: f.Slots, AheadAtLeast: f.AtLeast, Outcome: f.Outcome.String(),
			ExitCode: f.ExitCode, Callback: f.Callback, LastStatus: f.Status,
		}
		switch f.Code {
		case job.ReasonNoSlot, job.ReasonQueued:
			r.Ahead = new(f.Ahead)
		case job.ReasonCallbackOwed:
			r.Ahead, r.Tries = new(f.Ahead), new(f.Tries)
		case job.ReasonCallbackDead:
			r.Tries = new(f.Tries)
		case job.ReasonRetriesSpent, job.ReasonRetrying, job.ReasonNotRetryable:
			r.RetriesUsed = new(f.RetriesUsed)
		}
		for _, u := range f.Unmet {
			r.Unmet = append(r.Unmet, client.Unmet{Constraint: u.Constraint, Workers: u.Workers})
		}
		out = append(out, r)
	}
	return out
}
