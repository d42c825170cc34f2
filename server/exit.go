package server

import (
	"errors"
	"fmt"

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

// advice says what an operator does about an end by a code, where the error alone
// doesn't; docs/reference/exit-codes.md has all of them at length.
func advice(code int, dataDir string) string {
	const anew = "; if it ends so again, move its data directory %s away first: it joins anew and gets everything from the others"
	switch code {
	case raftnode.ExitDiskFull:
		return "free some space on the disk of " + dataDir + " and start the server again: nothing that it acknowledged is lost"
	case raftnode.ExitLogFailed, raftnode.ExitLogStalled, raftnode.ExitStateFailed:
		return fmt.Sprintf("look at the disk and start the server again"+anew, dataDir)
	case raftnode.ExitUnknownVerb:
		return "start the newer build of axd that the other servers run"
	}
	return ""
}
