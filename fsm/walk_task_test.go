package fsm

import (
	"time"

	"github.com/axd-project/axd/job"
)

var taskDraws = []verbDraw{
	{CodeSubmit, 10, func(w *walk) Command { return w.submit() }},
	{CodeSubmitNow, 4, func(w *walk) Command { return w.submitNow() }},
	{CodeAssign, 22, func(w *walk) Command { return w.assign() }},
	{CodeStarted, 6, func(w *walk) Command { return w.started() }},
	{CodeFinished, 22, func(w *walk) Command { return w.finished() }},
	{CodeGiveBack, 3, func(w *walk) Command {
		return GiveBack{Attempts: []AttemptRef{w.attempt(), w.attempt()}, Reason: one(w, "", "full")}
	}},
	{CodeLoseAttempts, 3, func(w *walk) Command {
		return LoseAttempts{
			Term: w.leads(), Attempts: []AttemptRef{w.attempt()}, Unstarted: []AttemptRef{w.attempt()},
			Outcome: one(w, job.OutcomeLost, job.OutcomeTimeout), Reason: "lease",
		}
	}},
	{CodeTimeOut, 3, func(w *walk) Command {
		ref := w.task(func(t *Task) bool { return t.State == job.Pending && t.QueueBy|t.EndBy != 0 })
		t, _ := GetTask(w.tx, ref)
		return TimeOut{Term: w.leads(), Tasks: []TaskVersion{{ref, t.Version}}}
	}},
	{CodeCancel, 3, func(w *walk) Command {
		return Cancel{Ref: w.task(func(t *Task) bool { return w.chance(10) || !t.State.Terminal() }), Reason: one(w, "", "why")}
	}},
	{CodeReschedule, 3, func(w *walk) Command { return w.reschedule() }},
	{CodeExpire, 3, func(w *walk) Command { return Expire{EndedBefore: w.now - one[int64](w, 0, 5000, 3_600_000, -5000)} }},
	{CodeChecksum, 1, func(*walk) Command { return Checksum{} }},
	{CodeCallbackTried, 4, func(w *walk) Command {
		c, ok := some(w, rows[Callback](w, tableCallbacks), func(c *Callback) bool { return c.State == CallbackOwed })
		if !ok {
			return nil
		}
		return CallbackTried{Term: w.leads(), Ref: c.Ref(), Version: c.Version, OK: w.chance(60), Status: one(w, 0, 200, 500)}
	}},
	{CodeListFetched, 1, func(w *walk) Command { return ListFetched{Term: w.leads(), Ref: w.task(every), OK: w.chance(50)} }},
	{CodeRecordDone, 3, func(w *walk) Command {
		return RecordDone{AttemptRef: w.attempt(), Name: one(w, "mailed", "paid"), Value: []byte(one(w, "", `{"n":1}`))}
	}},
	{CodeBroadcast, 1, func(w *walk) Command {
		ref := w.task(func(t *Task) bool { return t.State == job.Pending })
		t, _ := GetTask(w.tx, ref)
		return Broadcast{Term: w.leads(), Ref: ref, Version: t.Version, Workers: []string{"w1", "w2"}}
	}},
	{CodeContinueBroadcast, 1, func(w *walk) Command { return ContinueBroadcast{Ref: w.task(every)} }},
	{CodeEndParts, 1, func(w *walk) Command {
		ref := w.task(func(t *Task) bool { return t.State == job.Pending })
		t, _ := GetTask(w.tx, ref)
		return EndParts{Term: w.leads(), Parts: []TaskVersion{{ref, t.Version}}}
	}},
	{CodeRedeliver, 1, func(w *walk) Command {
		c, ok := some(w, rows[Callback](w, tableCallbacks), every)
		if !ok {
			return nil
		}
		return Redeliver{Ref: c.Ref()}
	}},
}

var workerDraws = []verbDraw{
	{CodeRegisterWorker, 4, func(w *walk) Command {
		return RegisterWorker{
			Term: w.leads(), Name: one(w, "w1", "w2"), Boot: one(w, "b1", "b1", "b2"), Slots: 1 + w.rng.IntN(3),
			Labels: map[string]string{"zone": one(w, "a", "b"), "disk": "ssd"}, LeaseMS: 10_000,
		}
	}},
	{CodeWorkerState, 2, func(w *walk) Command {
		return WorkerState{Term: w.leads(), Name: one(w, "w1", "w2"), Alive: w.chance(80)}
	}},
	{CodeForgetWorker, 1, func(w *walk) Command { return ForgetWorker{Name: one(w, "w1", "w2", "w3")} }},
	{CodeDrainWorker, 1, func(w *walk) Command {
		return DrainWorker{Name: one(w, "w1", "w2"), Resume: w.chance(70), Deadline: one(w, 0, job.Duration(time.Minute))}
	}},
}

var deadDraws = []verbDraw{
	{CodeDeadLetters, 4, func(w *walk) Command {
		c := DeadLetters{Namespace: "default", Replay: w.chance(70)}
		if w.chance(30) {
			c.Filter = DeadFilter{Job: one(w, "", "j1"), To: w.now + 1}
			return c
		}
		c.IDs = []job.ID{w.task(func(t *Task) bool { return t.Dead }).ID, w.task(every).ID}
		return c
	}},
	{CodeCancelDeadAct, 1, func(w *walk) Command {
		return CancelDeadAct{Namespace: "default", ID: job.NewID(1, 2, 3)}
	}},
	{CodeContinueDead, 3, func(w *walk) Command { // see flood
		act, ok := some(w, rows[DeadAct](w, tableDeadActs), every)
		if !ok {
			return nil
		}
		return ContinueDead{ID: act.ID}
	}},
}

// task draws one that something is true of, or one that there isn't.
func (w *walk) task(holds func(*Task) bool) TaskRef {
	t, ok := some(w, w.allTasks(), holds)
	if !ok || w.chance(2) {
		return TaskRef{"default", job.NewID(1, 2, 3)}
	}
	return t.Ref()
}

// attempt draws a current one, mostly.
func (w *walk) attempt() AttemptRef {
	if t, ok := some(w, w.allTasks(), func(t *Task) bool { return t.State.Active() }); ok && w.chance(85) {
		return AttemptRef{t.Ref(), t.Token}
	}
	if len(w.old) > 0 {
		return one(w, w.old...)
	}
	return AttemptRef{Ref: w.task(every)}
}

func ms(n int64) *job.Duration { return new(job.Duration(n * int64(time.Millisecond))) }

// policy is that of a job or a task.
func (w *walk) policy() job.Policy {
	p := job.Policy{
		Priority: job.Priority(w.rng.IntN(4)),
		Retry:    &job.Retry{MaxRetries: new(w.rng.IntN(4)), Initial: *ms(300)},
	}
	if w.chance(30) {
		p.QueueTimeout, p.TotalTimeout = ms(one[int64](w, 0, 500, 4000)), ms(one[int64](w, 0, 5000))
	}
	switch w.rng.IntN(9) {
	case 0:
		p.Concurrency = &job.Concurrency{Max: 1 + w.rng.IntN(2), Name: one(w, "", "shared"), Key: one(w, "", "customer")}
	case 1:
		p.Rate = &job.Rate{Max: 1, Per: *ms(2000), Name: one(w, "", "api"), Key: one(w, "", "customer")}
	case 2:
		p.CallbackURL = one(w, "http://a.example/x", "http://b.example/x")
		p.CallbackSecret = one(w, "", "", "k1")
	case 3:
		p.CallbackJob, p.CallbackOn = "j2", one(w, nil, []string{"failed", "cancelled"})
	case 4:
		p.Compensation = "j2"
	case 5:
		p.FairnessKey, p.OnExhausted = one(w, "f1", "f2"), job.ExhaustedIgnore
	case 6:
		p.Retry.NonRetryable = &job.NonRetryable{Errors: []string{"fatal"}}
	}
	return p
}

func (w *walk) submit() Submit {
	c := Submit{Namespace: one(w, "default", "default", "default", "other")}
	for range 1 + w.rng.IntN(3) {
		s := job.TaskSpec{Payload: []byte(one(w, `{"customer":"c1"}`, `{"customer":"c2"}`, `1`)), Policy: w.policy()}
		if w.chance(60) {
			s.Job, s.Policy = one(w, "j1", "j2", "j3"), job.Policy{Priority: job.Priority(w.rng.IntN(4))}
		} else {
			s.Executor = job.Executor{Handler: one(w, "h1", "h2")}
		}
		switch w.rng.IntN(4) {
		case 0:
			s.Delay = *ms(w.rng.Int64N(4000))
		case 1:
			s.Due = w.now + w.rng.Int64N(12_000) - 2000
		}
		if w.chance(30) {
			s.IdempotencyKey = one(w, "k1", "k2", "k3")
			s.IdempotencyPolicy = one(w, "", job.IdempotencyReturn, job.IdempotencyReject, job.IdempotencyReplace)
			switch w.rng.IntN(3) {
			case 0:
				s.IdempotencyWindow = *ms(3000)
			case 1:
				s.IdempotencyPeriod = job.Duration(time.Hour)
			}
		}
		if w.chance(20) {
			s.UniqueKey = one(w, "u1", "u2")
		}
		c.Tasks = append(c.Tasks, s)
	}
	return c
}

func (w *walk) submitNow() Command {
	s := w.submit()
	b, err := EncodeCommand(s)
	if err != nil {
		w.fatalf("%v", err)
	}
	c := SubmitNow{Term: w.leads(), Submit: b}
	for i := range s.Tasks {
		name := one(w, "w1", "w2")
		worker, _ := GetWorker(w.tx, name)
		c.Workers = append(c.Workers, WorkerLife{name, one(w, worker.Boot, worker.Boot, "b0")})
		c.To = append(c.To, one(w, i+1, i+1, 0))
	}
	return c
}

func (w *walk) assign() Command {
	c := Assign{Term: w.leads()}
	for range 1 + w.rng.IntN(3) {
		ref := w.task(func(t *Task) bool { return t.State == job.Pending && (t.Due <= w.now+MaxEarly || w.chance(5)) })
		t, _ := GetTask(w.tx, ref)
		name := one(w, "w1", "w2")
		worker, _ := GetWorker(w.tx, name)
		if w.chance(4) {
			t.Version++
		}
		c.Items = append(c.Items, AssignItem{Ref: ref, Version: t.Version, Worker: name, Boot: worker.Boot})
	}
	return c
}

func (w *walk) started() Command {
	return Started{AttemptRef: w.attempt(), At: w.now - w.rng.Int64N(500)}
}

func (w *walk) finished() Command {
	r := AttemptResult{
		Outcome: one(w, job.OutcomeSuccess, job.OutcomeSuccess, job.OutcomeFailed, job.OutcomeFailed, job.OutcomeTimeout, job.OutcomeLost, job.OutcomeCancelled),
		Started: w.now - w.rng.Int64N(500), Output: []byte(one(w, "", `{"n":1}`)), Stderr: []byte(one(w, "", "oh")),
	}
	if r.Outcome == job.OutcomeFailed {
		r.ExitCode, r.Error = new(one(w, 1, 3)), one(w, "", "broken")
		r.Class = one(w, "", "fatal")
		r.RetryMS = one[int64](w, 0, 0, 0, 900, -1)
	}
	return Finished{AttemptRef: w.attempt(), Result: r}
}

func (w *walk) reschedule() Command {
	c := Reschedule{Ref: w.task(func(t *Task) bool { return !t.State.Terminal() }), Priority: job.Priority(w.rng.IntN(4))}
	switch w.rng.IntN(3) {
	case 0:
		c.Now = true
	case 1:
		c.Due = w.now + w.rng.Int64N(9000)
	}
	return c
}
