package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

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

// A run is shown within 120 columns, however long its names and errors are.
func TestRunTableFits(t *testing.T) {
	long := strings.Repeat("an error that says much, ", 30) + strings.Repeat("x", 300)
	name := strings.Repeat("n", 60)
	d := client.RunDetail{Run: client.Run{
		ID: "01KBN0Y2M80000000000000007", Workflow: name, State: "failed", Error: long, CreatedAt: time.Unix(0, 0), Params: []byte(`"` + long + `"`),
	}}
	for i, state := range []string{"upstream_failed", "failed", "failed", "failed"} {
		s := ended(name+strings.Repeat("m", i), i+1)
		s.State, s.Attempt, s.Task, s.LastError, s.Duration = state, 100, "01KBN0Y2M80000000000000007", long, new(job.Duration(123456*time.Second))
		if i > 0 {
			s.Needs = []string{name}
		}
		s.Run = "01KBN0Y2M80000000000000008"
		d.Steps = append(d.Steps, s)
	}
	d.Steps = append(d.Steps, ended("quiet", 9))
	var text bytes.Buffer
	tab := newTable(&text)
	runTable(tab, &d, time.Unix(400_000, 0))
	if err := tab.flush(); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text.String()) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > maxWidth {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, want := range []string{"STEP", "an error that says much", "run 01KBN0Y2M80000000000000008", "* quiet"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

// What takes long to ask for is asked for seldom.
func TestLookAgain(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0: time.Second, 50 * time.Millisecond: time.Second, 300 * time.Millisecond: 3 * time.Second, time.Minute: 15 * time.Second,
	} {
		if got := lookAgain(time.Second, took); got != want {
			t.Errorf("%v after %v, want %v", got, took, want)
		}
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
		if _, err := readDefinitions[job.WorkflowSpec]("workflow", "-", strings.NewReader(block[1]), job.DefaultNamespace); err != nil {
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

// A run tells who started it, also where that was by way of a schedule.
func TestRunsTellTheirTrigger(t *testing.T) {
	for want, trigger := range map[string]client.RunTrigger{
		"manual ann": {Kind: "manual", Actor: "ann"}, "schedule s": {Kind: "schedule", Schedule: "s"}, "schedule s, by ann": {Kind: "manual", Schedule: "s", Actor: "ann"},
		"event e": {Kind: "event", Event: "e"}, "run r": {Kind: "run", Run: "r"}, "manual": {Kind: "manual"},
	} {
		if got := triggerOf(&trigger); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
