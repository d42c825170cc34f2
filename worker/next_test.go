package worker

import (
	"context"
	"testing"
	"time"

	"github.com/axd-project/axd/rpc"
)

// An attempt that waits for an older one's end can be declared, revoked and ended
// at every moment: before, and from the very instant at which the older one is out
// of the table. Else a cancel would find nothing, and be lost.
func TestWhatWaitsForAnOlderAttemptIsNeverOutOfReach(t *testing.T) {
	const now = time.Minute
	item := func(token byte, due time.Duration) *attempt {
		a := &attempt{item: rpc.DispatchItem{Ref: rpc.Ref{Namespace: "default", Token: rpc.Token{15: token}}, DueMS: due.Milliseconds()}}
		a.ctx, a.cancel = context.WithCancelCause(t.Context())
		return a
	}
	begin := func(due time.Duration) (tab *table, older, newer *attempt) {
		is := newTable(1)
		older, newer = item(1, 0), item(2, due)
		if v, _ := is.accept(older, false); v != verdictStart {
			t.Fatalf("the older one is judged %v", v)
		}
		for range 2 { // the leader may send it again
			if v, _ := is.accept(newer, due > now); v != verdictReplace {
				t.Fatalf("the newer one is judged %v", v)
			}
		}
		if held := is.held(); len(held) != 2 {
			t.Errorf("before the end %d attempts are declared, want 2", len(held))
		}
		return &is, older, newer
	}
	end := func(tab *table, older *attempt) (*attempt, verdict) {
		tab.release(older)
		return tab.settle(older, spooled{Ref: older.item.Ref}, now)
	}

	tab, older, newer := begin(0)
	if next, v := end(tab, older); next != newer || v != verdictStart || tab.find(newer.item.Ref) != newer {
		t.Errorf("one that is due is judged %v and can't be found", v)
	}
	tab, older, newer = begin(2 * now)
	if next, v := end(tab, older); next != newer || v != verdictArmed || !tab.disarm(newer.item.Ref) {
		t.Errorf("one that is not due is judged %v and can't be taken back", v)
	}
	tab, older, newer = begin(0)
	if !tab.disarm(newer.item.Ref) {
		t.Error("one that waits can't be taken back")
	}
	if next, _ := end(tab, older); next != nil {
		t.Error("one that was taken back goes on")
	}
}
