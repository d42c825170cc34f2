package dag

import (
	"fmt"
	"strings"
)

// Drawing is what is drawn: groups of nodes, one below the other.
type Drawing struct {
	Title  string
	Groups []Group
}

// Group is a part of a drawing with edges of its own.
type Group struct {
	Title string // empty: the group is not named
	Nodes []Node
	Graph *Graph
	// Label names an edge; nil or "": the edge has none.
	Label func(from, to int) string
}

// Node is a node as it is drawn.
type Node struct {
	Name  string
	Note  string // a second line
	Class string // how it looks: see the styles of SVG; empty: as any other
}

func (g *Group) label(from, to int) string {
	if g.Label == nil {
		return ""
	}
	return g.Label(from, to)
}

// DOT writes the drawing in the language of Graphviz.
func (d *Drawing) DOT() string {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %s {\n  rankdir=LR;\n  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n", quoteDOT(d.Title))
	first := 0
	for i := range d.Groups {
		g := &d.Groups[i]
		indent := "  "
		if g.Title != "" {
			fmt.Fprintf(&b, "  subgraph cluster_%d {\n    label=%s;\n", i, quoteDOT(g.Title))
			indent = "    "
		}
		for n, node := range g.Nodes {
			label := escapeDOT(node.Name)
			if node.Note != "" {
				label += `\n` + escapeDOT(node.Note)
			}
			style := ""
			if node.Class != "" {
				style = ", class=" + quoteDOT(node.Class)
			}
			fmt.Fprintf(&b, "%sn%d [label=\"%s\"%s];\n", indent, first+n, label, style)
		}
		g.edges(func(from, to int) {
			style := ""
			if label := g.label(from, to); label != "" {
				style = " [label=" + quoteDOT(label) + "]"
			}
			fmt.Fprintf(&b, "%sn%d -> n%d%s;\n", indent, first+from, first+to, style)
		})
		if g.Title != "" {
			b.WriteString("  }\n")
		}
		first += len(g.Nodes)
	}
	b.WriteString("}\n")
	return b.String()
}

// edges goes through the edges by target and by its Parents.
func (g *Group) edges(visit func(from, to int)) {
	for to := range g.Graph.Len() {
		for _, from := range g.Graph.Parents(to) {
			visit(from, to)
		}
	}
}

func quoteDOT(s string) string { return `"` + escapeDOT(s) + `"` }

var dotEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func escapeDOT(s string) string { return dotEscapes.Replace(s) }

// Mermaid writes the drawing as a Mermaid flow chart.
func (d *Drawing) Mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	first := 0
	for i := range d.Groups {
		g := &d.Groups[i]
		indent := "  "
		if g.Title != "" {
			fmt.Fprintf(&b, "  subgraph g%d[\"%s\"]\n", i, escapeMermaid(g.Title))
			indent = "    "
		}
		for n, node := range g.Nodes {
			label := escapeMermaid(node.Name)
			if node.Note != "" {
				label += "<br/>" + escapeMermaid(node.Note)
			}
			fmt.Fprintf(&b, "%sn%d[\"%s\"]\n", indent, first+n, label)
		}
		g.edges(func(from, to int) {
			arrow := "-->"
			if label := g.label(from, to); label != "" {
				arrow = `-->|"` + escapeMermaid(label) + `"|`
			}
			fmt.Fprintf(&b, "%sn%d %s n%d\n", indent, first+from, arrow, first+to)
		})
		if g.Title != "" {
			b.WriteString("  end\n")
		}
		first += len(g.Nodes)
	}
	return b.String()
}

// Mermaid reads entities in its texts, written with # in place of &.
var mermaidEscapes = strings.NewReplacer("#", "#35;", `"`, "#quot;", "<", "#lt;", ">", "#gt;", "`", "#96;", "\n", " ")

func escapeMermaid(s string) string { return mermaidEscapes.Replace(s) }
