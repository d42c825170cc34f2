package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// next runs axd schedule next and returns its exit code, what it answered and said.
func next(args ...string) (code int, times []nextTime, said string) {
	var out, errs bytes.Buffer
	code = run(append([]string{"schedule", "next", "-n", "3", "-o", "json"}, args...), strings.NewReader(""), &out, &errs)
	_ = json.Unmarshal(out.Bytes(), &times)
	return code, times, errs.String()
}

// TestScheduleNextTable asks for each row of the table of cases as an operator
// would.
func TestScheduleNextTable(t *testing.T) {
	text, err := os.ReadFile("../../job/cron/testdata/cron.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
		col := strings.Split(row, "\t")
		code, times, said := next("--cron", col[0], "--timezone", col[1], "--from", col[2])
		if col[3] == "error" {
			if code != exitUsage || !strings.Contains(said, " must ") {
				t.Errorf("row %d: %s in %s ends with %d: %s", i+2, col[0], col[1], code, said)
			}
			continue
		}
		if code != exitOK || len(times) != 3 || times[0].At != col[3] || times[1].At != col[4] || times[2].At != col[5] {
			t.Errorf("row %d: %s in %s from %s: got %d, %+v %s; want %v", i+2, col[0], col[1], col[2], code, times, said, col[3:6])
		}
	}
}

// TestK1_08_NonsenseAtTheCommandLine: exit code 2, and the field is named.
func TestK1_08_NonsenseAtTheCommandLine(t *testing.T) {
	for _, expr := range []string{"", "   ", strings.Repeat(",", 10_000), "０ 5 * * *", "0 5\n* * *"} {
		if code, _, said := next("--cron", expr); code != exitUsage || !strings.Contains(said, "cron: must ") || len(said) > 400 {
			t.Errorf("%.20q ends with %d: %.400s", expr, code, said)
		}
	}
}
