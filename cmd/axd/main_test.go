package main

import (
	"errors"
	"net"
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
			ports, err := freePorts(3)
			env.Setenv("PORT", strconv.Itoa(ports))
			return err
		},
	})
}

// freePorts finds n ports in a row on loopback that nobody uses, as axd dev
// takes them.
func freePorts(n int) (int, error) {
	for range 100 {
		free, err := process.FreePorts(1)
		if err != nil {
			return 0, err
		}
		first := portOf(free[0])
		var held []net.Listener
		for i := 1; i < n && err == nil; i++ {
			var l net.Listener
			if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(first+i))); err == nil {
				held = append(held, l)
			}
		}
		for _, l := range held {
			_ = l.Close()
		}
		if err == nil {
			return first, nil
		}
	}
	return 0, errors.New("no free ports in a row")
}

func portOf(address string) int {
	_, port, _ := net.SplitHostPort(address)
	n, _ := strconv.Atoi(port)
	return n
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "axd.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
