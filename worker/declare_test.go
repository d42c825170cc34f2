package worker

import (
	"testing"
	"time"

	"github.com/axd-project/axd/rpc"
)

// What runs, what waits for its time and what is owed is declared while a session
// goes on, not only when it begins.
func TestWorkersDeclareWhatTheyHold(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	w := newWorker(t, l)
	w.declareEvery = 20 * time.Millisecond
	runWorker(t, w)
	receive(t, l.hellos, patience)
	running := l.item(handler("wait"))
	armed := l.item(handler("echo"), func(i *rpc.DispatchItem) { i.DueMS = time.Now().Add(time.Hour).UnixMilli() })
	l.dispatch(running, armed)
	eventually(t, patience, "both are declared", func() bool {
		found := map[rpc.Ref]bool{}
		for _, h := range receive(t, l.declared, patience).Held {
			found[h.Ref] = h.Running
		}
		runs, ok := found[running.Ref]
		waits, also := found[armed.Ref]
		return ok && runs && also && !waits
	})
}
