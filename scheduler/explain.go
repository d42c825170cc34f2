package scheduler

import (
	"context"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// explainers find reasons that only this memory knows, each a group of them. What
// is new adds itself before explainWorkers, which says that it is its turn where
// nothing else was found. They are told in the order of job.SortReasons.
var explainers = []func(*loop, *asked){
	explainRestored,
	explainPriority,
	explainBreakers,
	explainLimits,
	explainWorkers,
	explainAttempt,
}

// Explanation is what the leader's memory knows of why a task isn't running.
type Explanation struct {
	Version uint64 // of the task's record that it is about; 0: there is none
	Reasons []job.Reason
}

// asked is a task whose reasons are looked for.
type asked struct {
	r      fsm.Reader
	task   *fsm.Task
	policy job.Policy // the job's and the task's, merged
	shape  shape
	now    int64
	mono   time.Duration
	found  []job.Reason
}

func (q *asked) add(reason job.Reason) { q.found = append(q.found, reason) }

// due reports whether the task waits for nothing but a worker.
func (q *asked) due() bool { return q.task.State == job.Pending && q.task.Due <= q.now }

// Explain asks the loop, which must lead, why a task isn't running.
func (s *Scheduler) Explain(ctx context.Context, ref fsm.TaskRef) (Explanation, error) {
	answer := make(chan Explanation, 1)
	if !s.inbox.put(func(l *loop) { answer <- l.explain(ref) }) {
		return Explanation{}, job.Errorf(job.CodeNoLeader, "this server does not lead; ask the leader")
	}
	select {
	case e := <-answer:
		return e, nil
	case <-ctx.Done():
		return Explanation{}, job.Errorf(job.CodeTimeout, "the leader is busy and did not say in time")
	}
}

func (l *loop) explain(ref fsm.TaskRef) Explanation {
	r, release := l.read()
	defer release()
	t, ok := fsm.GetTask(r, ref)
	if !ok {
		return Explanation{}
	}
	q := &asked{r: r, task: &t, shape: l.shape(r, &t), now: l.cfg.Now(), mono: l.cfg.Mono()}
	q.policy, _, _ = l.policy(r, &t)
	for _, look := range explainers {
		look(l, q)
	}
	return Explanation{Version: t.Version, Reasons: q.found}
}

// at turns a moment of the monotonic clock into the cluster's time.
func (q *asked) at(mono time.Duration) int64 { return q.now + (mono - q.mono).Milliseconds() }
