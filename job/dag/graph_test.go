package dag

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func build(n int, edges ...[2]int) *Graph {
	g := New(n)
	for _, e := range edges {
		g.Add(e[0], e[1])
	}
	return g
}

func TestOrder(t *testing.T) {
	g := build(5, [2]int{4, 0}, [2]int{4, 2}, [2]int{0, 3}, [2]int{2, 3})
	if got := g.Order(); !slices.Equal(got, []int{1, 4, 0, 2, 3}) {
		t.Errorf("order %v", got)
	}
	if got := g.Levels(); !slices.Equal(got, []int{1, 0, 1, 2, 0}) {
		t.Errorf("levels %v", got)
	}
	if g.Edges() != 4 || g.Len() != 5 || g.Cycle() != nil {
		t.Errorf("%d edges, %d nodes, cycle %v", g.Edges(), g.Len(), g.Cycle())
	}
}

// What Cycle returns is a cycle, and it finds one exactly where Order leaves
// nodes out.
func TestCycle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "n")
		g := New(n)
		for range rapid.IntRange(0, 2*n).Draw(t, "edges") {
			g.Add(rapid.IntRange(0, n-1).Draw(t, "from"), rapid.IntRange(0, n-1).Draw(t, "to"))
		}
		order, cycle := g.Order(), g.Cycle()
		if (cycle == nil) != (len(order) == n) {
			t.Fatalf("order %v, cycle %v", order, cycle)
		}
		for i, c := range cycle {
			next := cycle[(i+1)%len(cycle)]
			if !slices.Contains(g.Children(c), next) || c < cycle[0] || slices.Contains(cycle[i+1:], c) {
				t.Fatalf("%v is no cycle in its form", cycle)
			}
		}
		for i, m := range order {
			for _, p := range g.Parents(m) {
				if !slices.Contains(order[:i], p) {
					t.Fatalf("%d comes before %d in %v", m, p, order)
				}
			}
		}
	})
}
