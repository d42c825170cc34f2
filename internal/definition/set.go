package definition

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/axd-project/axd/job"
)

// Set is what some files define together.
type Set struct {
	Files    int
	Objects  []*Object // in the order in which they are applied
	Warnings []string
	missing  []missing
}

// missing is a reference to what the files don't define.
type missing struct {
	by  *Object
	ref Ref
}

// Load reads files and directories, checks each definition and what they say of
// each other. All that is wrong is told at once.
func Load(names []string, stdin io.Reader) (*Set, error) {
	files, err := Files(names)
	if err != nil {
		return nil, err
	}
	s := &Set{Files: len(files)}
	var wrong []error
	for _, name := range files {
		data, err := content(name, stdin)
		if err != nil {
			return nil, err
		}
		found, err := parse(name, data, "", kindNamed)
		if err != nil {
			wrong = append(wrong, err)
		}
		s.Objects = append(s.Objects, found...)
		if len(s.Objects) > maxObjects {
			return nil, job.Invalid(name, "is too much: at most "+strconv.Itoa(maxObjects)+" definitions are taken at once", "")
		}
	}
	if len(s.Objects) == 0 && len(wrong) == 0 {
		return nil, job.Invalid(names[0], "holds no definition", "")
	}
	wrong = append(wrong, s.join(len(wrong) > 0)...)
	return s, errors.Join(wrong...)
}

// key names an object among those of a set.
type key struct{ namespace, kind, name string }

func (o *Object) key() key { return key{o.Namespace, o.Kind.Name, o.Name} }

// join checks the objects against each other and puts them into order. Where some
// could not be read, what seems to be missing may be among those.
func (s *Set) join(incomplete bool) []error {
	var wrong []error
	known := make(map[key]*Object, len(s.Objects))
	for _, o := range s.Objects {
		if first, doubled := known[o.key()]; doubled {
			wrong = append(wrong, job.Invalid(where(o.File, o.line("name"), "name"),
				"must differ from that of the "+o.Kind.Name+" at "+where(first.File, first.Line, ""), o.Name))
			continue
		}
		known[o.key()] = o
		for _, e := range o.Kind.warn(o.Spec) {
			s.Warnings = append(s.Warnings, o.at(e).Error())
		}
	}
	for _, o := range s.Objects {
		for _, r := range o.Kind.refs(o.Spec) {
			if known[key{o.Namespace, r.Kind, r.Name}] == nil && !incomplete {
				s.missing = append(s.missing, missing{o, r})
			}
		}
	}
	order, cycles := s.order(known)
	s.Objects = order
	return slices.Concat(wrong, cycles, s.loops(known))
}

// order sorts the objects by kind and, within one, each behind those that it names.
// Where workflows start each other in a circle, no run of them would end.
func (s *Set) order(known map[key]*Object) (order []*Object, cycles []error) {
	sorted := slices.Clone(s.Objects)
	slices.SortStableFunc(sorted, func(a, b *Object) int { return cmp.Compare(a.Kind.rank, b.Kind.rank) })
	seen := make(map[*Object]bool, len(sorted))
	var way []*Object // from where the visits began to here
	var visit func(o *Object)
	visit = func(o *Object) {
		seen[o] = true
		way = append(way, o)
		for _, r := range o.Kind.refs(o.Spec) {
			next := known[key{o.Namespace, r.Kind, r.Name}]
			if next == nil || next.Kind != o.Kind {
				continue
			}
			if i := slices.Index(way, next); i >= 0 && o.Kind == workflows {
				cycles = append(cycles, o.at(job.Invalid(r.Path, "must not close a cycle: "+job.JoinPath(append(names(way[i:]), next.Name)), r.Name)))
			}
			if !seen[next] {
				visit(next)
			}
		}
		way = way[:len(way)-1]
		order = append(order, o)
	}
	for _, o := range sorted {
		if !seen[o] {
			visit(o)
		}
	}
	return order, cycles
}

func names(way []*Object) (all []string) {
	for _, o := range way {
		all = append(all, o.Name)
	}
	return all
}

// Missing tells of what is named and not defined in the files.
func (s *Set) Missing() []string {
	var told []string
	for _, m := range s.missing {
		told = append(told, m.by.at(job.Invalid(m.ref.Path, "no file defines this "+m.ref.Kind+"; it must be in the cluster already", m.ref.Name)).Error())
	}
	return told
}

// In tells whether the objects may go into a namespace: each must be of it, or say
// nothing. Those that say nothing then are of it.
func (s *Set) In(namespace string) error {
	var wrong []error
	for _, o := range s.Objects {
		if o.Namespace != "" && o.Namespace != namespace {
			wrong = append(wrong, o.at(job.Invalid("namespace", "must be the one asked for, "+strconv.Quote(namespace)+" (--namespace)", o.Namespace)))
		}
	}
	return errors.Join(wrong...)
}

// Summary counts the objects by kind.
func (s *Set) Summary() string {
	text := ""
	for _, k := range []*Kind{jobs, calendars, workflows, schedules} {
		n := 0
		for _, o := range s.Objects {
			if o.Kind == k {
				n++
			}
		}
		if n > 0 {
			text += ", " + count(n, k.Name)
		}
	}
	return text[min(len(text), len(", ")):]
}

func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
