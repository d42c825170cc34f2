package examples

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/axd-project/axd/chaos/process"
)

// axd is built once for all tests.
var axd string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "axd-examples-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	axd = filepath.Join(dir, "axd")
	if out, err := exec.Command("go", "build", "-o", axd, "../cmd/axd").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// place is where an example runs: a server, a worker, and a directory for its files.
type place struct {
	t       *testing.T
	cluster *process.Cluster
	work    string
}

// start brings up a server and a worker whose commands know the example's folder and
// the work directory, as NAME_HOME and NAME_WORK, and applies the definitions.
func start(t *testing.T, name string) *place {
	t.Helper()
	home, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	p := &place{t: t, work: t.TempDir()}
	t.Setenv(strings.ToUpper(name)+"_HOME", home)
	t.Setenv(strings.ToUpper(name)+"_WORK", p.work)
	if p.cluster, err = process.New(process.Config{Bin: axd, Dir: t.TempDir(), Servers: 1}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.cluster.Close)
	w := p.cluster.Worker("w1", 4)
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := p.cluster.StartServers(ctx); err != nil {
		t.Fatal(err)
	}
	if err := p.cluster.AwaitWorkers(ctx, 1); err != nil {
		t.Fatal(err)
	}
	p.must("validate", "--strict", home)
	p.must("apply", "-f", home)
	p.must("plan", "-f", home)
	return p
}

// axd runs the command line; it returns the exit code and what it said.
func (p *place) axd(args ...string) (code int, stdout, stderr string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, axd, args...)
	cmd.Env = append(os.Environ(), "AXD_ADDR="+p.cluster.HTTP()[0])
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		p.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

func (p *place) must(args ...string) string {
	p.t.Helper()
	code, out, errs := p.axd(args...)
	if code != 0 {
		p.t.Fatalf("axd %s: exit code %d\n%s%s", strings.Join(args, " "), code, out, errs)
	}
	return out
}

func (p *place) file(name string) string {
	p.t.Helper()
	data, err := os.ReadFile(filepath.Join(p.work, name))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(data)
}

// steps returns the state of each step of a run.
func (p *place) show(run string) string { return p.must("run", "show", strings.TrimSpace(run)) }

// has fails the test unless a text has a line with all these words in order.
func has(t *testing.T, text string, words ...string) {
	t.Helper()
	for line := range strings.Lines(text) {
		rest, found := line, true
		for _, w := range words {
			if _, rest, found = strings.Cut(rest, w); !found {
				break
			}
		}
		if found {
			return
		}
	}
	t.Errorf("no line with %q in\n%s", words, text)
}
