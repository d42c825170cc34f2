package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

// defaultRetry is how long a command goes on asking while no server answers or
// leads: long enough for an election, short for a person who waits.
const defaultRetry = 8 * time.Second

// conn holds the flags that every command which speaks with a cluster has.
type conn struct {
	addr      []string
	namespace string
	token     string
	stale     bool
	retry     durationFlag
	output    outputFlag

	longNamespace bool // -n stands for something else
}

// client makes cmd a command that speaks with a cluster: it adds the flags,
// connects, and turns the error of fn into an exit code.
func (c *conn) client(cmd *cobra.Command, fn func(ctx context.Context, cl *client.Client, args []string) error) *cobra.Command {
	c.outputFlag(cmd)
	return c.plain(cmd, fn)
}

// clientWithout is client without the letter -n for the namespace.
func (c *conn) clientWithout(cmd *cobra.Command, fn func(ctx context.Context, cl *client.Client, args []string) error) *cobra.Command {
	c.outputFlag(cmd)
	c.longNamespace = true
	return c.plain(cmd, fn)
}

// plain is client for a command whose output has one format.
func (c *conn) plain(cmd *cobra.Command, fn func(ctx context.Context, cl *client.Client, args []string) error) *cobra.Command {
	c.flags(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		cl, err := c.open(cmd)
		if err == nil {
			defer cl.Close()
			err = fn(ctx, cl, args)
		}
		if err != nil {
			return &runError{code: exitCode(err), err: unlessCancelled(err)}
		}
		return nil
	}
	return cmd
}

// unlessCancelled drops what the user knows already, since they pressed Ctrl-C.
func unlessCancelled(err error) error {
	if exitCode(err) == exitInterrupted {
		return nil
	}
	if failed := (*runError)(nil); errors.As(err, &failed) {
		return failed.err
	}
	return err
}

// about names the object that doesn't exist as the user did: the API calls it
// by the parameter that held its name.
func about(kind, name string, err error) error {
	if codeOf(err) == job.CodeNotFound {
		return job.NotFound(kind, name)
	}
	return err
}

func (c *conn) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&c.addr, "addr", nil, "servers' HTTP `addresses`, comma separated (AXD_ADDR; default "+client.DefaultAddress+")")
	letter := "n"
	if c.longNamespace {
		letter = ""
	}
	f.StringVarP(&c.namespace, "namespace", letter, "", "`namespace` (AXD_NAMESPACE; otherwise the one named "+job.DefaultNamespace+")")
	f.StringVar(&c.token, "token", "", "bearer `token` for a proxy before the servers (better AXD_TOKEN, which others can't see)")
	f.BoolVar(&c.stale, "stale", false, "read what the asked server has, even without a leader")
	c.retry = durationFlag(defaultRetry)
	f.Var(&c.retry, "retry-time", "how long to go on asking while no server leads or answers")
}

func (c *conn) outputFlag(cmd *cobra.Command) {
	c.output = "table"
	cmd.Flags().VarP(&c.output, "output", "o", "output `format`: table, json or yaml")
	_ = cmd.RegisterFlagCompletionFunc("output", fixed("table", "json", "yaml"))
}

// fixed completes a flag's value from a list.
func fixed(values ...string) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return values, cobra.ShellCompDirectiveNoFileComp
	}
}

func (c *conn) open(cmd *cobra.Command) (*client.Client, error) {
	cfg := client.Config{
		Addresses: c.addr, Namespace: c.namespace, Token: c.token, Stale: c.stale, RetryTime: time.Duration(c.retry),
		Actor: actor(),
	}
	if len(cfg.Addresses) == 0 {
		if env := os.Getenv("AXD_ADDR"); env != "" {
			cfg.Addresses = strings.Split(env, ",")
		}
	}
	if cfg.Namespace == "" {
		cfg.Namespace = os.Getenv("AXD_NAMESPACE")
	}
	if cfg.Token == "" {
		cfg.Token = os.Getenv("AXD_TOKEN")
	}
	if cfg.RetryTime == 0 {
		cfg.RetryTime = -1
	}
	told, start := false, time.Now()
	cfg.OnRetry = func(err error, _ time.Duration) {
		if !told && time.Since(start) > time.Second {
			told = true
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "axd: %v; retrying for up to %s\n", err, c.retry.String())
		}
	}
	return client.New(cfg)
}

// pageFlag is the size of a page, from 1 to maxPage.
type pageFlag int

const maxPage = 1000 // as the API's

// limitFlag adds --limit to a command that lists.
func limitFlag(cmd *cobra.Command, limit *int, usual int) {
	*limit = usual
	cmd.Flags().Var((*pageFlag)(limit), "limit", "at most this many, 1 to "+strconv.Itoa(maxPage))
}

// pageFlags adds --limit and --cursor to a command that lists by pages.
func pageFlags(cmd *cobra.Command, limit *int, usual int, cursor *string) {
	limitFlag(cmd, limit, usual)
	cmd.Flags().StringVar(cursor, "cursor", "", "go on where the page before ended")
}

// tellMore says how to get the next page of a table, if there is one.
func (c *conn) tellMore(cmd *cobra.Command, next string) {
	if next != "" && c.output == "table" {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "More: repeat with --cursor %s\n", next)
	}
}

func (p *pageFlag) String() string { return strconv.Itoa(int(*p)) }
func (p *pageFlag) Type() string   { return "int" }

func (p *pageFlag) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > maxPage {
		return job.Invalid("", "must be a whole number from 1 to "+strconv.Itoa(maxPage), s)
	}
	*p = pageFlag(n)
	return nil
}

// durationFlag is a flag like 90s, 1h30m or 7d.
type durationFlag job.Duration

func (d *durationFlag) String() string { return job.Duration(*d).String() }
func (d *durationFlag) Type() string   { return "duration" }

func (d *durationFlag) Set(s string) error {
	v, err := job.ParseDuration(s)
	if err == nil && v < 0 {
		err = job.Invalid("", "must not be negative", s)
	}
	*d = durationFlag(v)
	return err
}
