package fsm

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/axd-project/axd/job"
)

// TestEventOfManySchedules: one entry fires no more than MaxEventFires of them, and
// the rest goes on, whatever becomes of them meanwhile.
func TestEventOfManySchedules(t *testing.T) {
	tx, m := newMemTx(), NewMachine()
	index := uint64(0)
	do := func(c Command) Result {
		t.Helper()
		index++
		r := auditEntry(t, m, tx, index, scriptStart+int64(index), c)[0]
		if r.Err != nil {
			t.Fatalf("%T: %v", c, r.Err)
		}
		if broken := Check(tx, 10); broken != nil {
			t.Fatalf("%T: %q", c, broken)
		}
		return r
	}
	do(PutJob{Namespace: "default", Name: "j", Spec: job.Spec{Executor: job.Executor{Handler: "h"}}})
	const all = 2*MaxEventFires + 7
	for i := range all {
		do(PutSchedule{Namespace: "default", Name: fmt.Sprintf("s%03d", i), Spec: job.ScheduleSpec{Job: "j", Event: &job.OnEvent{Name: "e"}}})
	}
	r := do(SendEvent{Namespace: "default", Name: "e", Payload: []byte("1")})
	if r.Sent.Fired != MaxEventFires || !r.Sent.Open {
		t.Fatalf("at first: %+v", r.Sent)
	}
	acts := ListScheduleActs(tx, 10)
	if len(acts) != 1 || acts[0].Kind != ActEvent {
		t.Fatalf("acts %+v", acts)
	}
	do(DeleteSchedule{Namespace: "default", Name: "s060"}) // asked next
	do(DeleteSchedule{Namespace: "default", Name: "s059"}) // asked last
	goOn := ContinueSchedules{Kind: acts[0].Kind, Ref: acts[0].Ref}
	if r := do(goOn); !r.More {
		t.Fatalf("%+v", r)
	}
	if r := do(goOn); r.More {
		t.Fatalf("%+v", r)
	}
	list, _, err := ListEvents(tx, "default", "e", "", 0)
	if err != nil || len(list) != 1 || list[0].Fired != all-1 || list[0].Open || list[0].Payload != nil {
		t.Errorf("in the end: %+v, %v", list, err)
	}
	index++
	if r := auditEntry(t, m, tx, index, scriptStart+int64(index), goOn)[0]; r.Err == nil {
		t.Error("it went on after its end")
	}
}

func TestEventsHaveAQuota(t *testing.T) {
	tx := newMemTx()
	tx.Set(key{}.counter(countEvents), binary.BigEndian.AppendUint64(nil, MaxEvents))
	r := auditEntry(t, NewMachine(), tx, 1, scriptStart, SendEvent{Namespace: "default", Name: "e"})[0]
	if r.Err == nil || r.Err.Code != job.CodeQuotaExceeded {
		t.Errorf("%+v", r)
	}
}
