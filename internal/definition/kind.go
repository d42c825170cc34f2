package definition

import (
	"context"
	"fmt"
	"slices"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

const pageSize = 1000

// Kind is one kind of definition.
type Kind struct {
	Name   string
	rank   int                         // place in kinds
	spec   func() any                  // a pointer to read fields into; the functions below are given it
	check  func(spec any) error        // what can be told from the definition alone
	warn   func(spec any) []*job.Error // what is allowed and still likely a mistake
	refs   func(spec any) []Ref
	next   func(spec any, in Preview) []string // its next fires; nil: it has none
	list   func(ctx context.Context, c *client.Client, cursor string) ([]Stored, string, error)
	put    func(ctx context.Context, c *client.Client, name, set string, spec any) (version uint64, err error)
	remove func(ctx context.Context, c *client.Client, name string) error
}

// Ref is an object that another one names.
type Ref struct{ Kind, Name, Path string }

// Stored is an object as the cluster has it.
type Stored struct {
	Name    string
	Version uint64
	Set     string
	Spec    any
}

// row is a kind by the type of its definitions.
type row[S any] struct {
	check  func(*S) error
	warn   func(*S) []*job.Error
	refs   func(*S) []Ref
	next   func(*S, Preview) []string
	list   func(context.Context, *client.Client, string) ([]Stored, string, error)
	put    func(ctx context.Context, c *client.Client, name, set string, s *S) (uint64, error)
	remove func(*client.Client, context.Context, string) error
}

func (r row[S]) kind(name string) *Kind {
	of := func(spec any) *S { return spec.(*S) } //nolint:forcetypeassert // spec makes no other
	k := &Kind{
		Name: name, list: r.list,
		spec:  func() any { return new(S) },
		check: func(spec any) error { return r.check(of(spec)) },
		warn:  func(any) []*job.Error { return nil },
		refs:  func(any) []Ref { return nil },
		put: func(ctx context.Context, c *client.Client, name, set string, spec any) (uint64, error) {
			return r.put(ctx, c, name, set, of(spec))
		},
		remove: func(ctx context.Context, c *client.Client, name string) error { return r.remove(c, ctx, name) },
	}
	if r.warn != nil {
		k.warn = func(spec any) []*job.Error { return r.warn(of(spec)) }
	}
	if r.refs != nil {
		k.refs = func(spec any) []Ref { return r.refs(of(spec)) }
	}
	if r.next != nil {
		k.next = func(spec any, in Preview) []string { return r.next(of(spec), in) }
	}
	return k
}

func init() {
	for i, k := range kinds {
		k.rank = i
	}
}

func kindNamed(name string) *Kind {
	if i := slices.IndexFunc(kinds, func(k *Kind) bool { return k.Name == name }); i >= 0 {
		return kinds[i]
	}
	return nil
}

// kindRule says which kinds there are.
func kindRule() string {
	rule := "must be " + kinds[0].Name
	for i, k := range kinds[1:] {
		if i == len(kinds)-2 {
			rule += " or " + k.Name
		} else {
			rule += ", " + k.Name
		}
	}
	return rule
}

// refs drops those that name nothing.
func refs(all ...Ref) []Ref {
	return slices.DeleteFunc(all, func(r Ref) bool { return r.Name == "" })
}

func all[T any](list []T, stored func(T) Stored) []Stored {
	out := make([]Stored, 0, len(list))
	for _, item := range list {
		out = append(out, stored(item))
	}
	return out
}

func orNil(e *job.Error) error {
	if e == nil {
		return nil
	}
	return e
}

// everything reads all objects of a kind.
func (k *Kind) everything(ctx context.Context, c *client.Client) (map[string]Stored, error) {
	found := map[string]Stored{}
	for cursor := ""; ; {
		page, next, err := k.list(ctx, c, cursor)
		if err != nil {
			return nil, fmt.Errorf("list %ss: %w", k.Name, err)
		}
		for _, s := range page {
			found[s.Name] = s
		}
		if cursor = next; cursor == "" {
			return found, nil
		}
	}
}
