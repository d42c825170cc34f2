package job

import (
	"strings"

	"github.com/axd-project/axd/job/dag"
)

// Drawing draws the workflow's steps.
func (w *WorkflowSpec) Drawing(name string) dag.Drawing {
	d := dag.Drawing{Title: name}
	for _, s := range w.Sections() {
		if len(s.Steps) == 0 {
			continue
		}
		g := dag.Group{Graph: s.Graph()}
		if s.Name != SectionSteps {
			g.Title = s.Name
		}
		for i := range s.Steps {
			g.Nodes = append(g.Nodes, s.Steps[i].node())
		}
		d.Groups = append(d.Groups, g)
	}
	return d
}

func (s *Step) node() dag.Node {
	n := dag.Node{Name: s.Name}
	var notes []string
	switch {
	case s.Workflow != "":
		n.Class = "workflow"
		notes = append(notes, "workflow "+s.Workflow)
	case s.Job != s.Name:
		notes = append(notes, s.Job)
	}
	if s.RuleOrDefault() != AllSuccess {
		notes = append(notes, string(s.Rule))
	}
	if s.When != "" {
		notes = append(notes, "when "+s.When)
	}
	if s.ForEach != nil {
		notes = append(notes, "for each")
	}
	n.Note = strings.Join(notes, " · ")
	return n
}
