package main

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/job"
)

// jobTemplate is a job that runs as it is; what is commented out is what people
// mostly add.
const jobTemplate = `kind: job
name: NAME
description: Says when and where it runs.

# What runs: exec (a command), http (a request) or handler (a function of a Go program).
exec:
  command: [sh, -c, 'echo "attempt $AXD_ATTEMPT of task $AXD_TASK_ID on $(hostname) at $(date)"']
  # env: {TZ: Europe/Berlin}       # beside the worker's own
  # dir: /srv/shop                 # default: a fresh directory, removed afterwards
  # stdin: |
  #   given on standard input

timeout: 1m                        # of one attempt: TERM, and KILL 5s later (grace)
# queue_timeout: 1h                # of the wait for a worker
# total_timeout: 6h                # of all attempts and the pauses between them

retry:
  max_retries: 3                   # 0: one attempt in all
  initial: 2s                      # doubling, up to cap
  cap: 1m
  # non_retryable: {exit_codes: [2]}

# priority: high                   # or low; default normal
# success_codes: [0, 3]            # default 0
# selector: {zone: eu}             # labels that the worker must carry
# concurrency: {max: 1}            # attempts at once
# rate: {max: 100, per: 1m}        # attempts begun within a time
# idempotent: true                 # two attempts at once do no harm: a silent worker's are moved soon
# callback_url: https://example.org/hook
# callback_on: [failed, timeout]
# owner: data-team
`

func newJobInit() *cobra.Command {
	return &cobra.Command{
		Use: "init [NAME]", Short: "Write a definition to begin with, that runs as it is",
		Long: `Write the definition of a job to begin with to standard output: it runs as it
is, and says in comments what else it can. Nothing is sent to a cluster.`,
		Example: `  axd job init report >report.yaml
  axd job put -f report.yaml && axd task submit --job report --wait`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return oneName("NAME", true)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			name := "hello"
			if len(args) > 0 {
				name = args[0]
			}
			if e := job.ValidateName("NAME", name); e != nil {
				return &runError{code: exitUsage, err: e}
			}
			_, err := io.WriteString(cmd.OutOrStdout(), strings.Replace(jobTemplate, "NAME", name, 1))
			return err
		},
	}
}
