// Command axd is everything of axd in one binary: server, worker and command
// line. Its subcommands hold no logic of their own; see the packages server,
// worker and client.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	_ "time/tzdata" // hosts may lack the data of time zones

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/server"
)

// The exit codes. They are part of the interface: docs/reference/cli.md.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2 // usage or refused input
	exitNotFound    = 3
	exitConflict    = 4
	exitUnavailable = 6 // no leader, or no server could be reached
	exitTimeout     = 7
	exitOwn         = 125 // axd exec: axd itself failed, not the command
	exitInterrupted = 130
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run executes one command line and returns its exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteC()
	if err == nil {
		return exitOK
	}
	var failed *runError
	if !errors.As(err, &failed) {
		// Whatever fails before a command runs is a fault of the command line.
		_, _ = fmt.Fprintf(stderr, "axd: %s\nRun '%s --help' for its usage.\n", printableLines(err.Error()), cmd.CommandPath())
		if cmd.Name() == "exec" {
			return exitOwn
		}
		return exitUsage
	}
	if failed.err != nil {
		_, _ = fmt.Fprintf(stderr, "axd: %s\n", printableLines(failed.err.Error()))
		if h := hint(failed.err); h != "" {
			_, _ = fmt.Fprintf(stderr, "  %s\n", h)
		}
	}
	return failed.code
}

// runError ends a command with an exit code; err may be nil when all is said.
type runError struct {
	code int
	err  error
}

func (e *runError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *runError) Unwrap() error { return e.err }

// exitCode maps an error to the command line's exit code.
func exitCode(err error) int {
	var failed *runError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &failed):
		return failed.code
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	}
	if code := server.ExitCode(err); code != 0 {
		return code
	}
	switch codeOf(err) {
	case job.CodeInvalid, job.CodeTooLarge, job.CodeForbidden, job.CodeUnsupported:
		return exitUsage
	case job.CodeNotFound:
		return exitNotFound
	case job.CodeConflict, job.CodeIdempotencyMismatch, job.CodeStale:
		return exitConflict
	case job.CodeNoLeader, job.CodeOverloaded, job.CodeUnknownOutcome:
		return exitUnavailable
	case job.CodeTimeout:
		return exitTimeout
	}
	return exitFailed
}

func codeOf(err error) job.Code {
	var c *client.Error
	if errors.As(err, &c) {
		return c.Code
	}
	var j *job.Error
	if errors.As(err, &j) {
		return j.Code
	}
	return ""
}

// lists tells of each kind of object which command lists those that exist.
var lists = map[string]string{
	"task":     "'axd task list' shows the tasks; ended ones go after the servers' --retention. Another namespace: --namespace.",
	"job":      "'axd job list' shows the jobs. Another namespace: --namespace.",
	"workflow": "'axd workflow list' shows the workflows. Another namespace: --namespace.",
	"run":      "'axd run list' shows the runs; ended ones go after the servers' --retention. Another namespace: --namespace.",
	"step":     "'axd run show RUN' shows the steps.",
	"worker":   "'axd worker list' shows the workers.",
	"server":   "'axd cluster status' shows the servers.",
	"schedule": "'axd schedule list' shows the schedules. Another namespace: --namespace.",
	"backfill": "'axd schedule backfills NAME' shows the backfills of a schedule.",
	"alert":    "'axd alert list' shows the alerts.",
	"calendar": "'axd calendar list' shows the calendars. Another namespace: --namespace.",
	"callback": "'axd callback list' shows the callbacks. Another namespace: --namespace.",
}

func fieldOf(err error) string {
	var c *client.Error
	if errors.As(err, &c) {
		return c.Field
	}
	var j *job.Error
	if errors.As(err, &j) {
		return j.Field
	}
	return ""
}

// hint says what to do next, where the error itself does not.
func hint(err error) string {
	var c *client.Error
	unreachable := errors.As(err, &c) && c.Status == 0
	switch codeOf(err) {
	case job.CodeNoLeader:
		if unreachable {
			return "Is a server running there? Start one with 'axd dev', or name your servers: --addr HOST:PORT or AXD_ADDR."
		}
		return "The cluster has no leader. See 'axd cluster status'; a majority of its servers must be up. 'axd cluster recover' is for those that never come back."
	case job.CodeOverloaded:
		return "The cluster is busy; nothing was changed. Try again later."
	case job.CodeUnknownOutcome:
		return "It may have been done or not. Look before you repeat it; a submit with the same --key is always safe."
	case job.CodeQuotaExceeded:
		return "Nothing was changed. Try again when tasks have ended."
	case job.CodeNotFound:
		return lists[fieldOf(err)]
	case job.CodeDiskFull:
		return "The servers' disks are nearly full: free some space, or shorten --retention."
	}
	return ""
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "axd",
		Short: "A task scheduler that needs no database",
		Long: `axd runs tasks at their time, on your machines, without a database.

Three axd servers hold the tasks together, one of them leads and hands due
tasks to workers. Nothing that axd acknowledged is lost when a server dies.`,
		Example: `  axd dev                                  # a server and a worker in one process, to try it
  axd exec -- echo hi                      # run a command now, see its output
  axd task submit --delay 10s -- echo hi   # run it in ten seconds
  axd task list`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       versionLine(),
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	root.AddGroup(&cobra.Group{ID: "run", Title: "Run axd:"}, &cobra.Group{ID: "use", Title: "Use it:"})
	root.AddCommand(newExec(), newTask(), newJob(), newSchedule(), newCalendar(), newWorkflow(), newRun(), newCluster(), newDeadLetter(), newAlert(), newBreaker(), newLimit(), newCallback(), newSnapshot(), newCheck(), newStats(), newVersion())
	root.AddCommand(newValidate(), newPlan(), newApply(), newExport())
	root.AddCommand(newImport())
	root.AddCommand(newAudit(), newEvent())
	root.AddCommand(newSecret())
	root.AddCommand(newDev(), newServer(), newWorker(), newSupervisor(), newBench(), newChaos())
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" { // as every noun: refuse a verb that doesn't exist
			c.Args, c.RunE = noVerb, help
		}
	}
	hideZeroDefaults(root)
	root.SetHelpCommand(&cobra.Command{Hidden: true, Use: "no-help"})
	return root
}

// hideZeroDefaults keeps "(default [])" and "(default 0s)" out of help texts:
// their words say what holds when the flag is absent. The zeros of most types
// pflag knows itself.
func hideZeroDefaults(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.DefValue == "0s" || f.DefValue == "[]" && f.Value.Type() == "stringToString" {
			f.DefValue = ""
		}
	})
	for _, c := range cmd.Commands() {
		hideZeroDefaults(c)
	}
}
