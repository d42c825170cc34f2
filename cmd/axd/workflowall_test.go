package main

import (
	"strings"
	"testing"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

// What schedules fire, and after what, is drawn as edges; what leads back too.
func TestPictureOfSchedules(t *testing.T) {
	p := &picture{at: map[string]int{}, label: map[[2]int]string{}}
	p.edge(p.node("workflow", "outer"), p.node("workflow", "inner"), "runs")
	p.schedule(&client.Schedule{Name: "nightly", ScheduleSpec: job.ScheduleSpec{Workflow: "outer"}})
	p.schedule(&client.Schedule{Name: "later", ScheduleSpec: job.ScheduleSpec{Job: "mail", After: &job.After{All: []job.Upstream{
		{Workflow: "outer"}, {Schedule: "nightly"}, {Job: "mail"},
	}}}})
	d := p.drawing("all")
	got := d.Mermaid()
	for _, want := range []string{
		`n0["outer<br/>workflow"]`, `n0 -->|"runs"| n1`, `n2 -->|"fires"| n0`, `n3 -->|"fires"| n4`, `n0 -->|"then"| n3`, `n2 -->|"then"| n3`, `n4 -->|"then"| n3`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing in\n%s", want, got)
		}
	}
	if svg := d.SVG(); strings.Count(svg, `class="edge"`) != 6 {
		t.Error(svg)
	}
}
