package fsm

import (
	"math"

	"github.com/axd-project/axd/job"
)

func (r *rowReader) task(t *Task) {
	r.fields(func(name byte) {
		switch name {
		case 'n':
			t.Namespace = r.name()
		case 'i':
			t.ID = r.id()
		case 'v':
			t.Version = r.uint()
		case 's':
			t.State = job.State(r.within(math.MaxUint8)) //nolint:gosec // bounded
		case 'j':
			t.Job = r.name()
		case 'K':
			t.Offer = r.name()
		case 'p':
			r.fields(func(name byte) { r.policyField(name, &t.Policy) })
		case 'd':
			t.Due = r.int()
		case 'r':
			t.Retry = r.bool()
		case 'c':
			t.Created = r.int()
		case 'D':
			t.Dispatched = r.int()
		case 'S':
			t.Started = r.int()
		case 'e':
			t.Ended = r.int()
		default:
			r.taskRest(name, t)
		}
	})
}

func (r *rowReader) taskRest(name byte, t *Task) {
	switch name {
	case 'a':
		t.Attempt = uint32(r.within(math.MaxUint32)) //nolint:gosec // bounded
	case 'R':
		t.Retries = int(r.int())
	case 'M':
		t.MaxRetries = int(r.int())
	case 'k':
		t.Token = r.token()
	case 'l':
		t.LastToken = r.token()
	case 'w':
		t.Worker = r.name()
	case 'x':
		t.ExitCode = r.intPtr()
	case 'E':
		t.Error = r.str()
	case 'y':
		t.IdempotencyKey = r.str()
	case 'Y':
		t.KeyExpiry = r.int()
	case 'O':
		t.KeyPeriod = r.str()
	case 'U':
		t.UniqueKey = r.str()
	case 'q':
		t.CancelRequested = r.bool()
	case 'b':
		t.HasBody = r.bool()
	case 'B':
		t.Body = r.bytes()
	case 'A':
		t.Limited = r.bool()
	case '8':
		t.FairnessKey = r.str()
	case 'G':
		t.ConcurrencyKey = r.str()
	case 'H':
		t.RateKey = r.str()
	case 'J':
		t.Holds = r.str()
	case 'u':
		t.WantDue = r.int()
	case 'P':
		t.WantPriority = r.priority()
	case 'L':
		t.TooLate = r.bool()
	case 'X':
		t.Dead = r.bool()
	case 'C':
		t.Compensates = r.id()
	case 'Z':
		t.CompensatedBy = r.id()
	case 'W':
		t.QueueBy = r.int()
	case 'T':
		t.EndBy = r.int()
	default:
		r.taskLinks(name, t)
	}
}

// taskLinks reads what belongs to a task, and what it belongs to.
func (r *rowReader) taskLinks(name byte, t *Task) {
	switch name {
	case '1':
		t.Callback = r.uint()
	case '2':
		t.CallbackOf = r.id()
	case '3':
		t.Run = r.id()
	case '4':
		t.Step = r.str()
	case '5':
		t.Schedule = r.name()
	case '6':
		t.Nominal = r.int()
	case '7':
		t.Item = uint32(r.within(math.MaxUint32)) //nolint:gosec // bounded
	case 'o':
		t.FiredBy = FireOrigin(r.within(math.MaxUint8)) //nolint:gosec // bounded
	case '9':
		r.tagged(&t.Extra)
	default:
		r.fail()
	}
}

func (r *rowReader) priority() job.Priority {
	return job.Priority(r.within(math.MaxUint8)) //nolint:gosec // bounded
}

func (r *rowReader) policyField(name byte, p *job.Policy) {
	switch name {
	case 'a':
		p.App = r.name()
	case 'o':
		p.Owner = r.name()
	case 'p':
		p.Priority = r.priority()
	case 't':
		p.Timeout = r.duration()
	case 'g':
		p.Grace = r.duration()
	case 'Y':
		p.Idempotent = new(r.bool())
	case 'Q':
		p.QueueTimeout = r.duration()
	case 'Z':
		p.TotalTimeout = r.duration()
	case 'H':
		p.HeartbeatTimeout = r.duration()
	case 'r':
		r.tagged(&p.Retry)
	case 's':
		r.tagged(&p.Selector)
	case 'w':
		r.tagged(&p.Route)
	case 'c':
		r.tagged(&p.SuccessCodes)
	case 'M':
		r.tagged(&p.Concurrency)
	case 'R':
		r.tagged(&p.Rate)
	case 'n':
		p.OnDisconnect = job.OnDisconnect(r.name())
	case 'X':
		p.OnExhausted = job.OnExhausted(r.name())
	case 'C':
		p.Compensation = r.name()
	case '4':
		p.CallbackSecret = r.name()
	case '5':
		p.FairnessKey = r.str()
	case '1':
		p.CallbackURL = r.name()
	case '2':
		p.CallbackJob = r.name()
	case '3':
		r.tagged(&p.CallbackOn)
	default:
		r.fail()
	}
}

func (r *rowReader) executorField(name byte, x *job.Executor) {
	switch name {
	case 'x':
		r.tagged(&x.Exec)
	case 'h':
		r.tagged(&x.HTTP)
	case 'f':
		x.Handler = r.name()
	default:
		r.fail()
	}
}

func (r *rowReader) body(b *Body) {
	r.fields(func(name byte) {
		switch name {
		case 'x':
			r.fields(func(name byte) { r.executorField(name, &b.Executor) })
		case 'p':
			b.Payload = r.bytes()
		default:
			r.fail()
		}
	})
}

func (r *rowReader) attempt(a *Attempt) {
	r.fields(func(name byte) {
		switch name {
		case 'n':
			a.Number = uint32(r.within(math.MaxUint32)) //nolint:gosec // bounded
		case 'w':
			a.Worker = r.name()
		case 'b':
			a.Boot = r.name()
		case 'a':
			a.Address = r.name()
		case 'k':
			a.Token = r.token()
		case 'v':
			a.JobVersion = r.uint()
		case 'A':
			a.Assigned = r.int()
		case 'S':
			a.Started = r.int()
		case 'e':
			a.Ended = r.int()
		case 'o':
			a.Outcome = r.outcome()
		case 'r':
			r.attemptResult(&a.Result)
		case 'L':
			r.tagged(&a.Late)
		default:
			r.fail()
		}
	})
}

func (r *rowReader) outcome() job.Outcome {
	return job.Outcome(r.within(math.MaxUint8)) //nolint:gosec // bounded
}

func (r *rowReader) attemptResult(a *AttemptResult) {
	r.fields(func(name byte) {
		switch name {
		case 'o':
			a.Outcome = r.outcome()
		case 'c':
			a.ExitCode = r.intPtr()
		case 'e':
			a.Error = r.str()
		case 's':
			a.Started = r.int()
		case 'd':
			a.Ended = r.int()
		case 'O':
			a.Stdout = r.bytes()
		case 'E':
			a.Stderr = r.bytes()
		case 'u':
			a.Output = r.bytes()
		case 'l':
			a.LateStart = r.int()
		case 'C':
			a.Class = r.name()
		case 'r':
			a.RetryMS = r.int()
		default:
			r.fail()
		}
	})
}

func (r *rowReader) ref(t *TaskRef) {
	r.fields(func(name byte) {
		switch name {
		case 'n':
			t.Namespace = r.name()
		case 'i':
			t.ID = r.id()
		default:
			r.fail()
		}
	})
}
