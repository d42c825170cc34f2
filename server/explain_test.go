package server

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

// What only the leader knows is told by any server; and without a quorum the one
// that is left says so, at once.
func TestExplainAtAnyServerAndWithoutAQuorum(t *testing.T) {
	nodes, cfgs := three(t)
	startWorker(t, "w1", cfgs[0].Join)
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	c := clientOf(t, nodes[0])
	req := client.SubmitRequest{Executor: job.Executor{Handler: "nobody-offers-this"}}
	req.Owner = "ann"
	task, err := c.Submit(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		awaitReason(ctx, t, clientOf(t, n), task.ID, "no_match", func(e client.Explanation) bool {
			r := e.Reasons[0]
			return e.Owner == "ann" && len(e.Reasons) == 1 && r.Workers == 1 && r.Unmet[0].Constraint == "offer handler:nobody-offers-this"
		})
	}
	for _, n := range nodes[1:] {
		if err := n.stop(); err != nil {
			t.Fatal(err)
		}
	}
	awaitReason(ctx, t, c, task.ID, "no_quorum", func(e client.Explanation) bool {
		return e.Stale && strings.Contains(e.Reasons[0].Text, "s2")
	})
	began := time.Now()
	if _, err := c.Explain(ctx, task.ID); err != nil || time.Since(began) > time.Second {
		t.Errorf("without a quorum it took %s: %v", time.Since(began), err)
	}
}

// awaitReason asks until a reason comes first, and then judges the answer.
func awaitReason(ctx context.Context, t *testing.T, c *client.Client, id, code string, good func(client.Explanation) bool) {
	t.Helper()
	for {
		e, err := c.Explain(ctx, id)
		if err == nil && len(e.Reasons) > 0 && e.Reasons[0].Code == code && good(e) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("no %s: %+v, %v", code, e, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
