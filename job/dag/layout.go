package dag

import "slices"

// Layout is a layered drawing of a graph from left to right: each node stands in
// a rank behind those of all that it needs.
type Layout struct {
	Nodes []Point // of each node, its middle
	Edges []Line  // in the order of their targets, and of each target's Parents
	Ranks int
	Rows  float64 // the height: rows of a node each
}

// Point is a place in a layout: its rank, and the row in it. Rows are whole at
// first and then drawn to where edges get straight.
type Point struct {
	Rank int
	Row  float64
}

// Line is an edge's way, from node to node by way of each rank between them; long
// ones of a large graph go straight.
type Line struct {
	From, To int
	Via      []Point
}

// The limits of what a layout costs.
const (
	maxBends   = 200_000   // places of edges in ranks between their ends
	maxSweeps  = 24        // passes that set the order within ranks
	maxVisits  = 3_000_000 // edges looked at by these
	aligning   = 8         // passes that straighten edges
	minSpacing = 1.0       // rows between neighbours of a rank
	bendSpace  = 0.5       // likewise where one of the two is a bend
)

// Lay lays a graph out. Of a cycle, an edge leads back.
func Lay(g *Graph) *Layout {
	if len(g.Order()) == g.Len() {
		return layAcyclic(g)
	}
	turned := g.withoutCycles()
	out := layAcyclic(turned)
	lines := make(map[[2]int]Line, len(out.Edges))
	for _, line := range out.Edges {
		lines[[2]int{line.From, line.To}] = line
	}
	out.Edges = out.Edges[:0]
	for to := range g.Len() {
		for _, from := range g.Parents(to) {
			line, ok := lines[[2]int{from, to}]
			if !ok {
				line = lines[[2]int{to, from}]
				line.From, line.To, line.Via = from, to, slices.Clone(line.Via)
				slices.Reverse(line.Via)
			}
			out.Edges = append(out.Edges, line)
		}
	}
	return out
}

func layAcyclic(g *Graph) *Layout {
	l := newLayering(g)
	l.sweep()
	l.align()
	return l.layout()
}

// withoutCycles returns the graph with some edges turned round, so that none is
// left that leads back; edges from a node to itself are left out.
func (g *Graph) withoutCycles() *Graph {
	order := g.Order()
	place := make([]int, g.Len())
	for n := range place {
		place[n] = len(order) + n
	}
	for i, n := range order {
		place[n] = i
	}
	out := New(g.Len())
	for to := range g.Len() {
		for _, from := range g.Parents(to) {
			switch {
			case place[from] < place[to]:
				out.Add(from, to)
			case place[from] > place[to]:
				out.Add(to, from)
			}
		}
	}
	return out
}

// layering is a graph whose edges go from rank to rank: an edge that passes ranks
// has a bend in each. Nodes come first, bends behind them.
type layering struct {
	g     *Graph
	rank  []int
	up    [][]int // neighbours in the rank before
	down  [][]int // and in the next
	ranks [][]int // of each rank its nodes and bends in order
	place []int   // of each in its rank
	row   []float64
	bends [][]int // of each edge, in the order of Layout.Edges; nil: straight
}

func newLayering(g *Graph) *layering {
	l := &layering{g: g, rank: g.pulled()}
	n := g.Len()
	l.up, l.down = make([][]int, n), make([][]int, n)
	l.bends = make([][]int, 0, g.Edges())
	left := maxBends
	for to := range n {
		for _, from := range g.Parents(to) {
			l.connect(from, to, &left)
		}
	}
	last := -1
	for _, r := range l.rank {
		last = max(last, r)
	}
	l.ranks = make([][]int, last+1)
	l.place = make([]int, len(l.rank))
	for i, r := range l.rank {
		l.place[i] = len(l.ranks[r])
		l.ranks[r] = append(l.ranks[r], i)
	}
	return l
}

// pulled returns each node's rank: its level, but of one that needs nothing the
// rank before the first that needs it, so that its edges are short.
func (g *Graph) pulled() []int {
	rank := g.Levels()
	for n := range rank {
		if len(g.parents[n]) > 0 || len(g.children[n]) == 0 {
			continue
		}
		first := rank[g.children[n][0]]
		for _, c := range g.children[n] {
			first = min(first, rank[c])
		}
		rank[n] = first - 1
	}
	return rank
}

// connect adds an edge with the bends that it needs, as long as there may be more.
func (l *layering) connect(from, to int, left *int) {
	span := l.rank[to] - l.rank[from] - 1
	if span > *left {
		l.bends = append(l.bends, nil)
		return
	}
	*left -= span
	var bends []int
	at := from
	for r := l.rank[from] + 1; r < l.rank[to]; r++ {
		bend := len(l.rank)
		l.rank = append(l.rank, r)
		l.up, l.down = append(l.up, nil), append(l.down, nil)
		l.join(at, bend)
		bends = append(bends, bend)
		at = bend
	}
	l.join(at, to)
	l.bends = append(l.bends, bends)
}

func (l *layering) join(a, b int) {
	l.down[a] = append(l.down[a], b)
	l.up[b] = append(l.up[b], a)
}

func (l *layering) isBend(i int) bool { return i >= l.g.Len() }

func (l *layering) layout() *Layout {
	out := &Layout{Nodes: make([]Point, l.g.Len()), Ranks: len(l.ranks)}
	at := func(i int) Point { return Point{l.rank[i], l.row[i]} }
	for i := range out.Nodes {
		out.Nodes[i] = at(i)
	}
	for i := range l.row {
		out.Rows = max(out.Rows, l.row[i]+1)
	}
	edge := 0
	for to := range l.g.Len() {
		for _, from := range l.g.Parents(to) {
			line := Line{From: from, To: to}
			for _, bend := range l.bends[edge] {
				line.Via = append(line.Via, at(bend))
			}
			out.Edges = append(out.Edges, line)
			edge++
		}
	}
	return out
}
