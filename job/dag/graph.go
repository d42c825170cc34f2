// Package dag knows directed graphs of numbered nodes: their order, their cycles,
// and how they are drawn. Nothing in it recurses, so that a chain of any length
// costs no stack.
package dag

import "container/heap"

// Graph holds nodes 0 to Len()-1 and edges between them.
type Graph struct {
	parents  [][]int
	children [][]int
	edges    int
}

// New returns a graph of n nodes without edges.
func New(n int) *Graph {
	return &Graph{parents: make([][]int, n), children: make([][]int, n)}
}

// Add adds an edge: the node to needs the node from.
func (g *Graph) Add(from, to int) {
	g.children[from] = append(g.children[from], to)
	g.parents[to] = append(g.parents[to], from)
	g.edges++
}

// Len returns the number of nodes.
func (g *Graph) Len() int { return len(g.parents) }

// Edges returns the number of edges.
func (g *Graph) Edges() int { return g.edges }

// Parents returns what a node needs, as it was added. It must not be changed.
func (g *Graph) Parents(n int) []int { return g.parents[n] }

// Children returns what needs a node. It must not be changed.
func (g *Graph) Children(n int) []int { return g.children[n] }

// Order returns the nodes so that each comes behind all that it needs; of those
// that could be next, the one with the lowest number is. Nodes on a cycle, or
// behind one, are missing.
func (g *Graph) Order() []int {
	missing := make([]int, g.Len())
	var ready numbers
	for n, parents := range g.parents {
		if missing[n] = len(parents); missing[n] == 0 {
			ready = append(ready, n)
		}
	}
	order := make([]int, 0, g.Len())
	for len(ready) > 0 {
		n := heap.Pop(&ready).(int)
		order = append(order, n)
		for _, c := range g.children[n] {
			if missing[c]--; missing[c] == 0 {
				heap.Push(&ready, c)
			}
		}
	}
	return order
}

// Cycle returns the nodes of one cycle, each needed by the next and the last by
// the first; nil where there is none. It begins with its lowest number.
func (g *Graph) Cycle() []int {
	order := g.Order()
	if len(order) == g.Len() {
		return nil
	}
	left := make([]bool, g.Len())
	for n := range left {
		left[n] = true
	}
	for _, n := range order {
		left[n] = false
	}
	at := 0
	for !left[at] {
		at++
	}
	// Each node that is left needs another one that is left, so the walk comes back
	// to where it has been.
	seen := make(map[int]int)
	var walk []int
	for {
		if begin, ok := seen[at]; ok {
			walk = walk[begin:]
			break
		}
		seen[at] = len(walk)
		walk = append(walk, at)
		for _, p := range g.parents[at] {
			if left[p] {
				at = p
				break
			}
		}
	}
	return forwards(walk)
}

// forwards turns a walk from node to what it needs round, so that it begins with
// its lowest number.
func forwards(walk []int) []int {
	low := 0
	for i, n := range walk {
		if n < walk[low] {
			low = i
		}
	}
	cycle := make([]int, len(walk))
	for i := range cycle {
		cycle[i] = walk[(low-i+len(walk))%len(walk)]
	}
	return cycle
}

// Levels returns for each node of a graph without cycle the length of the longest
// way to it.
func (g *Graph) Levels() []int {
	level := make([]int, g.Len())
	for _, n := range g.Order() {
		for _, c := range g.children[n] {
			level[c] = max(level[c], level[n]+1)
		}
	}
	return level
}

// numbers is a heap.
type numbers []int

func (h numbers) Len() int           { return len(h) }
func (h numbers) Less(i, j int) bool { return h[i] < h[j] }
func (h numbers) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *numbers) Push(x any) { *h = append(*h, x.(int)) }

// Pop implements heap.Interface.
func (h *numbers) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
