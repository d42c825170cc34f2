package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/job"
)

// hurryTime is what a command has after a second signal to end what it can.
const hurryTime = 2 * time.Second

// daemon makes a long-running command: it completes the settings, ends ctx on
// SIGINT or SIGTERM, and closes hurry on a second one; the process then ends
// after hurryTime, or at once on a third.
func daemon(fn func(ctx context.Context, hurry <-chan struct{}) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		if err := settings(cmd); err != nil {
			return &runError{code: exitCode(err), err: err}
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		signals := make(chan os.Signal, 2)
		signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
		defer signal.Stop(signals)
		done, hurry := make(chan struct{}), make(chan struct{})
		defer close(done)
		go obey(signals, cancel, hurry, done)
		if err := ignoreCancel(fn(ctx, hurry)); err != nil {
			return &runError{code: exitCode(err), err: err}
		}
		return nil
	}
}

// obey acts on signals until done is closed. The default action won't do: process
// 1 of a container has none.
func obey(signals <-chan os.Signal, cancel context.CancelFunc, hurry chan<- struct{}, done <-chan struct{}) {
	var late <-chan time.Time
	code := 0
	for count := 1; ; {
		select {
		case s := <-signals:
			if n, ok := s.(syscall.Signal); ok {
				code = 128 + int(n)
			}
			switch count {
			case 1:
				cancel()
			case 2:
				close(hurry)
				late = time.After(hurryTime)
			default:
				os.Exit(code)
			}
			count++
		case <-late:
			os.Exit(code)
		case <-done:
			return
		}
	}
}

// ignoreCancel treats the end that was asked for as a good end.
func ignoreCancel(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func usage(field, rule string) error { return job.Invalid(field, rule, "") }

// logging holds the flags about logs; --config comes with them, since every
// command that logs has settings.
type logging struct {
	level  slog.Level
	format string
	config string
}

func (l *logging) flags(cmd *cobra.Command, level string) {
	_ = l.level.UnmarshalText([]byte(level))
	f := cmd.Flags()
	f.Var((*levelFlag)(&l.level), "log-level", "log `level`: debug, info, warn or error")
	f.Var((*formatFlag)(&l.format), "log-format", "log `format`: text or json")
	l.format = "text"
	f.Lookup("log-format").DefValue = "text"
	f.StringVar(&l.config, "config", "", "YAML `file` with settings")
	_ = cmd.RegisterFlagCompletionFunc("log-level", fixed("debug", "info", "warn", "error"))
	_ = cmd.RegisterFlagCompletionFunc("log-format", fixed("text", "json"))
}

func (l *logging) logger(w io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{Level: l.level}
	if l.format == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

type levelFlag slog.Level

func (l *levelFlag) String() string { return strings.ToLower(slog.Level(*l).String()) }
func (l *levelFlag) Type() string   { return "level" }

func (l *levelFlag) Set(s string) error {
	if (*slog.Level)(l).UnmarshalText([]byte(s)) != nil {
		return errors.New("must be debug, info, warn or error")
	}
	return nil
}

type formatFlag string

func (f *formatFlag) String() string { return string(*f) }
func (f *formatFlag) Type() string   { return "format" }

func (f *formatFlag) Set(s string) error {
	if s != "text" && s != "json" {
		return fmt.Errorf("must be text or json")
	}
	*f = formatFlag(s)
	return nil
}
