package job

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// RouteStrategy tells which of the workers that fit gets a task.
type RouteStrategy string

// The strategies. The empty string means LeastLoaded.
const (
	LeastLoaded RouteStrategy = "least_loaded" // the one with the smallest share of its slots taken
	RoundRobin  RouteStrategy = "round_robin"  // each in turn, by name
	Random      RouteStrategy = "random"       // any of them, drawn by the leader
	Broadcast   RouteStrategy = "broadcast"    // all of them: a task of its own for each
)

// MaxBroadcast is how many workers a broadcast may go to.
const MaxBroadcast = 1000

// Route tells which workers may get a task, beside its selector, and which of them
// does.
type Route struct {
	Require  []string      `msgpack:"r,omitempty" json:"require,omitempty"`  // all must hold of the worker's labels, such as "cores >= 8"; see ParseRequirement
	Strategy RouteStrategy `msgpack:"s,omitempty" json:"strategy,omitempty"` // least_loaded (default), round_robin, random, broadcast
	Sticky   string        `msgpack:"k,omitempty" json:"sticky,omitempty"`   // tasks of one key go to one worker, as long as it is there; excludes strategy
}

// The limits of a Route.
const (
	MaxRequirements    = 32
	maxRequirement     = 1024 // bytes
	maxRequirementList = 64   // values
	MaxSticky          = 255  // bytes
)

// Validate checks the route. Fields are named below "route".
func (r Route) Validate() *Error {
	if len(r.Require) > MaxRequirements {
		return invalidNumber("route.require", fmt.Sprintf("must be at most %d", MaxRequirements), len(r.Require))
	}
	for i, text := range r.Require {
		if _, rule := ParseRequirement(text); rule != "" {
			return Invalid(fmt.Sprintf("route.require[%d]", i), rule, text)
		}
	}
	switch r.Strategy {
	case "", LeastLoaded, RoundRobin, Random, Broadcast:
	default:
		return Invalid("route.strategy", "must be least_loaded, round_robin, random or broadcast", string(r.Strategy))
	}
	if e := validateText("route.sticky", r.Sticky, MaxSticky, ""); e != nil {
		return e
	}
	if r.Sticky != "" && r.Strategy != "" {
		return Invalid("route.strategy", "must not be given beside sticky, which chooses the worker", string(r.Strategy))
	}
	return nil
}

// Broadcasts reports whether the policy sends a task to every worker that fits.
func (p *Policy) Broadcasts() bool { return p.Route != nil && p.Route.Strategy == Broadcast }

// Requirement is one comparison of a worker's label.
type Requirement struct {
	Key    string
	Op     string   // one of = != in notin exists !exists > < >= <=
	Values []string // one, but of in and notin
	Text   string   // as it was given
	number float64  // of > < >= <=
}

const requirementRule = `must be a comparison of a label: "gpu = a100", "zone != eu", "zone in (eu, us)", "zone notin (eu, us)", ` +
	`"gpu exists", "!gpu", "cores >= 8" (also >, <, <=)`

// ParseRequirement reads a comparison; rule tells what is wrong with it, empty:
// nothing. A label that the worker lacks differs from every value and is in no
// list; > < >= <= compare numbers and fail where the label is none.
func ParseRequirement(text string) (r Requirement, rule string) {
	if len(text) > maxRequirement || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return r, requirementRule
	}
	s := strings.TrimSpace(text)
	r.Text = s
	negated := strings.HasPrefix(s, "!")
	s = strings.TrimSpace(strings.TrimPrefix(s, "!"))
	n := 0
	for n < len(s) && isNameLike(s[:n+1], "._-/") {
		n++
	}
	r.Key, s = s[:n], strings.TrimSpace(s[n:])
	if r.Key == "" || len(r.Key) > MaxLabelKey {
		return r, requirementRule
	}
	if negated || s == "" || s == "exists" {
		r.Op = "exists"
		if negated {
			r.Op = "!exists"
		}
		if negated && s != "" {
			return r, requirementRule
		}
		return r, ""
	}
	return r, r.parseValues(s)
}

// parseValues reads the operator and what follows it.
func (r *Requirement) parseValues(s string) (rule string) {
	for _, op := range []string{"notin", "in", "!=", ">=", "<=", "==", "=", ">", "<"} {
		rest, ok := strings.CutPrefix(s, op)
		if !ok {
			continue
		}
		r.Op = strings.Replace(op, "==", "=", 1)
		rest = strings.TrimSpace(rest)
		if op == "in" || op == "notin" {
			inner, opened := strings.CutPrefix(rest, "(")
			inner, closed := strings.CutSuffix(inner, ")")
			if !opened || !closed {
				return requirementRule
			}
			for v := range strings.SplitSeq(inner, ",") {
				r.Values = append(r.Values, strings.TrimSpace(v))
			}
			if len(r.Values) > maxRequirementList || slices.Contains(r.Values, "") {
				return fmt.Sprintf("must list 1 to %d values", maxRequirementList)
			}
			return ""
		}
		r.Values = []string{rest}
		if op[0] != '>' && op[0] != '<' {
			return ""
		}
		if r.number, ok = number(rest); !ok {
			return "must compare with a number"
		}
		return ""
	}
	return requirementRule
}

func number(s string) (float64, bool) {
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
}

// Holds reports whether the requirement is met by a worker's labels.
func (r *Requirement) Holds(labels map[string]string) bool {
	v, ok := labels[r.Key]
	switch r.Op {
	case "exists":
		return ok
	case "!exists":
		return !ok
	case "=", "in":
		return ok && slices.Contains(r.Values, v)
	case "!=", "notin":
		return !ok || !slices.Contains(r.Values, v)
	}
	n, isNumber := number(v)
	if !ok || !isNumber {
		return false
	}
	switch r.Op {
	case ">":
		return n > r.number
	case "<":
		return n < r.number
	case ">=":
		return n >= r.number
	}
	return n <= r.number
}
