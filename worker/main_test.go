package worker

import (
	"context"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// The test binary is its own supervisor, as axd is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "supervisor" {
		os.Exit(SupervisorMain(context.Background(), os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		os.Exit(workerMain(os.Args[2:]))
	}
	goleak.VerifyTestMain(m)
}

func supervisorCommand() []string { return []string{os.Args[0], "supervisor"} }
