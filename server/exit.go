package server

import (
	"errors"

	"github.com/axd-project/axd/raftnode"
)

// ExitCode returns the code with which the process should end for an error of
// New or Run that has one of its own (70 to 77, see raftnode); 0: it has none.
func ExitCode(err error) int {
	var start *raftnode.StartError
	if errors.As(err, &start) {
		return start.Code
	}
	return 0
}
