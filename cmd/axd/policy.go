package main

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/job"
)

// executor holds the flags that say how a task or a job runs.
type executor struct {
	url, method, body, handler string
	headers, env               map[string]string
	dir, user                  string
	cpu                        float64
	memory                     sizeFlag
}

func (e *executor) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&e.url, "http", "", "make a request to this `URL` instead of running a command")
	f.StringVar(&e.method, "method", "", "the request's `method` (default POST)")
	f.StringToStringVar(&e.headers, "header", nil, "a header of the request: `NAME=VALUE`; repeatable")
	f.StringVar(&e.body, "body", "", "the request's `body` (default: the task's payload)")
	f.StringVar(&e.handler, "handler", "", "call the `handler` of that name in a program that uses the worker library")
	e.commandFlags(cmd)
}

// commandFlags adds what concerns commands alone.
func (e *executor) commandFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringToStringVar(&e.env, "env", nil, "add `NAME=VALUE` to the command's environment; repeatable")
	f.StringVar(&e.dir, "dir", "", "the command's working `directory` on the worker (default: a fresh one)")
	f.StringVar(&e.user, "user", "", "the `user` to run the command as; needs a worker that runs as root")
	f.Float64Var(&e.cpu, "cpu", 0, "the command's `cores`, such as 0.5; needs a worker with a cgroup (default: no limit)")
	f.Var(&e.memory, "memory", "the command's memory, such as 64MiB or 1GiB (default: no limit)")
}

// sizeFlag is a number of bytes: 64MiB, 1GiB, or bytes without a unit.
type sizeFlag int64

func (s *sizeFlag) Type() string { return "size" }

func (s *sizeFlag) String() string {
	if *s == 0 {
		return ""
	}
	return strconv.FormatInt(int64(*s), 10)
}

// Set implements pflag.Value.
func (s *sizeFlag) Set(text string) error {
	digits, shift := text, 0
	for i, unit := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if head, ok := strings.CutSuffix(text, unit); ok {
			digits, shift = head, 10*(i+1)
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63-shift)
	if err != nil || n == 0 {
		return job.Invalid("", "must be a size, such as 64MiB or 1GiB", text)
	}
	if n<<shift < job.MinMemory {
		return job.Invalid("", "must be at least 64KiB; a number without a unit is bytes: 64MiB or 1GiB is what is meant, as a rule", text)
	}
	*s = sizeFlag(n << shift) //nolint:gosec // ParseUint bounded it to 63 bits
	return nil
}

// executor builds the executor from the flags and the words after --.
func (e *executor) executor(command []string) (job.Executor, error) {
	var x job.Executor
	n := 0
	if len(command) > 0 {
		n++
		x.Exec = &job.Exec{
			Command: command, Env: e.env, Dir: e.dir, User: e.user, Limits: job.Limits{CPU: e.cpu, Memory: int64(e.memory)},
		}
	} else if len(e.env) > 0 || e.dir != "" || e.user != "" || e.cpu != 0 || e.memory != 0 {
		return x, job.Invalid("--env, --dir, --user, --cpu and --memory", "need a command after --", "")
	}
	if e.url != "" {
		n++
		x.HTTP = &job.HTTP{Method: e.method, URL: e.url, Headers: e.headers, Body: e.body}
	} else if e.method != "" || len(e.headers) > 0 || e.body != "" {
		return x, job.Invalid("--method, --header and --body", "need --http URL", "")
	}
	if e.handler != "" {
		n++
		x.Handler = e.handler
	}
	if n > 1 {
		return x, job.Invalid("-- COMMAND, --http and --handler", "exclude each other", "")
	}
	return x, nil
}

// policy holds the flags that a task and a job share.
type policy struct {
	priority       string
	timeout, grace durationFlag
	queueTimeout   durationFlag
	totalTimeout   durationFlag
	heartbeat      durationFlag
	retries        int
	retry          retryFlags
	exhausted      string
	compensation   string
	selector       map[string]string
	require        []string
	strategy       string
	sticky         string
	app, owner     string
	limits         limits
	idempotent     bool
	fairness       string

	callbackURL, callbackJob string
	callbackSecret           string
	callbackOn               []string
}

func (p *policy) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&p.priority, "priority", "", "`priority`: high, normal or low (default normal)")
	_ = cmd.RegisterFlagCompletionFunc("priority", fixed("high", "normal", "low"))
	f.Var(&p.timeout, "timeout", "end an attempt that takes longer, such as 90s (default: no limit)")
	f.Var(&p.queueTimeout, "queue-timeout", "end a task that is due and finds no worker for longer (default: no limit)")
	f.Var(&p.totalTimeout, "total-timeout", "end a task whose attempts take longer together (default: no limit)")
	f.Var(&p.heartbeat, "heartbeat-timeout", "end an attempt without heartbeat for that `time` (default: it need not send any)")
	f.Var(&p.grace, "grace", "time between TERM and KILL when an attempt is ended (default 5s)")
	f.IntVar(&p.retries, "retries", -1, "how `often` a failed attempt is followed by another (default 5)")
	f.Lookup("retries").DefValue = "0" // pflag hides it: the words say what holds
	p.retry.flags(cmd)
	f.StringVar(&p.compensation, "compensation", "", "the `job` to run when it has failed for good")
	f.StringVar(&p.exhausted, "on-exhausted", "", "`what` becomes of it when it has failed for good: dead_letter (default) or ignore")
	_ = cmd.RegisterFlagCompletionFunc("on-exhausted", fixed("dead_letter", "ignore"))
	f.StringToStringVar(&p.selector, "selector", nil, "run only on workers with this label: `KEY=VALUE`; repeatable")
	f.StringArrayVar(&p.require, "require", nil, "run only on workers with such labels: `COMPARISON`, as 'cores >= 8'; repeatable")
	f.StringVar(&p.strategy, "route", "", "`which` of the workers that fit: least_loaded (default), round_robin, random, broadcast")
	_ = cmd.RegisterFlagCompletionFunc("route", fixed("least_loaded", "round_robin", "random", "broadcast"))
	f.StringVar(&p.sticky, "sticky", "", "run all tasks of this `key` on one worker, as long as it is there")
	f.BoolVar(&p.idempotent, "idempotent", false, "two attempts may run at one time: don't wait for a silent worker's lease")
	f.StringVar(&p.fairness, "fairness-key", "", "let tasks of this `key` take turns with those of others, within a priority and namespace")
	f.StringVar(&p.app, "app", "", "the `application` it belongs to")
	f.StringVar(&p.owner, "owner", "", "`who` answers for it")
	p.limits.flags(cmd)
	f.StringVar(&p.callbackURL, "callback-url", "", "send the result to this `URL` when the task has ended")
	f.StringVar(&p.callbackJob, "callback-job", "", "run this `job` with the result as payload when the task has ended")
	f.StringVar(&p.callbackSecret, "callback-secret", "", "sign requests to --callback-url with this `secret`; see 'axd secret put'")
	f.StringSliceVar(&p.callbackOn, "callback-on", nil, "call back only for these `states`: "+strings.Join(job.CallbackEnds(), ", ")+" (default: all)")
	_ = cmd.RegisterFlagCompletionFunc("callback-on", fixed(job.CallbackEnds()...))
}

func (p *policy) policy(cmd *cobra.Command) (job.Policy, error) {
	out := job.Policy{
		App: p.app, Owner: p.owner, Selector: p.selector,
		CallbackURL: p.callbackURL, CallbackJob: p.callbackJob, CallbackOn: p.callbackOn, CallbackSecret: p.callbackSecret,
	}
	if p.priority != "" {
		if err := out.Priority.UnmarshalText([]byte(p.priority)); err != nil {
			return out, job.Invalid("--priority", "must be high, normal or low", p.priority)
		}
	}
	for _, given := range []struct {
		flag string
		d    durationFlag
		to   **job.Duration
	}{
		{"timeout", p.timeout, &out.Timeout}, {"queue-timeout", p.queueTimeout, &out.QueueTimeout},
		{"total-timeout", p.totalTimeout, &out.TotalTimeout}, {"heartbeat-timeout", p.heartbeat, &out.HeartbeatTimeout},
		{"grace", p.grace, &out.Grace},
	} {
		if cmd.Flags().Changed(given.flag) {
			*given.to = new(job.Duration(given.d))
		}
	}
	if len(p.require) > 0 || p.strategy != "" || p.sticky != "" {
		out.Route = &job.Route{Require: p.require, Strategy: job.RouteStrategy(p.strategy), Sticky: p.sticky}
	}
	out.FairnessKey = p.fairness
	out.OnExhausted, out.Compensation = job.OnExhausted(p.exhausted), p.compensation
	if cmd.Flags().Changed("idempotent") {
		out.Idempotent = &p.idempotent
	}
	var err error
	if out.Retry, err = p.retry.rule(cmd, p.retries); err != nil {
		return out, err
	}
	err = p.limits.fill(cmd, &out)
	return out, err
}

// splitDash divides arguments at --. Cobra has removed it and tells where it was.
func splitDash(cmd *cobra.Command, args []string) (before, after []string) {
	if n := cmd.ArgsLenAtDash(); n >= 0 {
		return args[:n], args[n:]
	}
	return args, nil
}

// oneName refuses anything but one name before --.
func oneName(what string, allow bool) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		before, after := splitDash(cmd, args)
		if cmd.ArgsLenAtDash() >= 0 && len(after) == 0 {
			return job.Invalid("command", "is missing after --", "")
		}
		if !allow && len(before) > 0 {
			return job.Invalid("", "unexpected argument; a command goes after --", strings.Join(before, " "))
		}
		if allow && len(before) != 1 {
			return job.Invalid(what, "must be given once", strings.Join(before, " "))
		}
		return nil
	}
}
