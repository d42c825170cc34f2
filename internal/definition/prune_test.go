package definition

import (
	"context"
	"strings"
	"testing"

	"github.com/axd-project/axd/client"
)

// A prune deletes what names others before what they name, whatever their names.
func TestPruneDeletesNamersFirst(t *testing.T) {
	c := cluster(t)("default")
	const all = `
kind: job
name: b
handler: h
compensation: a
---
kind: job
name: a
handler: h
callback_job: c
---
kind: job
name: c
handler: h
---
kind: workflow
name: n
steps:
- {name: s, workflow: m}
---
kind: workflow
name: m
steps:
- {name: s, workflow: o}
---
kind: workflow
name: o
steps:
- {name: s, job: c}
---
`
	const keep = "kind: job\nname: keep\nhandler: h\n"
	applyFiles(t, c, all+keep)
	done := applyFiles(t, c, keep)
	var order []string
	for _, s := range done {
		if s.Action == Delete {
			order = append(order, s.Name)
		}
	}
	if got := strings.Join(order, " "); got != "n m o b a c" {
		t.Errorf("deleted %s", got)
	}
}

// What the files still name can't be pruned: that is told before anything is deleted,
// and only of what a prune would delete.
func TestPruneOfWhatIsNamedIsRefused(t *testing.T) {
	c := cluster(t)("default")
	const job, flow = "kind: job\nname: a\nhandler: h\n", "---\nkind: workflow\nname: w\nsteps:\n- {name: s, job: a}\n"
	applyFiles(t, c, job+flow)
	set, err := load(t, flow)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{{Set: "f"}, {Set: "g", Prune: true}} {
		if _, err := set.Compare(context.Background(), c, o); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
	_, err = set.Compare(context.Background(), c, Options{Set: "f", Prune: true})
	if err == nil || !strings.Contains(err.Error(), `steps[0].job: must name a job that a file defines: --prune would delete`) {
		t.Errorf("got %v", err)
	}
}

// applyFiles applies a text as the files of the set f, with a prune.
func applyFiles(t *testing.T, c *client.Client, text string) []Step {
	t.Helper()
	set, err := load(t, text)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := set.Compare(context.Background(), c, Options{Set: "f", Prune: true})
	if err != nil {
		t.Fatal(err)
	}
	done, err := plan.Apply(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return done
}
