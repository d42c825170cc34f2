package examples

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A model that is good enough is published; one that fails its check is not.
func TestModel(t *testing.T) {
	p := start(t, "model")
	code, run, errs := p.axd("run", "start", "model", "--param", "min_accuracy=0.99", "--wait")
	if code != 1 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	shown := p.show(run)
	has(t, shown, "train", "success")
	has(t, shown, "verify", "failed")
	has(t, shown, "publish", "upstream_failed")
	if _, err := os.Stat(filepath.Join(p.work, "published")); !os.IsNotExist(err) {
		t.Fatal("a model was published that failed its check:", err)
	}
	run = p.must("run", "start", "model", "--wait")
	has(t, p.show(run), "publish", "success")
	if got := strings.TrimSpace(p.file("published/accuracy.txt")); got != "0.7890" {
		t.Errorf("accuracy %s", got)
	}
	if n := strings.Count(p.file("published/model.txt"), "\n"); n != 5 {
		t.Errorf("a model of %d weights", n)
	}
}
