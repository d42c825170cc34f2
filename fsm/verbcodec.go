package fsm

import (
	"encoding/binary"

	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/axd-project/axd/job"
)

// Submit and Assign, which every task goes through, are encoded and read by hand
// as rows are, and so are results.

// appendVerb appends a command that is encoded by hand; ok is false for any other.
func (c *codec) appendVerb(b []byte, v Command) (_ []byte, ok bool) {
	switch v := v.(type) {
	case Submit:
		return c.appendSubmit(b, &v), true
	case *Submit:
		return c.appendSubmit(b, v), true
	case Assign:
		return appendAssign(b, &v), true
	case *Assign:
		return appendAssign(b, v), true
	}
	return b, false
}

func (w *rowWriter) array(name byte, n int) {
	w.field(name)
	w.b = binary.BigEndian.AppendUint32(append(w.b, msgpcode.Array32), uint32(n)) //nolint:gosec // bounded by the entry
}

func (c *codec) appendSubmit(b []byte, s *Submit) []byte {
	w := beginRow(b)
	w.str('n', s.Namespace)
	if len(s.Tasks) > 0 {
		w.array('t', len(s.Tasks))
	}
	for i := range s.Tasks {
		w.b = c.appendTaskSpec(w.b, &s.Tasks[i])
	}
	return w.end()
}

func (c *codec) appendTaskSpec(b []byte, t *job.TaskSpec) []byte {
	w := beginRow(b)
	w.str('J', t.Job)
	w.executor(c, &t.Executor)
	w.policy(c, &t.Policy)
	w.bytes('P', t.Payload)
	w.int('T', t.Due)
	w.int('L', int64(t.Delay))
	w.str('K', t.IdempotencyKey)
	w.int('W', int64(t.IdempotencyWindow))
	w.int('E', int64(t.IdempotencyPeriod))
	w.str('I', string(t.IdempotencyPolicy))
	w.str('U', t.UniqueKey)
	return w.end()
}

func (r *rowReader) submit(s *Submit) {
	r.fields(func(name byte) {
		switch name {
		case 'n':
			s.Namespace = r.name()
		case 't':
			s.Tasks = makeSlice[job.TaskSpec](r.arrayLen())
			for i := range s.Tasks {
				r.taskSpec(&s.Tasks[i])
			}
		default:
			r.fail()
		}
	})
}

func (r *rowReader) taskSpec(t *job.TaskSpec) {
	r.fields(func(name byte) {
		switch name {
		case 'J':
			t.Job = r.name()
		case 'x', 'h', 'f':
			r.executorField(name, &t.Executor)
		case 'P':
			t.Payload = r.bytes()
		case 'T':
			t.Due = r.int()
		case 'L':
			t.Delay = job.Duration(r.int())
		case 'K':
			t.IdempotencyKey = r.str()
		case 'W':
			t.IdempotencyWindow = job.Duration(r.int())
		case 'E':
			t.IdempotencyPeriod = job.Duration(r.int())
		case 'I':
			t.IdempotencyPolicy = job.IdempotencyPolicy(r.name())
		case 'U':
			t.UniqueKey = r.str()
		default:
			r.policyField(name, &t.Policy)
		}
	})
}

func (w *rowWriter) ref(name byte, t TaskRef) {
	w.field(name)
	ref := beginRow(w.b)
	ref.str('n', t.Namespace)
	ref.field('i')
	w.b = appendBytes(ref.b, t.ID[:])
	ref.b = w.b
	w.b = ref.end()
}

func appendAssign(b []byte, a *Assign) []byte {
	w := beginRow(b)
	w.uint('t', a.Term)
	if len(a.Items) > 0 {
		w.array('i', len(a.Items))
	}
	for i := range a.Items {
		item := beginRow(w.b)
		item.ref('r', a.Items[i].Ref)
		item.uint('v', a.Items[i].Version)
		item.str('w', a.Items[i].Worker)
		item.str('b', a.Items[i].Boot)
		w.b = item.end()
	}
	return w.end()
}

func (r *rowReader) assign(a *Assign) {
	r.fields(func(name byte) {
		switch name {
		case 't':
			a.Term = r.uint()
		case 'i':
			a.Items = makeSlice[AssignItem](r.arrayLen())
			for i := range a.Items {
				r.assignItem(&a.Items[i])
			}
		default:
			r.fail()
		}
	})
}

func (r *rowReader) assignItem(a *AssignItem) {
	r.fields(func(name byte) {
		switch name {
		case 'r':
			r.ref(&a.Ref)
		case 'v':
			a.Version = r.uint()
		case 'w':
			a.Worker = r.name()
		case 'b':
			a.Boot = r.name()
		default:
			r.fail()
		}
	})
}

// makeSlice leaves an empty slice nil.
func makeSlice[T any](n int) []T {
	if n == 0 {
		return nil
	}
	return make([]T, n)
}

// appendResult appends a Result. Of a batch of tasks it leaves out the tasks
// themselves: its answer shows their ids alone.
func (c *codec) appendResult(b []byte, res *Result) []byte {
	w := beginRow(b)
	if res.Err != nil {
		w.tagged(c, 'e', res.Err)
	}
	if len(res.Tasks) > 0 {
		w.array('t', len(res.Tasks))
		for i := range res.Tasks {
			w.b = c.appendSubmitResult(w.b, &res.Tasks[i], len(res.Tasks) == 1)
		}
	}
	if len(res.Assigned) > 0 {
		w.tagged(c, 'a', res.Assigned)
	}
	if len(res.Attempts) > 0 {
		w.tagged(c, 'A', res.Attempts)
	}
	if res.Task != nil {
		w.field('k')
		w.b = c.appendTask(w.b, res.Task)
	}
	w.uint('v', res.Version)
	w.bool('c', res.Changed)
	w.int('d', int64(res.Deleted))
	w.bool('m', res.More)
	w.int('x', int64(res.Refused))
	if res.Run != nil {
		w.tagged(c, 'r', res.Run)
	}
	if res.Fire != nil {
		w.tagged(c, 'f', res.Fire)
	}
	if res.Sent != nil {
		w.tagged(c, 's', res.Sent)
	}
	if res.Backfill != nil {
		w.tagged(c, 'b', res.Backfill)
	}
	if res.DeadAct != nil {
		w.tagged(c, 'D', res.DeadAct)
	}
	if res.Done != nil {
		w.tagged(c, 'o', res.Done)
	}
	return w.end()
}

func (c *codec) appendSubmitResult(b []byte, s *SubmitResult, whole bool) []byte {
	w := beginRow(b)
	if s.Err != nil {
		w.tagged(c, 'e', s.Err)
	}
	if !s.ID.IsZero() {
		w.field('i')
		w.b = appendBytes(w.b, s.ID[:])
	}
	if s.Task != nil && whole {
		w.field('t')
		w.b = c.appendTask(w.b, s.Task)
	}
	w.bool('d', s.Deduplicated)
	w.str('A', s.App)
	w.str('O', s.Owner)
	w.str('W', s.Address)
	if s.Callback != nil {
		w.tagged(c, 'C', s.Callback)
	}
	return w.end()
}

func (r *rowReader) result(res *Result) {
	r.fields(func(name byte) {
		switch name {
		case 'e':
			r.tagged(&res.Err)
		case 't':
			res.Tasks = makeSlice[SubmitResult](r.arrayLen())
			for i := range res.Tasks {
				r.submitResult(&res.Tasks[i])
			}
		case 'a':
			r.tagged(&res.Assigned)
		case 'A':
			r.tagged(&res.Attempts)
		case 'k':
			res.Task = &Task{}
			r.task(res.Task)
		case 'v':
			res.Version = r.uint()
		case 'c':
			res.Changed = r.bool()
		case 'd':
			res.Deleted = int(r.int())
		case 'm':
			res.More = r.bool()
		case 'x':
			res.Refused = int(r.int())
		case 'r':
			r.tagged(&res.Run)
		case 'f':
			r.tagged(&res.Fire)
		case 's':
			r.tagged(&res.Sent)
		case 'b':
			r.tagged(&res.Backfill)
		case 'D':
			r.tagged(&res.DeadAct)
		case 'o':
			r.tagged(&res.Done)
		default:
			r.fail()
		}
	})
}

func (r *rowReader) submitResult(s *SubmitResult) {
	r.fields(func(name byte) {
		switch name {
		case 'e':
			r.tagged(&s.Err)
		case 'i':
			s.ID = r.id()
		case 't':
			s.Task = &Task{}
			r.task(s.Task)
		case 'd':
			s.Deduplicated = r.bool()
		case 'A':
			s.App = r.name()
		case 'O':
			s.Owner = r.name()
		case 'W':
			s.Address = r.name()
		case 'C':
			r.tagged(&s.Callback)
		default:
			r.fail()
		}
	})
}
