package fsm

import (
	"slices"
	"testing"

	"github.com/axd-project/axd/job"
)

// TestScanDue pages through the due index of one priority, and wants a scan to
// begin at the low mark: what lies before it was deleted and may be costly to
// pass over.
func TestScanDue(t *testing.T) {
	e := newLimitsEnv(t)
	tasks := e.submit(10, func(i int, s *job.TaskSpec) {
		s.Due = scriptStart + int64(i/3) // several at one millisecond
		if i == 9 {
			s.Priority = job.High
		}
	})
	var got []job.ID
	for from := (DueKey{}); ; {
		rows := ScanDue(e.tx, job.Normal, from, scriptStart+3, 2)
		for _, row := range rows {
			got = append(got, row.ID)
		}
		if len(rows) < 2 {
			break
		}
		from = rows[1].DueKey
		from.Namespace += "\x00" // the least position behind it
	}
	var want []job.ID
	for _, task := range tasks[:9] {
		want = append(want, task.ID)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if rows := ScanDue(e.tx, job.Normal, DueKey{Due: scriptStart + 1}, scriptStart+2, 100); len(rows) != 3 {
		t.Errorf("one millisecond: %d rows, want 3", len(rows))
	}
	if rows := ScanDue(e.tx, job.Normal, DueKey{Due: 5}, 3, 100); rows != nil {
		t.Errorf("an empty range: %v", rows)
	}
	e.apply(Expire{})
	before := DueKey{Due: scriptStart - 1, ID: tasks[0].ID, Namespace: "default"}
	e.tx.Set(key{}.dueRow(job.Normal, before), []byte{0}) // as only a bug could
	if rows := ScanDue(e.tx, job.Normal, DueKey{}, scriptStart+3, 100); len(rows) != 9 {
		t.Errorf("%d rows from the low mark on, want 9", len(rows))
	}
	if broken := Check(e.tx, 10); len(broken) != 2 {
		t.Errorf("Check says %q, want the row and the mark", broken)
	}
}

func TestDueKeyCompare(t *testing.T) {
	keys := []DueKey{
		{}, {Due: 1}, {Due: 1, ID: job.NewID(0, 0, 1)}, {Due: 1, ID: job.NewID(0, 0, 1), Namespace: "a"}, {Due: 2},
	}
	for i, a := range keys {
		for j, b := range keys {
			want := min(max(i-j, -1), 1)
			if got := a.Compare(b); got != want {
				t.Errorf("%v and %v: %d, want %d", a, b, got, want)
			}
		}
	}
}
