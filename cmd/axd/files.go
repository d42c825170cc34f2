package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/internal/definition"
	"github.com/axd-project/axd/job"
)

// defaultSet is the file set of whoever names none.
const defaultSet = "default"

func newValidate() *cobra.Command {
	var strict bool
	cmd := &cobra.Command{
		Use: "validate FILE|DIR...", Short: "Check files of definitions, without a cluster", GroupID: "use",
		Long: `Check files of definitions, without a cluster.

A file holds one or more definitions as YAML or JSON, divided by lines of ---;
a directory stands for all its files that end with .yaml, .yml or .json, at any
depth; - is standard input. Each definition is checked as a server would, and
what they name of each other is looked for among them. What is named and not
there is a warning: the cluster may have it.`,
		Example: `  axd validate definitions/
  axd export | axd validate -`,
		Args: atLeastOne("FILE|DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := definition.Load(args, cmd.InOrStdin())
			if err != nil {
				return &runError{code: exitUsage, err: err}
			}
			warnings := append(set.Warnings, set.Missing()...)
			for _, w := range warnings {
				_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "axd: warning: %s\n", printable(w))
			}
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "axd: %s in %s: valid\n", set.Summary(), plural(set.Files, "file"))
			if strict && len(warnings) > 0 {
				return &runError{code: exitUsage}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&strict, "strict", false, "exit code 2 where there are warnings, too")
	return cmd
}

func atLeastOne(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return job.Invalid(what, "is missing", "")
		}
		return nil
	}
}

func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// fromFiles are the flags of commands that compare files with a cluster.
type fromFiles struct {
	files   []string
	options definition.Options
}

func (f *fromFiles) flags(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringArrayVarP(&f.files, "file", "f", nil, "`file` or directory of definitions; may be repeated; - is standard input")
	fs.StringVar(&f.options.Set, "set", defaultSet, "`name` of the file set that these files are")
	fs.BoolVar(&f.options.Prune, "prune", false, "delete what this set created and has no more")
	fs.BoolVar(&f.options.Adopt, "adopt", false, "take objects into this set that no file, or another set, created")
}

func (f *fromFiles) plan(ctx context.Context, cmd *cobra.Command, cl *client.Client) (*definition.Plan, error) {
	if len(f.files) == 0 {
		return nil, job.Invalid("-f", "must name files or a directory of definitions", "")
	}
	set, err := definition.Load(f.files, cmd.InOrStdin())
	if err != nil {
		return nil, err
	}
	for _, w := range set.Warnings {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "axd: warning: %s\n", printable(w))
	}
	return set.Compare(ctx, cl, f.options)
}

func newPlan() *cobra.Command {
	var c conn
	var f fromFiles
	cmd := &cobra.Command{
		Use: "plan -f DIR", Short: "Show what applying files would change", GroupID: "use", Args: noArgs,
		Long: `Show what applying files would change: each object with the fields that differ.
Nothing is changed. Objects that this file set created and that no file defines
any more are told of; only 'axd apply --prune' deletes them.

Exit code 0: nothing would change; 1: something would; above: it failed.`,
		Example: `  axd plan -f definitions/
  axd plan -f definitions/ --prune`,
	}
	f.flags(cmd)
	return c.client(cmd, func(ctx context.Context, cl *client.Client, _ []string) error {
		p, err := f.plan(ctx, cmd, cl)
		if err != nil {
			return &runError{code: max(exitCode(err), exitUsage), err: err}
		}
		if err := c.output.print(cmd.OutOrStdout(), p, func(t *table) { planTable(t, p.Steps, p.Set) }); err != nil {
			return err
		}
		if c.output == "table" {
			tell(cmd, p, f.options.Adopt)
		}
		if p.Changes() > 0 {
			return &runError{code: exitFailed}
		}
		return nil
	})
}

// marks are how a table shows what is done with an object.
var marks = map[string]string{
	definition.Create: "+", definition.Change: "~", definition.Delete: "-", definition.TakeOver: "~",
}

func planTable(t *table, steps []definition.Step, set string) {
	for _, s := range steps {
		mark, ok := marks[s.Action]
		if !ok {
			continue
		}
		t.line("%s %s %s", mark, s.Kind, s.Name)
		if s.Action == definition.TakeOver {
			t.line("    ~ file_set: %s → %s", cmp.Or(s.OldSet, "none"), set)
		}
		for _, d := range s.Differences {
			t.line("    %s", d.Text())
		}
		for i, at := range s.Next {
			if i == 0 {
				t.line("    next fires: %s", at)
			} else {
				t.line("                %s", at)
			}
		}
	}
}

// maxNamed is how many definitions of another set are named one by one.
const maxNamed = 5

// tellOthers names what the files define and another set has, or counts it where it is
// much.
func tellOthers(cmd *cobra.Command, p *definition.Plan, adopt bool) {
	if adopt {
		return
	}
	bySet := map[string][]string{}
	for _, s := range p.Steps {
		if s.OldSet != "" {
			bySet[s.OldSet] = append(bySet[s.OldSet], s.Kind+" "+s.Name)
		}
	}
	for _, set := range slices.Sorted(maps.Keys(bySet)) {
		names := bySet[set]
		if len(names) > maxNamed {
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "axd: %d definitions stay of file set %s: --adopt takes them over\n", len(names), set)
			continue
		}
		for _, name := range names {
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "axd: %s stays of file set %s: --adopt takes it over\n", name, set)
		}
	}
}

// tell sums a plan up.
func tell(cmd *cobra.Command, p *definition.Plan, adopt bool) {
	w := cmd.ErrOrStderr()
	tellOthers(cmd, p, adopt)
	for _, s := range p.Steps {
		if s.Action == definition.Left {
			_, _ = fmt.Fprintf(w, "axd: %s %s is of this file set and in none of its files: --prune deletes it\n", s.Kind, s.Name)
		}
	}
	_, _ = fmt.Fprintf(w, "axd: %d to create, %d to change, %d to delete, %d unchanged\n",
		p.Count(definition.Create), p.Count(definition.Change, definition.TakeOver), p.Count(definition.Delete), p.Count(definition.Unchanged))
}

func newApply() *cobra.Command {
	var c conn
	var f fromFiles
	var yes bool
	cmd := &cobra.Command{
		Use: "apply -f DIR", Short: "Make the cluster have what files define", GroupID: "use", Args: noArgs,
		Long: `Make the cluster have what files define. All files are checked before the first
write; then jobs come before what names them. What is as it should be is not
written. Where the cluster refuses one, those before it stay, and a repeated
apply goes on.

What apply creates is noted as of the file set (--set). With --prune, objects of
the set that no file defines any more are deleted, after all others are written;
objects that were made in another way are never, unless --adopt took them in.`,
		Example: `  axd apply -f definitions/
  axd apply -f definitions/ --prune --yes
  axd export | axd apply -f - -n staging`,
	}
	f.flags(cmd)
	cmd.Flags().BoolVar(&yes, "yes", false, "delete without asking first: needed where --prune finds something")
	return c.client(cmd, func(ctx context.Context, cl *client.Client, _ []string) error {
		p, err := f.plan(ctx, cmd, cl)
		if err != nil {
			return err
		}
		if n := p.Count(definition.Delete); n > 0 && !yes {
			for _, s := range p.Steps {
				if s.Action == definition.Delete {
					_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "axd: %s %s would be deleted\n", s.Kind, s.Name)
				}
			}
			return job.Invalid("--prune", "would delete "+plural(n, "object")+"; nothing was changed. Repeat with --yes", "")
		}
		tellOthers(cmd, p, f.options.Adopt)
		done, failure := p.Apply(ctx)
		err = c.output.print(cmd.OutOrStdout(), definition.Plan{Namespace: p.Namespace, Set: p.Set, Steps: done}, func(t *table) {
			for _, s := range done {
				t.row(s.Kind, s.Name, past[s.Action], versionOf(s))
			}
		})
		if failure != nil {
			return failure
		}
		return err
	})
}

// past says of each action that it is done.
var past = map[string]string{
	definition.Create: "created", definition.Change: "changed", definition.Delete: "deleted",
	definition.Unchanged: "unchanged", definition.TakeOver: "taken over", definition.Left: "left: --prune deletes it",
}

func versionOf(s definition.Step) string {
	if s.Action == definition.Delete || s.Version == 0 {
		return ""
	}
	return "version " + strconv.FormatUint(s.Version, 10)
}

func newExport() *cobra.Command {
	var c conn
	var to, set string
	var only []string
	cmd := &cobra.Command{
		Use: "export", Short: "Write the cluster's definitions as files", GroupID: "use", Args: noArgs,
		Long: `Write the definitions of a namespace as YAML that 'axd apply' takes: to standard
output, or with -o into a directory, a file for each. Applying what was exported
changes nothing. The namespace is not written, so that the files fit any.

Files in the directory that hold something else are never replaced, and none is
deleted.`,
		Example: `  axd export >backup.yaml
  axd export -o definitions/
  axd export --kind job | axd apply -f - -n staging`,
	}
	fs := cmd.Flags()
	fs.StringVarP(&to, "output", "o", "-", "`directory` to write into; - is standard output")
	fs.StringSliceVar(&only, "kind", nil, "only definitions of this `kind`, such as job; may be repeated")
	fs.StringVar(&set, "set", "", "only those of this file set")
	return c.plain(cmd, func(ctx context.Context, cl *client.Client, _ []string) error {
		docs, err := definition.Export(ctx, cl, only, set)
		if err != nil {
			return err
		}
		if to == "-" {
			return definition.WriteTo(cmd.OutOrStdout(), docs)
		}
		n, err := definition.WriteDir(to, docs)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.ErrOrStderr(), "axd: %s, %d written to %s\n", plural(len(docs), "definition"), n, to)
		return err
	})
}
