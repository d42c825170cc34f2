package server

import (
	"errors"

	"github.com/axd-project/axd/raftnode"
)

// exitError ends the process with a code of its own.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// ExitCode returns the code with which the process should end for an error of
// New or Run that has one of its own (70 to 80, see raftnode); 0: it has none.
func ExitCode(err error) int {
	return raftnode.ExitCode(ownCode(err), err)
}

func ownCode(err error) int {
	var start *raftnode.StartError
	var exit *exitError
	switch {
	case errors.As(err, &start):
		return start.Code
	case errors.As(err, &exit):
		return exit.code
	}
	return 0
}
