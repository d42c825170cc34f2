package definition

import (
	"maps"
	"slices"
	"strings"

	"github.com/axd-project/axd/job"
)

// loops tells of schedules that would wait for what they bring about themselves: a
// schedule fires a job or a workflow, a workflow runs jobs and other workflows, and
// each of them is waited for by schedules.
func (s *Set) loops(known map[key]*Object) (wrong []error) {
	leads := map[*Object][]*Object{}
	for _, o := range s.Objects {
		for _, r := range o.Kind.refs(o.Spec) {
			other := known[key{o.Namespace, r.Kind, r.Name}]
			switch {
			case other == nil || o.Kind == jobs:
			case strings.HasPrefix(r.Path, "after."):
				leads[other] = append(leads[other], o)
			default:
				leads[o] = append(leads[o], other)
			}
		}
	}
	seen := map[*Object]bool{}
	var way []*Object // from where the visits began to here
	var visit func(o *Object)
	visit = func(o *Object) {
		seen[o] = true
		way = append(way, o)
		for _, next := range leads[o] {
			if i := slices.Index(way, next); i >= 0 {
				wrong = append(wrong, loop(way[i:])...)
			}
			if !seen[next] {
				visit(next)
			}
		}
		way = way[:len(way)-1]
	}
	for _, o := range s.Objects {
		if !seen[o] {
			visit(o)
		}
	}
	return wrong
}

// loop tells of a circle at the first schedule in it; one of workflows alone is told
// of elsewhere.
func loop(circle []*Object) []error {
	first := slices.IndexFunc(circle, func(o *Object) bool { return o.Kind == schedules })
	if first < 0 {
		return nil
	}
	var path []string
	for _, o := range slices.Concat(circle[first:], circle[:first+1]) {
		path = append(path, o.Kind.Name+" "+o.Name)
	}
	at := circle[first]
	return []error{at.at(job.Invalid("after", "must not wait for what the schedule itself brings about: "+job.JoinPath(path), at.Name))}
}

// namingFirst sorts what is stored by name, and what names others of its kind before
// them: in that order it can be deleted.
func (k *Kind) namingFirst(stored map[string]Stored) (order []string) {
	seen := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		seen[name] = true
		for _, r := range k.refs(stored[name].Spec) {
			if _, ok := stored[r.Name]; ok && r.Kind == k.Name && !seen[r.Name] {
				visit(r.Name)
			}
		}
		order = append(order, name)
	}
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(stored))) {
		if !seen[name] {
			visit(name)
		}
	}
	slices.Reverse(order)
	return order
}
