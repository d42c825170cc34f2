package fsm

import (
	"strconv"

	"github.com/axd-project/axd/job"
)

// Done is a side effect of a task that one of its attempts has recorded as done, so
// that no later attempt repeats it. It stays with the task through retries, replays
// and reruns, and goes with it.
type Done struct {
	Name    string `msgpack:"n"`
	Value   []byte `msgpack:"v,omitempty"` // what the attempt left with it
	At      int64  `msgpack:"a"`           // Unix ms
	Attempt uint32 `msgpack:"t"`           // that recorded it
}

// onceRow is what a task has recorded, in the order in which it was; at most
// job.MaxDone.
type onceRow struct {
	Done []Done `msgpack:"d"`
}

// CodeRecordDone is of the command about what a task has done once.
const CodeRecordDone Code = 112

// RecordDone records that a side effect of a task is done. A token that is not the
// task's current one is refused; what is recorded already stays as it is, and is
// answered.
type RecordDone struct {
	AttemptRef `msgpack:",inline"`
	Name       string `msgpack:"n"`
	Value      []byte `msgpack:"v,omitempty"`
}

// Code implements Command.
func (RecordDone) Code() Code { return CodeRecordDone }

func (k key) once(r TaskRef) key { return k.table(tableOnce).ref(r) }

// ListDone reads what a task has recorded as done.
func ListDone(r Reader, t *Task) []Done {
	if t.Extra == nil || !t.Extra.Done {
		return nil
	}
	row, _ := getRow[onceRow](r, key{}.once(t.Ref()))
	return row.Done
}

// CheckDone answers an attempt that asks whether something was recorded as done; nil:
// it was not. A token that is not the task's current one is refused.
func CheckDone(r Reader, ref AttemptRef, name string) (*Done, *job.Error) {
	if err := job.ValidateDone(name, nil); err != nil {
		return nil, err
	}
	t, ok := GetTask(r, ref.Ref)
	if !ok {
		return nil, job.NotFound("task", ref.Ref.ID.String())
	}
	if err := t.isHeld(ref.Token); err != nil {
		return nil, err
	}
	return findDone(ListDone(r, &t), name), nil
}

func findDone(all []Done, name string) *Done {
	for i := range all {
		if all[i].Name == name {
			return &all[i]
		}
	}
	return nil
}

func (a *apply) recordDone(c *RecordDone) Result {
	if err := job.ValidateDone(c.Name, c.Value); err != nil {
		return rejected(err)
	}
	old, err := a.held(c.AttemptRef)
	if err != nil {
		return rejected(err)
	}
	var row onceRow
	if old.Extra != nil && old.Extra.Done {
		a.key = a.key.once(c.Ref)
		if is, ok := stored[onceRow](a, a.key); ok {
			row = *is
		}
	}
	if is := findDone(row.Done, c.Name); is != nil {
		return Result{Done: is}
	}
	if len(row.Done) >= job.MaxDone {
		return rejected(job.Conflict("name", "is one too many: a task records at most "+strconv.Itoa(job.MaxDone)+" things as done", c.Name))
	}
	if old.State != job.Running { // who has done something runs, and is not undone any more
		old = a.running(old, a.now)
	}
	d := Done{Name: c.Name, Value: c.Value, At: a.now, Attempt: old.Attempt}
	row.Done = append(row.Done, d)
	a.key = a.key.once(c.Ref)
	a.set(a.key, mustEncode(a.codec, &row))
	if old.Extra == nil || !old.Extra.Done {
		t := new(Task)
		*t = *old
		t.Extra = t.Extra.clone()
		t.Extra.Done = true
		a.write(old, t)
	}
	return Result{Done: &d, Changed: true}
}

func (c *checker) once(k, v []byte) {
	kr := readKey(k)
	ref := kr.ref()
	row, ok := record[onceRow](c, k, v)
	if !ok {
		return
	}
	t, ok := c.taskOf("done row", ref)
	if !ok {
		return
	}
	c.want(kr.done() && t.Extra != nil && t.Extra.Done, "done row of task %s: the task says it has none", ref.ID)
	c.want(len(row.Done) > 0 && len(row.Done) <= job.MaxDone, "done row of task %s: %d records", ref.ID, len(row.Done))
	for i := range row.Done {
		d := &row.Done[i]
		c.want(findDone(row.Done, d.Name) == d, "done row of task %s: %q is there twice", ref.ID, d.Name)
		c.want(job.ValidateDone(d.Name, d.Value) == nil && d.Attempt <= t.Attempt, "done row of task %s: %q by attempt %d of %d",
			ref.ID, d.Name, d.Attempt, t.Attempt)
	}
}
