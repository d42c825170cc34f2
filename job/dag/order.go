package dag

import (
	"cmp"
	"slices"
)

// sweep orders the nodes of each rank by the mean place of their neighbours, down
// and up in turn, and keeps the order with the fewest crossings.
func (l *layering) sweep() {
	links := 1
	for _, d := range l.down {
		links += len(d)
	}
	best, crossings := l.save(), l.crossings()
	for pass := range min(maxSweeps, maxVisits/links) {
		if crossings == 0 {
			break
		}
		if pass%2 == 0 {
			for r := 1; r < len(l.ranks); r++ {
				l.sort(r, l.up)
			}
		} else {
			for r := len(l.ranks) - 2; r >= 0; r-- {
				l.sort(r, l.down)
			}
		}
		if n := l.crossings(); n < crossings {
			best, crossings = l.save(), n
		}
	}
	for r := range l.ranks {
		l.ranks[r] = best[r]
		l.number(r)
	}
}

func (l *layering) save() [][]int {
	out := make([][]int, len(l.ranks))
	for r := range out {
		out[r] = slices.Clone(l.ranks[r])
	}
	return out
}

func (l *layering) number(r int) {
	for i, n := range l.ranks[r] {
		l.place[n] = i
	}
}

// sort orders a rank by the means of its neighbours' places; what has none keeps
// its own.
func (l *layering) sort(r int, neighbours [][]int) {
	type keyed struct {
		node int
		mean float64
	}
	row := make([]keyed, len(l.ranks[r]))
	for i, n := range l.ranks[r] {
		row[i] = keyed{n, float64(i)}
		if near := neighbours[n]; len(near) > 0 {
			sum := 0
			for _, m := range near {
				sum += l.place[m]
			}
			row[i].mean = float64(sum) / float64(len(near))
		}
	}
	slices.SortFunc(row, func(a, b keyed) int {
		return cmp.Or(cmp.Compare(a.mean, b.mean), cmp.Compare(l.place[a.node], l.place[b.node]))
	})
	for i := range row {
		l.ranks[r][i] = row[i].node
	}
	l.number(r)
}

// crossings counts the pairs of edges between neighbouring ranks that cross.
func (l *layering) crossings() int {
	total := 0
	var ends []int
	for r := range len(l.ranks) - 1 {
		width := len(l.ranks[r+1])
		tree := make([]int, width+1) // of how many edges end at or before a place
		seen := 0
		for _, n := range l.ranks[r] {
			ends = ends[:0]
			for _, m := range l.down[n] {
				ends = append(ends, l.place[m])
			}
			for _, at := range ends { // those that began before and end behind
				before := 0
				for i := at + 1; i > 0; i -= i & -i {
					before += tree[i]
				}
				total += seen - before
			}
			for _, at := range ends {
				for i := at + 1; i <= width; i += i & -i {
					tree[i]++
				}
			}
			seen += len(ends)
		}
	}
	return total
}

// align moves each node towards the mean row of its neighbours, as far as the
// order of its rank and the space between nodes allow.
func (l *layering) align() {
	l.row = make([]float64, len(l.rank))
	for r := range l.ranks {
		at := 0.0
		for i, n := range l.ranks[r] {
			if i > 0 {
				at += l.space(l.ranks[r][i-1], n)
			}
			l.row[n] = at
		}
	}
	for pass := range aligning {
		if pass%2 == 0 {
			for r := 1; r < len(l.ranks); r++ {
				l.settle(r, l.up)
			}
		} else {
			for r := len(l.ranks) - 2; r >= 0; r-- {
				l.settle(r, l.down)
			}
		}
	}
	low := 0.0
	for i, row := range l.row {
		if i == 0 || row < low {
			low = row
		}
	}
	for i := range l.row {
		l.row[i] -= low
	}
}

func (l *layering) space(a, b int) float64 {
	if l.isBend(a) || l.isBend(b) {
		return bendSpace
	}
	return minSpacing
}

// settle places a rank so that the sum of the squared distances from where its
// nodes want to be is least: those that would come too near to each other move
// together.
func (l *layering) settle(r int, neighbours [][]int) {
	type block struct {
		sum   float64
		count int
	}
	rank := l.ranks[r]
	offset := make([]float64, len(rank)) // of each, were they as near as they may be
	var blocks []block
	for i, n := range rank {
		if i > 0 {
			offset[i] = offset[i-1] + l.space(rank[i-1], n)
		}
		want := l.row[n]
		if near := neighbours[n]; len(near) > 0 {
			want = 0
			for _, m := range near {
				want += l.row[m]
			}
			want /= float64(len(near))
		}
		b := block{want - offset[i], 1}
		for len(blocks) > 0 {
			last := blocks[len(blocks)-1]
			if last.sum*float64(b.count) <= b.sum*float64(last.count) {
				break
			}
			b = block{last.sum + b.sum, last.count + b.count}
			blocks = blocks[:len(blocks)-1]
		}
		blocks = append(blocks, b)
	}
	i := 0
	for _, b := range blocks {
		for range b.count {
			l.row[rank[i]] = b.sum/float64(b.count) + offset[i]
			i++
		}
	}
}
