package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/job"
)

// retryFlags say how a failed attempt is followed by another, besides how often.
type retryFlags struct {
	strategy, jitter string
	delay, limit     durationFlag
	codes            []int
	statuses, errors []string
}

var retryFlagNames = []string{"retry-strategy", "retry-delay", "retry-cap", "retry-jitter", "no-retry-exit", "no-retry-status", "no-retry-error"}

// failureFlagNames are the flags about tasks that have failed for good.
var failureFlagNames = []string{"on-exhausted", "compensation"}

func (r *retryFlags) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.strategy, "retry-strategy", "", "`how` the delay grows: exponential, linear or fixed (default exponential)")
	_ = cmd.RegisterFlagCompletionFunc("retry-strategy", fixed("exponential", "linear", "fixed"))
	f.Var(&r.delay, "retry-delay", "delay before the first retry (default 2s)")
	f.Var(&r.limit, "retry-cap", "the longest delay (default 5m)")
	f.StringVar(&r.jitter, "retry-jitter", "", "`share` of a delay that is random: additive, full, none or a percentage")
	f.IntSliceVar(&r.codes, "no-retry-exit", nil, "don't retry a command that ends with this exit `code`; repeatable")
	f.StringSliceVar(&r.statuses, "no-retry-status", nil, "don't retry a request answered with this `status`, or 4xx; repeatable")
	f.StringSliceVar(&r.errors, "no-retry-error", nil, "don't retry a failure of this `class`, such as timeout or network; repeatable")
}

// rule builds the retry rule, nil where no flag asks for one.
func (r *retryFlags) rule(cmd *cobra.Command, retries int) (*job.Retry, error) {
	given := cmd.Flags().Changed
	if given("retries") && (retries < 0 || retries > job.MaxRetriesLimit) {
		return nil, job.Invalid("--retries", "must be 0 to 1000", strconv.Itoa(retries))
	}
	some := given("retries")
	for _, name := range retryFlagNames {
		some = some || given(name)
	}
	if !some {
		return nil, nil
	}
	out := &job.Retry{Strategy: job.Strategy(r.strategy), Initial: job.Duration(r.delay), Cap: job.Duration(r.limit)}
	if given("retries") {
		out.MaxRetries = &retries
	}
	if given("retry-jitter") {
		out.Jitter = new(job.Jitter)
		if err := out.Jitter.UnmarshalText([]byte(r.jitter)); err != nil {
			return nil, job.Invalid("--retry-jitter", job.AsError(err).Rule, r.jitter)
		}
	}
	n := job.NonRetryable{ExitCodes: r.codes, Errors: r.errors}
	for _, text := range r.statuses {
		var s job.HTTPStatus
		if err := s.UnmarshalText([]byte(text)); err != nil {
			return nil, job.Invalid("--no-retry-status", job.AsError(err).Rule, text)
		}
		n.HTTPStatuses = append(n.HTTPStatuses, s)
	}
	if len(n.ExitCodes)+len(n.HTTPStatuses)+len(n.Errors) > 0 {
		out.NonRetryable = &n
	}
	return out, nil
}

// retries says a rule in words.
func retries(r job.Retry) string {
	if r.Max() == 0 {
		return "0"
	}
	s := fmt.Sprintf("%d, %s from %s to %s", r.Max(), r.Strategy, r.Initial, r.Cap)
	if r.Strategy == job.StrategyFixed {
		s = fmt.Sprintf("%d, %s after each", r.Max(), r.Initial)
	}
	s += ", jitter " + r.Jitter.String()
	if n := r.NonRetryable; n != nil {
		var not []string
		for _, c := range n.ExitCodes {
			not = append(not, "exit "+strconv.Itoa(c))
		}
		for _, c := range n.HTTPStatuses {
			not = append(not, "HTTP "+c.String())
		}
		s += "; not after " + strings.Join(append(not, n.Errors...), ", ")
	}
	return s
}
