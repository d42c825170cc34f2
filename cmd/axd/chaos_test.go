package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// However axd chaos is ended, its servers, workers and their commands end too.
func TestChaosLeavesNoProcessBehind(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real processes")
	}
	for name, signal := range map[string]syscall.Signal{"ctrl-c": syscall.SIGINT, "kill": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			dir := t.TempDir()
			cmd := exec.CommandContext(ctx, "axd", "chaos", "run", "hang-worker", "--report", filepath.Join(dir, "report"))
			cmd.Env = append(os.Environ(), "TMPDIR="+dir)
			var errs bytes.Buffer
			cmd.Stderr = &errs
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			until(ctx, t, "three servers, two workers and a command run", func() bool {
				lines := with(dir)
				return len(lines) >= 6 && strings.Contains(strings.Join(lines, "\n"), "AXD_FENCING_TOKEN")
			})
			_ = cmd.Process.Signal(signal)
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); signal == syscall.SIGINT && code != exitInterrupted {
				t.Errorf("it ended with code %d: %s", code, &errs)
			}
			if left := with(dir); signal == syscall.SIGINT && len(left) > 0 {
				t.Errorf("it left %q", left)
			}
			until(ctx, t, "all have ended", func() bool { return len(with(dir)) == 0 })
		})
	}
}

func until(ctx context.Context, t *testing.T, what string, done func() bool) {
	t.Helper()
	for ; !done(); time.Sleep(20 * time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// with returns the command lines of processes that name a directory.
func with(dir string) (lines []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		line, err := os.ReadFile(f)
		if err == nil && bytes.Contains(line, []byte(dir)) && !bytes.Contains(line, []byte("chaos\x00run")) {
			lines = append(lines, string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	return lines
}
