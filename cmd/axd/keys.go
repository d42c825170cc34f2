package main

import (
	"github.com/spf13/cobra"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

// keys holds the flags that say what a repeated submit gets.
type keys struct {
	key, unique    keyFlag
	policy         string
	window, period durationFlag
}

func (k *keys) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Var(&k.key, "key", "idempotency `key`: one task for all submits of it within the window")
	f.Var(&k.window, "key-window", "how long the key holds, from the task's creation (default 24h)")
	f.Var(&k.period, "key-period", "let the key hold within each period of execute times instead, such as 12m")
	f.StringVar(&k.policy, "key-policy", "", "what a used key gets: the first task (`return`, the default), reject, or replace")
	_ = cmd.RegisterFlagCompletionFunc("key-policy", fixed("return", "reject", "replace"))
	f.Var(&k.unique, "unique-key", "refuse the task while another of this `key` has not ended")
}

func (k *keys) fill(cmd *cobra.Command, r *client.SubmitRequest) {
	r.IdempotencyKey, r.UniqueKey = string(k.key), string(k.unique)
	r.IdempotencyPolicy = job.IdempotencyPolicy(k.policy)
	if cmd.Flags().Changed("key-window") {
		d := job.Duration(k.window)
		r.IdempotencyWindow = &d
	}
	if cmd.Flags().Changed("key-period") {
		d := job.Duration(k.period)
		r.IdempotencyPeriod = &d
	}
}

// keyFlag is a key that is not empty where it is given: an unset variable of a
// script would silently leave out what keeps the task from being there twice.
type keyFlag string

func (k *keyFlag) Type() string   { return "key" }
func (k *keyFlag) String() string { return string(*k) }

// Set implements pflag.Value.
func (k *keyFlag) Set(s string) error {
	if s == "" {
		return job.Invalid("", "must not be empty: leave the flag out for none", "")
	}
	*k = keyFlag(s)
	return nil
}
