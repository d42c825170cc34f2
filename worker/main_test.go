package worker

import (
	"context"
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// atOnce is how many tests run at a time unless one says otherwise: they wait, for commands
// and for time to pass, and need little of the processors.
const atOnce = "8"

// The test binary is its own supervisor, as axd is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "supervisor" {
		os.Exit(SupervisorMain(context.Background(), os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "plain-supervisor" { // as on a system without cgroups
		if len(os.Args) > 2 {
			os.Exit(SupervisorMain(context.Background(), os.Args[2:]))
		}
		os.Exit(supervise(context.Background(), nil))
	}
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		os.Exit(workerMain(os.Args[2:]))
	}
	flag.Parse()
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == parallel.DefValue {
		_ = parallel.Value.Set(atOnce)
	}
	goleak.VerifyTestMain(m)
}

// withAndWithoutCgroups runs a test for both ways to hold a command's processes;
// where the system has no cgroups both are the same.
func withAndWithoutCgroups(t *testing.T, test func(t *testing.T, argv []string)) {
	t.Run("cgroups", func(t *testing.T) { test(t, supervisorCommand()) })
	t.Run("plain", func(t *testing.T) { test(t, []string{os.Args[0], "plain-supervisor"}) })
}

func supervisorCommand() []string { return []string{os.Args[0], "supervisor"} }
