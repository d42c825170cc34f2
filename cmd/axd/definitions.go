package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/internal/definition"
)

// defined is an object to be put.
type defined[S any] struct {
	name string
	spec S
}

// readDefinitions reads and checks a whole file of definitions of one kind.
func readDefinitions[S any](kind, file string, stdin io.Reader, namespace string) ([]defined[S], error) {
	objects, err := definition.ReadKind(file, stdin, kind, namespace)
	var all []defined[S]
	for _, o := range objects {
		if spec, ok := o.Spec.(*S); ok {
			all = append(all, defined[S]{o.Name, *spec})
		}
	}
	return all, err
}

// putter puts objects of one kind, whose answers are of type O.
type putter[S, O any] struct {
	kind string
	put  func(ctx context.Context, name string, spec S) (O, error)
	list func([]O) any // as the API lists them
	row  func(*table, O)
}

// all puts objects one after the other. Where one fails, those before it are shown.
func (p putter[S, O]) all(ctx context.Context, cmd *cobra.Command, out outputFlag, objects []defined[S]) error {
	var done []O
	var failure error
	for _, o := range objects {
		put, err := p.put(ctx, o.name, o.spec)
		if err != nil {
			failure = fmt.Errorf("%s %q: %w", p.kind, o.name, err)
			break
		}
		done = append(done, put)
	}
	err := out.print(cmd.OutOrStdout(), p.list(done), func(t *table) {
		for _, o := range done {
			p.row(t, o)
		}
	})
	return errors.Join(failure, err)
}

// newDelete deletes one object by its name.
func newDelete(kind, example, short string, remove func(*client.Client, context.Context, string) error) *cobra.Command {
	var c conn
	cmd := &cobra.Command{
		Use: "delete NAME", Short: short, Args: exactlyOne("NAME"), Example: "  axd " + kind + " delete " + example,
	}
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		if err := remove(cl, ctx, args[0]); err != nil {
			return about(kind, args[0], err)
		}
		_, err := fmt.Fprintf(cmd.ErrOrStderr(), "axd: %s %s deleted\n", kind, args[0])
		return err
	})
}
