package main

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/axd-project/axd/chaos/process"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"axd": main})
}

// TestScripts runs the command line as a user does; each file says what it shows.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("TZ", "UTC")
			docs, err := filepath.Abs("../../docs")
			if err != nil {
				return err
			}
			env.Setenv("DOCS", docs)
			ports, err := process.FreeRow(3) // as axd dev takes them
			env.Setenv("PORT", strconv.Itoa(ports))
			return err
		},
	})
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "axd.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
