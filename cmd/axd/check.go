package main

import (
	"encoding/csv"
	"errors"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/axd-project/axd/job"
)

// noArgs refuses arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return job.Invalid("", "unexpected argument; '"+cmd.CommandPath()+"' takes flags alone", args[0])
}

// exactlyOne wants one argument; what is its name in the usage.
func exactlyOne(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 1 {
			return nil
		}
		return job.Invalid(what, "must be given once", strings.Join(args, " "))
	}
}

// flagError says in the command line's words what is wrong with a flag.
func flagError(_ *cobra.Command, err error) error {
	var bad *pflag.InvalidValueError
	if !errors.As(err, &bad) {
		return err
	}
	return job.Invalid("--"+bad.GetFlag().Name, reason(bad.GetFlag(), err), bad.GetValue())
}

// reason says what a flag's value must be, without pflag's frame and Go's names.
func reason(f *pflag.Flag, err error) string {
	var own *job.Error
	if errors.As(err, &own) {
		return own.Rule
	}
	var syntax *csv.ParseError
	if errors.As(err, &syntax) {
		return "must be values separated by commas, with quotes in pairs"
	}
	switch f.Value.Type() {
	case "stringToString":
		return "must be KEY=VALUE"
	case "stringToInt":
		return "must be NAME=NUMBER, with a whole number"
	case "int":
		return "must be a whole number"
	case "float64":
		return "must be a number"
	case "bool":
		return "must be true or false"
	}
	var bad *pflag.InvalidValueError
	if errors.As(err, &bad) && errors.Unwrap(bad) != nil {
		err = errors.Unwrap(bad)
	}
	return err.Error()
}

// exclude refuses two flags that contradict each other.
func exclude(cmd *cobra.Command, one, other string) error {
	a, b := cmd.Flags().Lookup(one), cmd.Flags().Lookup(other)
	if !a.Changed || !b.Changed {
		return nil
	}
	return job.Invalid("--"+one, "must not be given beside --"+other+": leave one of them out", a.Value.String())
}

// oneOf refuses a command that has none of these flags.
func oneOf(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		if cmd.Flags().Changed(name) {
			return nil
		}
	}
	return job.Invalid("--"+strings.Join(names, ", --"), "at least one of them must be given", "")
}

// checkAddresses refuses what is not host:port; an empty list is fine.
func checkAddresses(flag string, addresses ...string) error {
	for _, a := range addresses {
		_, port, err := net.SplitHostPort(a)
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		if err != nil {
			return job.Invalid(flag, "must be host:port", a)
		}
	}
	return nil
}

// checkDataDir refuses a path that can't be a directory; it need not exist.
func checkDataDir(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, syscall.ENOTDIR):
		return job.Invalid("--data-dir", "must be a directory; a part of its path is a file", path)
	case err == nil && !info.IsDir():
		return job.Invalid("--data-dir", "must be a directory, not a file", path)
	}
	return nil
}

// checkFile returns the size of a file that a flag names.
func checkFile(flag, path string) (int64, error) {
	info, err := os.Stat(path)
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	if err != nil {
		return 0, job.Invalid(flag, "must be a file that can be read: "+err.Error(), path)
	}
	return info.Size(), nil
}

// checkTime refuses what is no time with an offset; an empty one is fine.
func checkTime(flag, text string) error {
	if text == "" {
		return nil
	}
	if _, err := job.ParseTime(text); err != nil {
		return job.Invalid(flag, job.AsError(err).Rule, text)
	}
	return nil
}
