package definition

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

// What is to be done with an object.
const (
	Create    = "create"
	Change    = "change"
	Delete    = "delete"
	Unchanged = "unchanged"
	// TakeOver: the definition is as in the file, and is to be noted as of this set.
	TakeOver = "take_over"
	// Left: the set had created it, no file has it any more, and a prune would delete it.
	Left = "left"
)

// Step is what is to be done with one object, and, once it is done, what was.
type Step struct {
	Kind        string       `json:"kind"`
	Name        string       `json:"name"`
	Action      string       `json:"action"`
	File        string       `json:"file,omitempty"`
	Line        int          `json:"line,omitempty"`
	Version     uint64       `json:"version,omitempty"` // before a plan, after an apply
	Differences []Difference `json:"differences,omitempty"`
	Next        []string     `json:"next,omitempty"`         // its next fires
	OldSet      string       `json:"old_file_set,omitempty"` // that it is of, where that is another
	kind        *Kind
	spec        any
	set         string // to be noted; empty: what is noted stays
}

// Options say how files and cluster are brought together.
type Options struct {
	Set   string // the name of the set of files
	Prune bool   // delete what the set created and no longer has
	Adopt bool   // take over objects that no file, or another set, has created
}

// Plan is the difference between files and a cluster.
type Plan struct {
	Namespace string `json:"namespace"`
	Set       string `json:"file_set"`
	Steps     []Step `json:"steps"`
	client    *client.Client
}

// Compare plans what makes a cluster have what the files define. It changes nothing.
func (s *Set) Compare(ctx context.Context, c *client.Client, o Options) (*Plan, error) {
	if e := job.ValidateName("--set", o.Set); e != nil {
		return nil, e
	}
	if err := s.In(c.Namespace()); err != nil {
		return nil, err
	}
	p := &Plan{Namespace: c.Namespace(), Set: o.Set, Steps: []Step{}, client: c}
	stored := map[*Kind]map[string]Stored{}
	var err error
	for _, k := range kinds {
		if stored[k], err = k.everything(ctx, c); err != nil {
			return nil, err
		}
	}
	var wrong []error
	for _, m := range s.missing {
		switch old, ok := stored[kindNamed(m.ref.Kind)][m.ref.Name]; {
		case !ok:
			wrong = append(wrong, m.by.at(job.Invalid(m.ref.Path, "must name a "+m.ref.Kind+" that a file defines or the cluster has", m.ref.Name)))
		case o.Prune && old.Set == o.Set:
			wrong = append(wrong, m.by.at(job.Invalid(m.ref.Path,
				"must name a "+m.ref.Kind+" that a file defines: --prune would delete the one that the cluster has", m.ref.Name)))
		}
	}
	if err := errors.Join(wrong...); err != nil {
		return nil, err
	}
	mine, in := map[string]bool{}, s.preview(c.Namespace(), stored)
	for _, obj := range s.Objects {
		mine[obj.Kind.Name+" "+obj.Name] = true
		step, err := compareObject(obj, stored[obj.Kind], o)
		if err != nil {
			return nil, err
		}
		if obj.Kind.next != nil && step.Action != Unchanged {
			in.Name = obj.Name
			step.Next = obj.Kind.next(obj.Spec, in)
		}
		p.Steps = append(p.Steps, step)
	}
	for _, k := range slices.Backward(kinds) {
		for _, name := range k.namingFirst(stored[k]) {
			if old := stored[k][name]; old.Set == o.Set && !mine[k.Name+" "+name] {
				step := Step{Kind: k.Name, Name: name, Action: Left, Version: old.Version, kind: k}
				if o.Prune {
					step.Action = Delete
				}
				p.Steps = append(p.Steps, step)
			}
		}
	}
	return p, nil
}

func compareObject(o *Object, stored map[string]Stored, opt Options) (Step, error) {
	step := Step{Kind: o.Kind.Name, Name: o.Name, Action: Create, File: o.File, Line: o.Line, kind: o.Kind, spec: o.Spec, set: opt.Set}
	old, ok := stored[o.Name]
	if !ok {
		return step, nil
	}
	differences, err := diff(old.Spec, o.Spec)
	if err != nil {
		return step, fmt.Errorf("%s: %w", where(o.File, o.Line, ""), err)
	}
	step.Version, step.Differences = old.Version, differences
	switch {
	case len(differences) > 0:
		step.Action = Change
	case old.Set != opt.Set && opt.Adopt:
		step.Action = TakeOver
	default:
		step.Action = Unchanged
	}
	if old.Set != opt.Set {
		step.OldSet = old.Set
		if !opt.Adopt {
			step.set = ""
		}
	}
	return step, nil
}

// Count tells how many steps have one of the actions.
func (p *Plan) Count(actions ...string) int {
	n := 0
	for _, s := range p.Steps {
		if slices.Contains(actions, s.Action) {
			n++
		}
	}
	return n
}

// Changes tells how many steps change something.
func (p *Plan) Changes() int { return p.Count(Create, Change, Delete, TakeOver) }

// Apply does what the plan says, one object after another, and returns what was done.
// Where one fails, those before it stay done and those behind it are left.
func (p *Plan) Apply(ctx context.Context) ([]Step, error) {
	var done []Step
	for i, s := range p.Steps {
		var err error
		switch s.Action {
		case Create, Change, TakeOver:
			var version uint64
			version, err = s.kind.put(ctx, p.client, s.Name, s.set, s.spec)
			if err == nil && s.Action == Change && version == s.Version {
				s.Action = Unchanged // the server sees no difference
			}
			s.Version = cmp.Or(version, s.Version)
		case Delete:
			err = s.kind.remove(ctx, p.client, s.Name)
		}
		if err != nil {
			return done, fmt.Errorf("%s %q: %w\n%s before it took effect, %d behind it did not; repeat to go on",
				s.Kind, s.Name, err, count(len(done), "object"), len(p.Steps)-i-1)
		}
		done = append(done, s)
	}
	return done, nil
}
