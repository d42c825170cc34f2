package main

import (
	"github.com/spf13/cobra"

	"github.com/axd-project/axd/internal/bench"
	"github.com/axd-project/axd/job"
)

// shape is a flag that names the shape of a workflow.
type shape struct{ value *string }

// String serves the zero value too, with which pflag compares.
func (s shape) String() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}
func (shape) Type() string { return "shape" }

func (s shape) Set(text string) error {
	if text != bench.ShapeChain && text != bench.ShapeWide {
		return job.Invalid("", "must be chain or wide", text)
	}
	*s.value = text
	return nil
}

func newBenchDag() *cobra.Command {
	b, s := &benchFlags{}, bench.DefaultDag
	cmd := &cobra.Command{
		Use: "dag", Short: "Measure how fast a run advances from step to step",
		Long: `Run one workflow of steps that do nothing, and measure from the start of the last
step that each needs to its own start: a chain, or one step, many beside each
other, and one that needs them all.`,
		Example: `  axd bench dag --shape chain --steps 1000
  axd bench dag --shape wide --steps 10000`,
	}
	f := cmd.Flags()
	f.Var(shape{&s.Shape}, "shape", "chain or wide")
	f.Var(whole{&s.Steps, job.MaxSteps}, "steps", "steps of the workflow")
	return b.scenario(cmd, func() bench.Scenario { return s })
}

func newBenchWorkflows() *cobra.Command {
	b, s := &benchFlags{}, bench.DefaultWorkflows
	cmd := &cobra.Command{
		Use: "workflows", Short: "Measure many small workflows at once",
		Long: `Define many workflows of ten steps that do nothing, run each once, spread over a
time, and measure from the start of the last step that each needs to its own.`,
		Example: `  axd bench workflows
  axd bench workflows --workflows 500 --seconds 20`,
	}
	f := cmd.Flags()
	count(f, &s.Workflows, "workflows", "workflows, each run once")
	f.Var((*seconds)(&s.Time), "seconds", "time over which they are started")
	return b.scenario(cmd, func() bench.Scenario { return s })
}
