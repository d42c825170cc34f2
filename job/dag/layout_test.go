package dag

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

// drawing is a small one with what is hard to write: names to escape, a long
// edge, a cross, two groups.
func drawing() *Drawing {
	g := build(7, [2]int{0, 1}, [2]int{0, 2}, [2]int{1, 4}, [2]int{2, 3}, [2]int{3, 5}, [2]int{4, 5}, [2]int{0, 5}, [2]int{6, 5})
	nodes := []Node{{Name: "extract"}, {Name: "clean"}, {Name: `say "<hi>" #1`, Note: "when a > b"}, {Name: "d\\"}, {Name: "e"},
		{Name: "report", Class: "workflow"}, {Name: "late"}}
	label := func(from, to int) string {
		if from == 6 && to == 5 {
			return `"after"`
		}
		return ""
	}
	tell := New(1)
	return &Drawing{Title: "etl", Groups: []Group{{Nodes: nodes, Graph: g, Label: label}, {Title: "on_failure", Nodes: []Node{{Name: "tell"}}, Graph: tell}}}
}

func TestGolden(t *testing.T) {
	for name, got := range map[string]string{
		"drawing.dot": drawing().DOT(), "drawing.mmd": drawing().Mermaid(), "drawing.svg": drawing().SVG(),
	} {
		file := filepath.Join("testdata", name)
		if *rewrite {
			if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
}

// An SVG is XML, whatever the nodes are called.
func TestSVGIsXML(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.String().Draw(t, "name")
		d := Drawing{Title: name, Groups: []Group{{Title: name, Nodes: []Node{{Name: name, Note: name, Class: name}}, Graph: New(1)}}}
		if err := wellFormed(d.SVG()); err != nil {
			t.Fatal(err)
		}
	})
}

func wellFormed(s string) error {
	dec := xml.NewDecoder(strings.NewReader(s))
	for {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// Each node stands behind what it needs, and neighbours of a rank don't overlap.
func TestLayoutRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 30).Draw(t, "n")
		g := New(n)
		for to := 1; to < n; to++ {
			for range rapid.IntRange(0, 3).Draw(t, "needs") {
				g.Add(rapid.IntRange(0, to-1).Draw(t, "from"), to)
			}
		}
		l := Lay(g)
		if len(l.Edges) != g.Edges() || len(l.Nodes) != n {
			t.Fatalf("%d edges, %d nodes", len(l.Edges), len(l.Nodes))
		}
		for _, e := range l.Edges {
			from, to := l.Nodes[e.From].Rank, l.Nodes[e.To].Rank
			if from >= to || len(e.Via) != to-from-1 {
				t.Fatalf("edge %+v from rank %d to %d", e, from, to)
			}
			for i, p := range e.Via {
				if p.Rank != from+1+i {
					t.Fatalf("edge %+v from rank %d", e, from)
				}
			}
		}
		for i, a := range l.Nodes {
			if a.Row < 0 || a.Row+1 > l.Rows+1e-6 || a.Rank >= l.Ranks {
				t.Fatalf("%+v lies outside %d ranks of %v rows", a, l.Ranks, l.Rows)
			}
			for _, b := range l.Nodes[:i] {
				if d := a.Row - b.Row; a.Rank == b.Rank && d > -minSpacing+1e-6 && d < minSpacing-1e-6 {
					t.Fatalf("%+v and %+v overlap", a, b)
				}
			}
		}
	})
}

// Graphs with cycles are drawn too, with all their edges: what files define may
// lead back over several objects.
func TestCyclesAreDrawn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 10).Draw(t, "n")
		g := New(n)
		nodes := make([]Node, n)
		for range rapid.IntRange(0, 3*n).Draw(t, "edges") {
			g.Add(rapid.IntRange(0, n-1).Draw(t, "from"), rapid.IntRange(0, n-1).Draw(t, "to"))
		}
		l := Lay(g)
		if len(l.Edges) != g.Edges() {
			t.Fatalf("%d of %d edges", len(l.Edges), g.Edges())
		}
		i := 0
		for to := range n {
			for _, from := range g.Parents(to) {
				if e := l.Edges[i]; e.From != from || e.To != to {
					t.Fatalf("edge %d is %+v, not %d to %d", i, e, from, to)
				}
				i++
			}
		}
		d := Drawing{Groups: []Group{{Nodes: nodes, Graph: g}}}
		if err := wellFormed(d.SVG()); err != nil {
			t.Fatal(err)
		}
	})
}

// A few crossings are avoidable here, and are avoided.
func TestSweepAvoidsCrossings(t *testing.T) {
	g := New(8)
	for i := range 4 {
		g.Add(i, 7-i)
	}
	l := newLayering(g)
	if l.crossings() != 6 {
		t.Errorf("%d crossings before", l.crossings())
	}
	if l.sweep(); l.crossings() != 0 {
		t.Errorf("%d crossings after", l.crossings())
	}
	straight := Lay(g)
	for i := range 4 {
		if straight.Nodes[i].Row != straight.Nodes[7-i].Row {
			t.Errorf("the edge from %d isn't straight: %+v", i, straight.Nodes)
		}
	}
}

// K6-05: neither a long chain nor a large graph is too much to draw.
func TestK6_05_LargeGraphsAreDrawn(t *testing.T) {
	const n = 2000
	chain, dense, skewed := New(5*n), New(n), New(n)
	for i := 1; i < 5*n; i++ {
		chain.Add(i-1, i)
	}
	for i := 1; i < n; i++ {
		for k := range 10 {
			dense.Add((i*7919+k*104729)%i, i)
		}
		skewed.Add(i-1, i) // each needs the one before and the first: edges over all ranks
		if i > 1 {
			skewed.Add(0, i)
		}
	}
	for name, g := range map[string]*Graph{"chain": chain, "dense": dense, "skewed": skewed} {
		nodes := make([]Node, g.Len())
		for i := range nodes {
			nodes[i].Name = "s" + strconv.Itoa(i)
		}
		began := time.Now()
		d := Drawing{Title: name, Groups: []Group{{Nodes: nodes, Graph: g}}}
		svg := d.SVG()
		t.Logf("%s: %v, %d bytes", name, time.Since(began), len(svg))
		if err := wellFormed(svg); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
