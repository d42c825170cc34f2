package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/axd-project/axd/internal/definition"
)

var (
	yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")
	anyKind   = regexp.MustCompile(`(?m)^kind: (job|workflow|calendar|schedule)$`)
)

// The guides' definitions are ones that axd takes, and the limits they name are
// those of the code.
func TestGuides(t *testing.T) {
	files, err := filepath.Glob("../../docs/guides/*.md")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	all, definitions := "", 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all += string(data)
		for _, block := range yamlBlock.FindAllStringSubmatch(string(data), -1) {
			if !anyKind.MatchString(block[1]) {
				continue
			}
			definitions++
			if _, err := definition.Read("-", strings.NewReader(block[1]), "job"); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
	if definitions == 0 {
		t.Error("no definition found in the guides")
	}
	for _, topic := range []string{
		"last 4 KiB of its standard output", "success_codes", "on_disconnect: continue", "limits: {cpu: 0.5, memory: 67108864}",
		"left running in the background", "--allowed-host", "after it stopped",
	} {
		if !strings.Contains(all, topic) {
			t.Errorf("no guide says %q", topic)
		}
	}
}
