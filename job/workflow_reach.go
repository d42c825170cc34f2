package job

import (
	"fmt"
	"strconv"

	"github.com/axd-project/axd/job/dag"
)

// maxReach bounds the needs that validateReach looks at. What it hasn't found by
// then is accepted: such a step is skipped in every run.
const maxReach = 4_000_000

// demand is what a step's rule asks of a step that it needs.
type demand uint8

const (
	demandNone    demand = iota // it may end as it likes
	demandSuccess               // it must succeed
	demandFailure               // it must fail
	demandNoFail                // it must succeed or be skipped
)

// demands is what a step asks of each step it needs.
func (s *Step) demands() demand {
	rule := s.RuleOrDefault()
	switch {
	case rule == AllSuccess, rule == OneSuccess && len(s.Needs) == 1, rule == NoneFailedMinSuccess && len(s.Needs) == 1:
		return demandSuccess
	case rule == AllFailed, rule == OneFailed && len(s.Needs) == 1:
		return demandFailure
	case rule == NoneFailed, rule == NoneFailedMinSuccess:
		return demandNoFail
	}
	return demandNone
}

// validateReach refuses a step that can run in no run, since it asks of another
// that it fails and, on another way, that it doesn't.
func (s *Section) validateReach() *Error {
	var g *dag.Graph
	left := maxReach
	looked := make([]bool, len(s.Steps))
	for i := range s.Steps {
		if s.Steps[i].demands() != demandFailure {
			continue
		}
		if g == nil {
			g = s.Graph()
		}
		for _, x := range g.Parents(i) {
			if looked[x] {
				continue
			}
			looked[x] = true
			if e := s.contradiction(g, x, &left); e != nil || left <= 0 {
				return e
			}
		}
	}
	return nil
}

// contradiction looks for a step that runs only if x has failed and only if it
// hasn't.
func (s *Section) contradiction(g *dag.Graph, x int, left *int) *Error {
	failed := s.implied(g, x, left, func(d demand) bool { return d == demandFailure })
	others := s.implied(g, x, left, func(d demand) bool { return d == demandSuccess || d == demandNoFail })
	for c := range s.Steps { // in order, so that the message is always the same
		if _, ok := failed[c]; !ok {
			continue
		}
		if _, ok := others[c]; ok {
			name := strconv.Quote(s.Steps[x].Name)
			return Invalid(StepPath(s.Name, c)+".rule",
				fmt.Sprintf("can never hold: %s would have to fail (%s) and not to fail (%s)",
					name, s.way(failed, x, c), s.way(others, x, c)), string(s.Steps[c].RuleOrDefault()))
		}
	}
	return nil
}

// implied finds the steps that run only if x has ended as is meant: those that ask
// it of x, and those that ask success of one of these. Each is mapped to the step
// by which it was found.
func (s *Section) implied(g *dag.Graph, x int, left *int, meant func(demand) bool) map[int]int {
	from := map[int]int{}
	var queue []int
	add := func(n, by int) {
		if _, ok := from[n]; !ok {
			from[n] = by
			queue = append(queue, n)
		}
	}
	for _, c := range g.Children(x) {
		if meant(s.Steps[c].demands()) {
			add(c, x)
		}
	}
	for len(queue) > 0 && *left > 0 {
		n := queue[0]
		queue = queue[1:]
		*left -= 1 + len(g.Children(n))
		for _, c := range g.Children(n) {
			if s.Steps[c].demands() == demandSuccess {
				add(c, n)
			}
		}
	}
	return from
}

func (s *Section) way(from map[int]int, x, c int) string {
	way := []int{c}
	for n := c; n != x; {
		n = from[n]
		way = append(way, n)
	}
	for i, j := 0, len(way)-1; i < j; i, j = i+1, j-1 {
		way[i], way[j] = way[j], way[i]
	}
	return s.path(way)
}
