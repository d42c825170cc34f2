// Command hunt puts the faults of package mutant into axd, one after the other, and
// wants each to be found by the tests that should: see table.go. It builds those tests
// once, runs them without a fault first, and prints which check found which mutant.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	envMutant = "AXD_MUTANT"
	patience  = 3 * time.Minute // for one check
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run() error {
	only := flag.String("only", "", "`names`, parted by commas: hunt these mutants alone")
	all := flag.Bool("all", false, "run every check of a mutant, not only up to the one that finds it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	h := &hunt{ctx: ctx, dir: filepath.Join(".cache", "mutants"), all: *all, sound: map[string]error{}}
	return h.run(*only)
}

type hunt struct {
	ctx   context.Context
	dir   string // of the built tests
	all   bool
	sound map[string]error // by check: whether it passes without a fault
}

func (h *hunt) run(only string) error {
	began := time.Now()
	chosen := mutants
	if only != "" {
		chosen = nil
		for _, name := range strings.Split(only, ",") {
			at := slices.IndexFunc(mutants, func(m mutant) bool { return m.name == name })
			if at < 0 {
				return fmt.Errorf("there is no mutant %q", name)
			}
			chosen = append(chosen, mutants[at])
		}
	}
	if err := h.build(chosen); err != nil {
		return err
	}
	fmt.Printf("%-18s %-11s %8s  %s\n", "MUTANT", "FOUND BY", "AFTER", "CHECK")
	var missed []string
	for _, m := range chosen {
		found, err := h.hunt(m)
		if err != nil {
			return err
		}
		if !found {
			missed = append(missed, m.name)
		}
	}
	fmt.Printf("%d of %d mutants found in %v\n", len(chosen)-len(missed), len(chosen), time.Since(began).Round(time.Second))
	if len(missed) > 0 {
		return fmt.Errorf("not found: %s", strings.Join(missed, ", "))
	}
	return nil
}

// build compiles the tests of every package that is needed.
func (h *hunt) build(chosen []mutant) error {
	var pkgs []string
	for _, m := range chosen {
		for _, c := range m.checks {
			pkgs = append(pkgs, c.pkg)
		}
	}
	slices.Sort(pkgs)
	for _, pkg := range slices.Compact(pkgs) {
		cmd := exec.CommandContext(h.ctx, "go", "test", "-c", "-tags", "mutants", "-o", h.binary(pkg), "./"+pkg)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build the tests of %s: %w\n%s", pkg, err, out)
		}
	}
	return nil
}

func (h *hunt) binary(pkg string) string {
	return filepath.Join(h.dir, strings.ReplaceAll(pkg, "/", "-")+".test")
}

// hunt runs the checks of a mutant until one finds it.
func (h *hunt) hunt(m mutant) (found bool, err error) {
	for _, c := range m.checks {
		if err := h.passes(c); err != nil {
			return false, err
		}
		began := time.Now()
		out, err := h.test(c, m.name)
		took := time.Since(began)
		if h.ctx.Err() != nil {
			return false, errors.New("interrupted")
		}
		if err == nil {
			continue
		}
		fmt.Printf("%-18s %-11s %7.1fs  %s: %s\n", m.name, c.tier, took.Seconds(), c.pkg, verdict(out))
		if found = true; !h.all {
			return true, nil
		}
	}
	if !found {
		fmt.Printf("%-18s %-11s\n", m.name, "NOTHING")
	}
	return found, nil
}

// passes wants a check to find nothing where there is nothing.
func (h *hunt) passes(c check) error {
	key := fmt.Sprint(c)
	err, known := h.sound[key]
	if !known {
		var out string
		if out, err = h.test(c, ""); err != nil {
			err = fmt.Errorf("%s %s fails without a fault: %w\n%s", c.pkg, c.run, err, out)
		} else if strings.Contains(out, "no tests to run") {
			err = fmt.Errorf("%s has no test %s", c.pkg, c.run)
		}
		h.sound[key] = err
	}
	return err
}

// test runs a check. Without a fault nothing but its failure is an error; with one, a
// check that comes to no end has found it.
func (h *hunt) test(c check, fault string) (out string, err error) {
	path, err := filepath.Abs(h.binary(c.pkg))
	if err != nil {
		return "", err
	}
	args := append([]string{"-test.run", c.run, "-test.timeout", patience.String(), "-test.failfast"}, c.args...)
	ctx, cancel := context.WithTimeout(h.ctx, patience+10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = c.pkg
	cmd.Env = append(append(os.Environ(), envMutant+"="+fault, "RAPID_NOFAILFILE=1"), c.env...)
	b, err := cmd.CombinedOutput()
	return string(b), err
}

var (
	failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	panicked   = regexp.MustCompile(`(?m)^panic: (.*)$`)
	said       = regexp.MustCompile(`(?m)^\s+\w+_test\.go:\d+: (.*)$`)
	logged     = regexp.MustCompile(`^(AXD_|time=|seed \d+: )`) // what tests say besides
)

// verdict is which test found a fault, and what it said first.
func verdict(out string) string {
	name, text := "", ""
	for _, m := range failedTest.FindAllStringSubmatch(out, -1) {
		name = m[1] // the innermost comes last
	}
	for _, m := range said.FindAllStringSubmatch(out, -1) {
		if !logged.MatchString(m[1]) {
			text = m[1]
			break
		}
	}
	if m := panicked.FindStringSubmatch(out); m != nil {
		text = cmp.Or(text, "panic: "+m[1])
	}
	const most = 90
	if len(text) > most {
		text = text[:most] + "…"
	}
	return strings.TrimSpace(name + " " + text)
}
