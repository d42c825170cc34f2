package server

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// TestK7_01_EqualRequestsAtOnce lets 100 callers submit the same through three
// servers while leadership moves from one to the next: every answer has the same
// id, one says that it was created now, and one task lies in state.
func TestK7_01_EqualRequestsAtOnce(t *testing.T) {
	nodes, _ := three(t)
	nodes[0].votes(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	for round, key := range []string{"calm", "move-1", "move-2"} {
		const callers = 100
		answers, errs := make([]client.Task, callers), make([]error, callers)
		var race sync.WaitGroup
		for i := range callers {
			c := clientOf(t, nodes[i%3])
			race.Go(func() {
				r := client.SubmitRequest{IdempotencyKey: key, Payload: json.RawMessage(`{"n":1}`)}
				r.Handler = "nobody"
				answers[i], errs[i] = c.Submit(ctx, r) // it repeats what may have been carried out
			})
		}
		if round > 0 {
			if _, err := clientOf(t, nodes...).TransferLeadership(ctx, ""); err != nil {
				t.Logf("leadership stays: %v", err)
			}
		}
		race.Wait()
		created := 0
		for i := range answers {
			if errs[i] != nil {
				t.Fatalf("%s: caller %d: %v", key, i, errs[i])
			}
			if answers[i].ID != answers[0].ID {
				t.Fatalf("%s: tasks %s and %s", key, answers[i].ID, answers[0].ID)
			}
			if !answers[i].Deduplicated {
				created++
			}
		}
		// An answer lost with the leader makes its caller repeat, and then nobody is
		// told that the task is new.
		if created > 1 || round == 0 && created != 1 {
			t.Errorf("%s: %d answers say that the task is new", key, created)
		}
	}
	for _, n := range nodes {
		n.until(t, "all three keys are there once", func() bool {
			var tasks int64
			_ = n.Read(ctx, false, func(r fsm.Reader) error {
				tasks = fsm.CountTasks(r, job.DefaultNamespace).Sum()
				if broken := fsm.Check(r, 5); broken != nil {
					t.Errorf("%q", broken)
				}
				return nil
			})
			return tasks == 3
		})
	}
	if !slices.ContainsFunc(nodes, func(n *node) bool { return n.leading.Load() }) {
		t.Error("nobody leads")
	}
}
