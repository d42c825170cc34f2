package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/job/dag"
)

func newWorkflow() *cobra.Command {
	cmd := &cobra.Command{
		Use: "workflow", Short: "Define workflows: jobs that wait for each other", GroupID: "use", Args: noVerb, RunE: help,
		Example: `  axd workflow put -f etl.yaml
  axd workflow graph etl -o svg > etl.svg
  axd run start etl --param day=2026-11-30 --wait`,
	}
	cmd.AddCommand(newWorkflowPut(), newWorkflowList(), newWorkflowShow(), newWorkflowGraph(),
		newDelete("workflow", "etl", "Delete a workflow that nothing names; its runs go on", (*client.Client).DeleteWorkflow))
	return cmd
}

func newWorkflowPut() *cobra.Command {
	var c conn
	var file string
	cmd := &cobra.Command{
		Use: "put -f FILE", Short: "Create workflows or their next versions",
		Long: `Create workflows, or their next versions where they differ from what is there.

A file holds one or more definitions as YAML or JSON:

  kind: workflow
  name: etl
  params: [{name: day, required: true}]
  timeout: 2h
  steps:
  - {name: extract, job: extract}
  - {name: clean, job: clean, needs: [extract]}
  - {name: report, job: report, needs: [clean], rule: none_failed}
  finally:
  - {name: tidy, job: tidy}

The jobs must be there. Unknown fields are refused, and cycles, steps that don't
exist and rules that can never hold, with the way that leads to them. Runs that
have begun keep their version.`,
		Example: `  axd workflow put -f etl.yaml`,
		Args:    noArgs,
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "read definitions from this `file`; - is standard input")
	return c.client(cmd, func(ctx context.Context, cl *client.Client, _ []string) error {
		if file == "" {
			return job.Invalid("-f", "must name a file; - is standard input", "")
		}
		defs, err := readDefinitions[job.WorkflowSpec]("workflow", file, cmd.InOrStdin(), cl.Namespace())
		if err != nil {
			return err
		}
		return putter[job.WorkflowSpec, client.Workflow]{
			kind: "workflow",
			put: func(ctx context.Context, name string, spec job.WorkflowSpec) (client.Workflow, error) {
				w, err := cl.PutWorkflow(ctx, name, spec)
				for _, text := range w.Warnings {
					_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "axd: workflow %s: %s\n", name, text)
				}
				return w, err
			},
			list: func(done []client.Workflow) any {
				return struct {
					Workflows []client.Workflow `json:"workflows"`
				}{done}
			},
			row: func(t *table, w client.Workflow) { t.row(w.Name, "version "+strconv.FormatUint(w.Version, 10)) },
		}.all(ctx, cmd, c.output, defs)
	})
}

func newWorkflowList() *cobra.Command {
	var c conn
	var limit int
	var cursor string
	cmd := &cobra.Command{Use: "list", Short: "List workflows", Args: noArgs, Example: `  axd workflow list -o json`}
	pageFlags(cmd, &limit, 100, &cursor)
	return c.client(cmd, func(ctx context.Context, cl *client.Client, _ []string) error {
		list, err := cl.Workflows(ctx, limit, cursor)
		if err != nil {
			return err
		}
		c.tellMore(cmd, list.NextCursor)
		return c.output.print(cmd.OutOrStdout(), list, func(t *table) {
			now := time.Now()
			t.row("NAME", "VERSION", "UPDATED", "STEPS", "OWNER", "DESCRIPTION")
			for _, w := range list.Workflows {
				t.row(cut(w.Name, 30), strconv.FormatUint(w.Version, 10), clock(w.UpdatedAt, now), strconv.Itoa(w.StepCount),
					cut(w.Owner, 16), cut(w.Description, 24))
			}
		})
	})
}

func newWorkflowShow() *cobra.Command {
	var c conn
	var version uint64
	var versions bool
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Show a workflow and its steps", Args: exactlyOne("NAME"),
		Example: `  axd workflow show etl
  axd workflow show etl --versions`,
	}
	cmd.Flags().Uint64Var(&version, "version", 0, "as of this `version`; default: the newest")
	cmd.Flags().BoolVar(&versions, "versions", false, "list the versions that are kept")
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		if versions {
			list, err := cl.WorkflowVersions(ctx, args[0])
			if err != nil {
				return about("workflow", args[0], err)
			}
			return c.output.print(cmd.OutOrStdout(), client.WorkflowVersionList{Versions: list}, func(t *table) {
				t.row("VERSION", "CREATED")
				for _, v := range list {
					t.row(strconv.FormatUint(v.Version, 10), clock(&v.CreatedAt, time.Now()))
				}
			})
		}
		w, err := cl.Workflow(ctx, args[0], version)
		if err != nil {
			return about("workflow", args[0], err)
		}
		return c.output.print(cmd.OutOrStdout(), w, func(t *table) { workflowTable(t, w) })
	})
}

func workflowTable(t *table, w client.Workflow) {
	t.pair("Name", w.Name)
	t.pair("Namespace", w.Namespace)
	t.pair("Version", strconv.FormatUint(w.Version, 10))
	t.pair("Description", w.Description)
	t.pair("App", w.App)
	t.pair("Owner", w.Owner)
	if w.Timeout != nil {
		t.pair("Time-out", w.Timeout.String())
	}
	if w.MaxParallel > 0 {
		t.pair("Max parallel", strconv.Itoa(w.MaxParallel))
	}
	t.pair("Created", exact(w.CreatedAt))
	t.pair("Updated", exact(w.UpdatedAt))
	t.pair("File set", w.FileSet)
	for _, state := range sorted(w.Runs) {
		t.pair("Runs "+state, strconv.FormatInt(w.Runs[state], 10))
	}
	if len(w.Params) > 0 {
		t.gap()
		t.row("PARAMETER", "TYPE", "DEFAULT", "DESCRIPTION")
		for i := range w.Params {
			p := &w.Params[i]
			value := string(p.Default)
			if p.Required {
				value = "(required)"
			}
			t.row(p.Name, string(p.TypeOrDefault()), cut(value, 30), cut(p.Description, 40))
		}
	}
	for _, s := range w.Sections() {
		if len(s.Steps) == 0 {
			continue
		}
		t.gap()
		t.row(strings.ToUpper(s.Name), "RUNS", "NEEDS", "RULE")
		for i := range s.Steps {
			t.row(stepRow(&s.Steps[i])...)
		}
	}
}

func stepRow(s *job.Step) []string {
	runs := s.Job
	if s.Workflow != "" {
		runs = "workflow " + s.Workflow
	}
	if s.ForEach != nil {
		runs += " for each"
	}
	rule := string(s.RuleOrDefault())
	if s.When != "" {
		rule += ", when " + s.When
	}
	if s.AllowFailure {
		rule += ", may fail"
	}
	return []string{cut(s.Name, 30), cut(runs, 30), cut(strings.Join(s.Needs, ","), 30), cut(rule, 40)}
}

// graphFormat is how a graph is written.
type graphFormat string

func (g *graphFormat) String() string { return string(*g) }
func (g *graphFormat) Type() string   { return "format" }

func (g *graphFormat) Set(s string) error {
	switch s {
	case "dot", "mermaid", "svg":
		*g = graphFormat(s)
		return nil
	}
	return job.Invalid("", "must be dot, mermaid or svg", s)
}

func (g graphFormat) write(w io.Writer, d dag.Drawing) error {
	var text string
	switch g {
	case "mermaid":
		text = d.Mermaid()
	case "svg":
		text = d.SVG()
	default:
		text = d.DOT()
	}
	_, err := io.WriteString(w, text)
	return err
}

func newWorkflowGraph() *cobra.Command {
	var c conn
	var version uint64
	var all bool
	format := graphFormat("dot")
	cmd := &cobra.Command{
		Use: "graph (NAME | --all)", Short: "Draw a workflow, or how all of them hang together",
		Long: `Draw a workflow's steps and what they need, for Graphviz (dot), for Mermaid, or as
an SVG that needs nothing else. With --all draw the workflows and schedules of the
namespace: which workflows run others as steps, what schedules fire, and after
what.`,
		Example: `  axd workflow graph etl -o svg > etl.svg
  axd workflow graph --all | dot -Tpdf > all.pdf`,
		Args: func(cmd *cobra.Command, args []string) error {
			if all {
				return noArgs(cmd, args)
			}
			return exactlyOne("NAME")(cmd, args)
		},
	}
	cmd.Flags().Uint64Var(&version, "version", 0, "as of this `version`; default: the newest")
	cmd.Flags().BoolVar(&all, "all", false, "all workflows and schedules of the namespace")
	c.plain(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		if all {
			d, err := drawAll(ctx, cl)
			if err != nil {
				return err
			}
			return format.write(cmd.OutOrStdout(), d)
		}
		w, err := cl.Workflow(ctx, args[0], version)
		if err != nil {
			return about("workflow", args[0], err)
		}
		return format.write(cmd.OutOrStdout(), w.Drawing(w.Name))
	})
	cmd.Flags().VarP(&format, "output", "o", "output `format`: dot, mermaid or svg")
	_ = cmd.RegisterFlagCompletionFunc("output", fixed("dot", "mermaid", "svg"))
	return cmd
}
