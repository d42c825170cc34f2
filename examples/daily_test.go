package examples

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

// The upstream delivers two seconds late: the first step tries again until it is
// there, the others wait, and the result is that of the data.
func TestDaily(t *testing.T) {
	p := start(t, "daily")
	run := strings.TrimSpace(p.must("run", "start", "daily", "--param", "day=2015-08-15"))
	begin := time.Now() // whatever the submit takes, the delivery comes two seconds later or more
	p.must("task", "submit", "--job", "daily-feed", "--payload", `"2015-08-15"`, "--delay", "2s")
	if code, _, errs := p.axd("run", "show", run, "--watch"); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	if took := time.Since(begin); took < 2*time.Second {
		t.Errorf("it was done after %s, before the delivery", took)
	}
	shown := p.show(run)
	for _, step := range []string{"extract", "clean", "aggregate", "report"} {
		has(t, shown, step, "success")
	}
	// Counted by hand from weather.csv.
	const want = "New York,15,29.0,2,30.49,33.3\nSeattle,15,38.1,2,26.91,33.3\n"
	if got := p.file("2015-08-15/aggregate.csv"); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	has(t, p.file("2015-08-15/report.txt"), "Seattle", "15 days", "38.1 mm of rain on 2 of them")
	// The schedule that comes after the delivery has run it as well.
	var fired []string
	for end := time.Now().Add(time.Minute); len(fired) == 0 && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		fired = regexp.MustCompile(`fired .* run ([0-9A-Z]{26}) `).FindStringSubmatch(p.must("schedule", "fires", "daily-delivered"))
	}
	if len(fired) == 0 {
		t.Fatal(p.must("schedule", "show", "daily-delivered"))
	}
	if code, out, errs := p.axd("run", "show", fired[1], "--watch"); code != 0 {
		t.Errorf("after the delivery: exit code %d: %s%s", code, out, errs)
	}
	raw, clean := strings.Count(p.file("2015-08-15/raw.csv"), "\n"), strings.Count(p.file("2015-08-15/clean.csv"), "\n")
	if raw != 33 || clean != 30 {
		t.Errorf("%d lines came in, %d are clean", raw, clean)
	}
}
