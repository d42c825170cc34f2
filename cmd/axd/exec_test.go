package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

func TestBeyond(t *testing.T) {
	long := strings.Repeat("0123456789", 100)
	for _, tt := range []struct {
		shown, kept, want string
		found             bool
	}{
		{"", "abc", "abc", false},
		{"abc", "abc", "", true},
		{"abc", "abcdef", "def", true},
		{"xxabc", "abcdef", "def", true},
		{"abc", "xyz", "xyz", false},
		{"line\n", "line\nnext\n", "next\n", true},
		{"x" + long + "y", long + "yz", "z", true},
		{"head" + long + "tail", long[500:] + "tail!", "!", true},
	} {
		if got, found := beyond(tt.shown, tt.kept); got != tt.want || found != tt.found {
			t.Errorf("beyond(%.20q, %.20q) = %.20q, %v; want %q", tt.shown, tt.kept, got, found, tt.want)
		}
	}
}

func TestExecEnd(t *testing.T) {
	code := func(n int) *int { return &n }
	for _, tt := range []struct {
		task        client.Task
		interrupted bool
		want        int
	}{
		{client.Task{State: "success", ExitCode: code(0)}, false, 0},
		{client.Task{State: "success", ExitCode: code(4)}, false, 4},
		{client.Task{State: "failed", ExitCode: code(3)}, false, 3},
		{client.Task{State: "failed", ExitCode: code(0)}, false, 0},
		{client.Task{State: "failed", ExitCode: code(-1)}, false, 125},
		{client.Task{State: "failed", LastError: "no such file"}, false, 125},
		{client.Task{State: "timeout", ExitCode: code(143)}, false, 125},
		{client.Task{State: "cancelled"}, false, 125},
		{client.Task{State: "cancelled", ExitCode: code(143)}, true, 130},
	} {
		started := time.Unix(1, 0)
		tt.task.StartedAt = &started
		err := execEnd(tt.task, tt.interrupted)
		if got := exitCode(err); got != tt.want {
			t.Errorf("%+v: exit code %d, want %d", tt.task, got, tt.want)
		}
	}
}

// A command that never ran wrote nothing: axd says why. One that ran spoke for itself.
func TestExecSaysWhyACommandDidNotRun(t *testing.T) {
	code, started := 127, time.Unix(1, 0)
	task := client.Task{State: "failed", ExitCode: &code, LastError: `command "x" not found in PATH`}
	var failed *runError
	if err := execEnd(task, false); !errors.As(err, &failed) || failed.code != 127 || failed.err == nil || failed.err.Error() != task.LastError {
		t.Errorf("never ran: %v", err)
	}
	task.StartedAt = &started
	if err := execEnd(task, false); !errors.As(err, &failed) || failed.code != 127 || failed.err != nil {
		t.Errorf("ran: %v", err)
	}
}

// TestWatchGoesOnAfterABreak plays a server whose connection breaks in the
// middle of an attempt, then a second attempt: every byte is shown once.
func TestWatchGoesOnAfterABreak(t *testing.T) {
	streams := []string{
		event("problem", client.Problem{Code: job.CodeNotFound}), // not yet known to the worker
		chunk("stdout", "one\n", 0) + chunk("stderr", "warn\n", 0) + chunk("stdout", "two\n", 0),
		event("problem", client.Problem{Code: job.CodeNoLeader}),
		chunk("stdout", "one\ntwo\nthree\n", 0) + chunk("stderr", "warn\n", 0) + chunk("stdout", "four\n", 0) +
			event("end", client.Task{State: "running", Attempt: 1}), // its end is not committed yet
		chunk("stdout", "one\ntwo\nthree\nfour\n", 0) + event("end", client.Task{State: "retrying", Attempt: 1}),
		chunk("stdout", "one\n", 3) + event("end", client.Task{State: "success"}),
	}
	n := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("follow") == "" {
			_, _ = fmt.Fprint(w, `{"id":"x","state":"running"}`)
			return
		}
		_, _ = fmt.Fprint(w, streams[n])
		n++
	}))
	defer srv.Close()
	cl, err := client.New(client.Config{Addresses: []string{srv.URL}})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var stdout, stderr bytes.Buffer
	w := watcher{client: cl, stdout: &stdout, stderr: &stderr}
	task, err := w.watch(context.Background(), "x")
	if err != nil || task.State != "success" {
		t.Fatalf("got %+v, %v", task, err)
	}
	if want := "one\ntwo\nthree\nfour\none\n"; stdout.String() != want {
		t.Errorf("stdout %q, want %q", stdout.String(), want)
	}
	if got := stderr.String(); strings.Count(got, "warn\n") != 1 || strings.Count(got, "connecting again") != 1 ||
		!strings.Contains(got, "up to 3 bytes of stdout are not shown") {
		t.Errorf("stderr %q", got)
	}
}

func event(name string, v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return "event: " + name + "\ndata: " + string(data) + "\n\n"
}

func chunk(stream, data string, skipped int64) string {
	return event("chunk", client.LogChunk{Stream: stream, Data: data, Skipped: skipped})
}
