package fsm

import (
	"bytes"
	"testing"

	"github.com/axd-project/axd/job"
)

// TestCheckFindsEveryMissingRow takes each row of a state away, and bends each
// value: Check has to notice, whatever the table.
func TestCheckFindsEveryMissingRow(t *testing.T) {
	tx, _, _ := newState(t)
	if got := Check(tx, 10); got != nil {
		t.Fatalf("a good state: %q", got)
	}
	var rows []memRow
	tx.Ascend([]byte{tableJobs}, nil, func(k, v []byte) bool {
		rows = append(rows, memRow{bytes.Clone(k), bytes.Clone(v)})
		return true
	})
	for _, row := range rows {
		broken := tx.clone()
		broken.Delete(row.k)
		if Check(broken, 10) == nil && !optional(tx, row.k) {
			t.Errorf("row %x was taken away, Check is content", row.k)
		}
		if len(row.v) > 1 {
			broken = tx.clone()
			broken.Set(row.k, append([]byte{0xc1}, row.v[1:]...))
			if Check(broken, 10) == nil && row.k[0] != tableActive && row.k[0] != tableHolders {
				t.Errorf("row %x was damaged, Check is content", row.k)
			}
		}
	}
}

// optional reports rows that may be missing: the attempts of tasks that ended.
func optional(tx *memTx, k []byte) bool {
	if k[0] != tableAttempts {
		return false
	}
	task, _ := GetTask(tx, readKey(k).ref())
	return task.State.Terminal()
}

// TestCheckFindsForeignRows adds rows that belong to no task.
func TestCheckFindsForeignRows(t *testing.T) {
	tx, _, _ := newState(t)
	ref := TaskRef{"default", job.NewID(7, 7, 7)}
	for name, row := range map[string]memRow{
		"body":         {key{}.body(ref), appendMeta(nil, &metaRow{})},
		"due":          {key{}.dueRow(job.Low, DueKey{1, ref.ID, ref.Namespace}), []byte{0}},
		"due, no mark": {key{}.dueRow(job.Low, DueKey{1 << 50, ref.ID, ref.Namespace}), nil},
		"by state":     {key{}.byState(ref.Namespace, job.Success).id(ref.ID), nil},
		"by job":       {key{}.byJob(ref.Namespace, "mail").id(ref.ID), nil},
		"attempt":      {key{}.attempt(ref, 1), appendAttempt(nil, &Attempt{Number: 1})},
		"active":       {key{}.active("w1", ref), appendActive(nil, activeRow{})},
		"key":          {key{}.idempotency("default", "x"), appendKeyRow(nil, keyRow{ID: ref.ID})},
		"unique":       {key{}.unique("default", "x"), ref.ID[:]},
		"holder":       {key{tableHolders}.limit(LimitID{"default", "name:x", ""}).id(ref.ID), make([]byte, 8)},
		"limit":        {key{tableLimits}.limit(LimitID{"default", "name:x", ""}), []byte{0, 0, 0, 1, 0, 0, 0, 1}},
		"rate":         {key{tableRates}.limit(LimitID{"default", "name:x", ""}), make([]byte, 8)},
		"rate age":     {key{tableRateAge}.time(1).limit(LimitID{"default", "name:x", ""}), nil},
		"ended":        {key{}.ended(1, ref), nil},
		"counter":      {key{}.counter(countNamespace).name("x").u8(1), []byte{0, 0, 0, 0, 0, 0, 0, 1}},
		"job version":  {key{}.jobVersion("default", "mail", 9), nil},
		"low mark":     {key{}.low(job.Normal), bytes.Repeat([]byte{0xff}, 10)},
	} {
		broken := tx.clone()
		broken.Set(row.k, row.v)
		if Check(broken, 10) == nil {
			t.Errorf("%s: Check is content", name)
		}
		if n := len(Check(broken, 1)); n != 1 {
			t.Errorf("%s: %d reports, the limit was 1", name, n)
		}
	}
}
