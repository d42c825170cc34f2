package main

import (
	"context"
	"errors"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/job/dag"
)

// picture is a graph of named objects that is being put together.
type picture struct {
	at    map[string]int
	nodes []dag.Node
	edges [][2]int
	label map[[2]int]string
}

// node finds an object, or adds it.
func (p *picture) node(kind, name string) int {
	n, ok := p.at[kind+" "+name]
	if !ok {
		n = len(p.nodes)
		p.at[kind+" "+name] = n
		p.nodes = append(p.nodes, dag.Node{Name: name, Note: kind, Class: kind})
	}
	return n
}

func (p *picture) edge(from, to int, label string) {
	if _, ok := p.label[[2]int{from, to}]; ok {
		return
	}
	p.label[[2]int{from, to}] = label
	p.edges = append(p.edges, [2]int{from, to})
}

func (p *picture) drawing(title string) dag.Drawing {
	g := dag.New(len(p.nodes))
	for _, e := range p.edges {
		g.Add(e[0], e[1])
	}
	return dag.Drawing{Title: title, Groups: []dag.Group{{
		Nodes: p.nodes, Graph: g, Label: func(from, to int) string { return p.label[[2]int{from, to}] },
	}}}
}

// drawAll draws how the workflows and schedules of a namespace hang together.
func drawAll(ctx context.Context, cl *client.Client) (dag.Drawing, error) {
	p := &picture{at: map[string]int{}, label: map[[2]int]string{}}
	if err := p.workflows(ctx, cl); err != nil {
		return dag.Drawing{}, err
	}
	if err := p.schedules(ctx, cl); err != nil {
		return dag.Drawing{}, err
	}
	return p.drawing("workflows and schedules of " + cl.Namespace()), nil
}

func (p *picture) workflows(ctx context.Context, cl *client.Client) error {
	for cursor, more := "", true; more; more = cursor != "" {
		list, err := cl.Workflows(ctx, maxPage, cursor)
		if err != nil {
			return err
		}
		cursor = list.NextCursor
		for _, summary := range list.Workflows {
			w, err := cl.Workflow(ctx, summary.Name, 0)
			if errors.Is(err, job.ErrNotFound) {
				continue // deleted since
			}
			if err != nil {
				return err
			}
			n := p.node("workflow", w.Name)
			p.nodes[n].Note = "workflow, " + plural(summary.StepCount, "step")
			for _, name := range w.SubWorkflows() {
				p.edge(n, p.node("workflow", name), "runs")
			}
		}
	}
	return nil
}

func (p *picture) schedules(ctx context.Context, cl *client.Client) error {
	for cursor, more := "", true; more; more = cursor != "" {
		list, err := cl.Schedules(ctx, maxPage, cursor)
		if err != nil {
			return err
		}
		cursor = list.NextCursor
		for i := range list.Schedules {
			p.schedule(&list.Schedules[i])
		}
	}
	return nil
}

func (p *picture) schedule(s *client.Schedule) {
	n := p.node("schedule", s.Name)
	switch {
	case s.Workflow != "":
		p.edge(n, p.node("workflow", s.Workflow), "fires")
	case s.Job != "":
		p.edge(n, p.node("job", s.Job), "fires")
	}
	if s.After == nil {
		return
	}
	for _, up := range s.After.All {
		p.edge(p.node(up.Object()), n, "then")
	}
}
