package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/axd-project/axd/client"
)

// Pages without a match, as a server answers them among many older tasks, are
// not shown as an empty list.
func TestListGoesOnThroughEmptyPages(t *testing.T) {
	pages := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.URL.Query().Get("cursor"); pages > 0 && got != strconv.Itoa(pages) {
			t.Errorf("asked for page %q, want %d", got, pages)
		}
		pages++
		page := client.TaskList{NextCursor: strconv.Itoa(pages)}
		if pages == 4 {
			page.Tasks = []client.Task{{ID: "FOUND", State: "success"}}
		}
		_ = json.NewEncoder(w).Encode(page)
	}))
	defer srv.Close()
	var stdout, stderr bytes.Buffer
	code := run([]string{"task", "list", "--after", "2026-11-30T00:00:00Z", "--addr", srv.URL}, strings.NewReader(""), &stdout, &stderr)
	if code != 0 || !strings.Contains(stdout.String(), "FOUND") || !strings.Contains(stderr.String(), "--cursor 4") || pages != 4 {
		t.Errorf("code %d after %d pages: %s%s", code, pages, stdout.String(), stderr.String())
	}
}

func TestTaskTableShowsTheLatestOutput(t *testing.T) {
	for output, want := range map[string]string{
		`{"rows":3}`:     `{"rows":3}`,
		`"plain text\n"`: "plain text",
		`"` + strings.Repeat("x", 16<<10-2) + `"`: strings.Repeat("x", 199) + "…",
	} {
		var buf bytes.Buffer
		tb := newTable(&buf)
		taskTable(tb, client.Task{ID: "X"}, []client.Attempt{{Output: []byte(`"old"`)}, {Output: []byte(output)}})
		if err := tb.flush(); err != nil {
			t.Fatal(err)
		}
		if got := buf.String(); !strings.Contains(got, " "+want+"\n") || strings.Contains(got, "old") {
			t.Errorf("%.40s: got %s", output, got)
		}
	}
}
