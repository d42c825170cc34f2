package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

// ended is a step that ran until so many seconds after the start of time.
func ended(name string, at int, needs ...string) client.RunStep {
	s := client.RunStep{Name: name, Section: job.SectionSteps, Needs: needs, State: "success"}
	if at > 0 {
		end := time.Unix(int64(at), 0)
		s.StartedAt, s.FinishedAt = &end, &end
	}
	return s
}

func TestRunTreeAndCriticalPath(t *testing.T) {
	steps := []client.RunStep{
		ended("a", 1), ended("b", 9, "a"), ended("c", 3, "a"), ended("d", 12, "b", "c"), ended("e", 13, "d"), ended("lone", 2), ended("z", 20),
	}
	steps[6].Section = job.SectionFinally
	var lines []string
	critical := criticalPath(steps)
	for _, n := range stepTree(steps) {
		line := strings.Repeat(" ", n.depth) + steps[n.step].Name
		if critical[n.step] {
			line += "*"
		}
		lines = append(lines, line)
	}
	if got, want := strings.Join(lines, "\n"), "a*\n b*\n d*\n e*\n c\nlone\nz*"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A chain as long as may be is shown without recursion, and stays on the screen.
func TestK6_05_LongChainIsShown(t *testing.T) {
	steps := []client.RunStep{ended("s", 1)}
	for i := 1; i < job.MaxSteps; i++ {
		steps = append(steps, ended(steps[i-1].Name[:1]+string(rune('a'+i%26))+time.Duration(i).String(), i+1, steps[i-1].Name))
	}
	tree := stepTree(steps)
	if len(tree) != job.MaxSteps || tree[job.MaxSteps-1].depth > maxDepth || len(criticalPath(steps)) != job.MaxSteps {
		t.Errorf("%d steps, the last at depth %d, %d critical", len(tree), tree[len(tree)-1].depth, len(criticalPath(steps)))
	}
}

// The guide's workflow is one that axd takes.
func TestWorkflowGuide(t *testing.T) {
	data, err := os.ReadFile("../../docs/guides/workflows.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, block := range yamlBlock.FindAllStringSubmatch(string(data), -1) {
		if !strings.Contains(block[1], "kind: workflow") {
			continue
		}
		found++
		if _, err := readWorkflows("-", strings.NewReader(block[1]), job.DefaultNamespace); err != nil {
			t.Error(err)
		}
	}
	if found == 0 {
		t.Error("the guide has no workflow")
	}
}

// Parameters on the command line are read by their types.
func TestParamValues(t *testing.T) {
	w := job.WorkflowSpec{Params: []job.Param{{Name: "day"}, {Name: "n", Type: job.ParamInt}, {Name: "list", Type: job.ParamList}}}
	got, err := paramValues(&w, []string{"day=2026=11", "n=9007199254740993", "list=[1, 2]"})
	if err != nil || string(got["day"]) != `"2026=11"` || string(got["n"]) != "9007199254740993" || string(got["list"]) != "[1, 2]" {
		t.Errorf("%s: %v", got, err)
	}
	for _, bad := range [][]string{{"day"}, {"x=1"}, {"n=abc"}, {"day=a", "day=b"}, {"list=[1"}} {
		if got, err := paramValues(&w, bad); err == nil {
			t.Errorf("%q gave %s", bad, got)
		}
	}
}
