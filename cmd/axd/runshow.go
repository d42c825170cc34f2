package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

func newRunShow() *cobra.Command {
	var c conn
	var watch bool
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show a run: its steps as a tree", Args: exactlyOne("ID"),
		Long: `Show a run and its steps as a tree, each below the step that it waited for longest.
A * marks the critical path: the steps that the run's end waited for, one after
the other. With --watch go on until the run has ended: it is asked for each
second, of large runs less often.`,
		Example: `  axd run show 01KBN0Y2M80000000000000007
  axd run show 01KBN0Y2M80000000000000007 --watch
  axd run show 01KBN0Y2M80000000000000007 -o json | jq '.steps[] | select(.state == "failed")'`,
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "show it again whenever it has changed, until the run has ended")
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		last := ""
		for {
			begin := time.Now()
			d, err := cl.RunSteps(ctx, args[0])
			if err != nil {
				return about("run", args[0], err)
			}
			var text bytes.Buffer
			if err := c.output.print(&text, d, func(t *table) { runTable(t, &d, time.Now()) }); err != nil {
				return err
			}
			if watch && isTerminal(cmd.OutOrStdout()) {
				_, _ = fmt.Fprint(cmd.OutOrStdout(), "\x1b[H\x1b[2J")
				last = ""
			}
			if text.String() != last {
				if _, err := text.WriteTo(cmd.OutOrStdout()); err != nil {
					return err
				}
				last = text.String()
			}
			if !watch || client.RunEnded(d.State) {
				return nil
			}
			if !sleep(ctx, lookAgain(time.Second, time.Since(begin))) {
				return ctx.Err()
			}
		}
	})
}

// lookAgain is the pause before the next look at a run: the API has no stream of a run's
// steps, so a large one is asked for seldom enough to cost the servers little.
func lookAgain(least, took time.Duration) time.Duration {
	const share, most = 10, 15 * time.Second
	return min(max(least, share*took), most)
}

func runTable(t *table, d *client.RunDetail, now time.Time) {
	t.pair("ID", d.ID)
	t.pair("Namespace", d.Namespace)
	t.pair("Workflow", d.Workflow+", version "+strconv.FormatUint(d.WorkflowVersion, 10))
	t.pair("State", runState(&d.Run))
	t.long("Why", d.Error)
	t.pair("Trigger", triggerOf(&d.Trigger))
	t.pair("Nominal time", exact(d.Trigger.NominalTime))
	t.pair("Priority", d.Priority)
	t.pair("Params", cut(string(d.Params), 100))
	t.pair("Created", exact(&d.CreatedAt))
	t.pair("Ended", exact(d.FinishedAt))
	t.pair("Duration", runDuration(&d.Run, now))
	t.pair("Time-out", exact(d.TimeoutAt))
	t.pair("Tasks ended", progress(&d.Run))
	if d.DeadLetters > 0 {
		t.pair("Dead letters", strconv.FormatInt(d.DeadLetters, 10))
	}
	if d.Touched {
		t.pair("Changed", "by hand: a step was run again, skipped or forced")
	}
	t.gap()
	t.row("STEP", "STATE", "STARTED", "DURATION", "TRY", "TASK")
	critical, tree := criticalPath(d.Steps), stepTree(d.Steps)
	for _, n := range tree {
		s := &d.Steps[n.step]
		mark := "  "
		if critical[n.step] {
			mark = "* "
		}
		took := ""
		if s.Duration != nil {
			took = short(s.Duration.Std())
		} else if s.StartedAt != nil {
			took = short(max(0, now.Sub(*s.StartedAt)))
		}
		try := ""
		if s.Attempt > 0 {
			try = strconv.Itoa(s.Attempt)
		}
		indent := strings.Repeat("  ", n.depth)
		t.row(mark+indent+cut(s.Name, maxStep-len(indent)), s.State, clockWithin(s.StartedAt, d.CreatedAt, now), took, try, s.Task)
	}
	noteTable(t, d.Steps, tree)
}

// maxStep is how wide the name of a step may be, with what it is indented by.
const maxStep = 36

// maxNote is how much of an error a table shows; the task has all of it.
const maxNote = 400

// noteTable tells below the tree what is at work for steps, and why they failed.
func noteTable(t *table, steps []client.RunStep, tree []treeNode) {
	first := true
	for _, n := range tree {
		s := &steps[n.step]
		for _, note := range []string{partsOf(s), cut(s.LastError, maxNote)} {
			if note == "" {
				continue
			}
			if first {
				t.gap()
				t.row("STEP", "NOTE")
				first = false
			}
			t.wrapped(maxWidth-maxStep, cut(s.Name, maxStep-2), note)
		}
	}
}

// clockWithin is clock for a time of a run, whose year is told above.
func clockWithin(t *time.Time, of, now time.Time) string {
	text := clock(t, now)
	if t != nil && text == t.Local().Format(time.DateTime) && t.Local().Year() == of.Local().Year() {
		return t.Local().Format("01-02 15:04:05")
	}
	return text
}

// partsOf tells what is at work for a step, or was.
func partsOf(s *client.RunStep) string {
	switch {
	case s.ItemCount != nil:
		return strconv.FormatInt(s.Items["success"], 10) + " of " + strconv.FormatInt(*s.ItemCount, 10) + " items succeeded"
	case s.Run != "":
		return "run " + s.Run
	}
	return ""
}

// treeNode is a step in the order of a tree.
type treeNode struct{ step, depth int }

// maxDepth keeps a tree on the screen.
const maxDepth = 12

// stepTree orders steps as a tree: each below the one, of those it needs, that
// ended last. Where a step has but one below it, that one is not indented, so that
// a chain stays straight.
func stepTree(steps []client.RunStep) []treeNode {
	at := places(steps)
	below := make([][]int, len(steps))
	var stack []treeNode
	var roots []int
	for i := range steps {
		if p := lastNeed(steps, at, i); p >= 0 {
			below[p] = append(below[p], i)
		} else {
			roots = append(roots, i)
		}
	}
	for _, i := range slices.Backward(roots) {
		stack = append(stack, treeNode{i, 0})
	}
	out := make([]treeNode, 0, len(steps))
	for len(stack) > 0 {
		n := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		out = append(out, n)
		depth := n.depth
		if len(below[n.step]) > 1 || n.depth == 0 {
			depth = min(depth+1, maxDepth)
		}
		for _, i := range slices.Backward(below[n.step]) {
			stack = append(stack, treeNode{i, depth})
		}
	}
	return out
}

func places(steps []client.RunStep) map[string]int {
	at := make(map[string]int, len(steps))
	for i := range steps {
		at[steps[i].Name] = i
	}
	return at
}

// lastNeed is the step that i waited for longest: of those it needs the one that
// ended last, one that has not ended before all others. -1: it needs none.
func lastNeed(steps []client.RunStep, at map[string]int, i int) int {
	last := -1
	for _, name := range steps[i].Needs {
		if p, ok := at[name]; ok && (last < 0 || endsAfter(&steps[p], &steps[last])) {
			last = p
		}
	}
	return last
}

func endsAfter(a, b *client.RunStep) bool {
	switch {
	case b.FinishedAt == nil:
		return false
	case a.FinishedAt == nil:
		return true
	}
	return a.FinishedAt.After(*b.FinishedAt)
}

// criticalPath finds the steps that the end of the run waited for: the one that
// ended last, the one that this waited for longest, and so on. A step without needs
// of a later section waited for the section before.
func criticalPath(steps []client.RunStep) map[int]bool {
	at := places(steps)
	path := map[int]bool{}
	for _, section := range []string{job.SectionFinally, job.SectionOnFailure, job.SectionSteps} {
		last := -1
		var latest *client.RunStep
		for i := range steps {
			s := &steps[i]
			if s.Section == section && ran(s) && (latest == nil || endsAfter(s, latest)) {
				last, latest = i, s
			}
		}
		for last >= 0 {
			path[last] = true
			last = lastNeed(steps, at, last)
		}
	}
	return path
}

// ran reports whether the run's end can have waited for a step: it was begun, or is
// about to.
func ran(s *client.RunStep) bool {
	return s.StartedAt != nil || !client.Ended(s.State) && s.State != job.Blocked.String()
}
