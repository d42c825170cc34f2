package expression

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The guide's workflow is a right one, and its table names the functions that there are.
func TestGuide(t *testing.T) {
	b, err := os.ReadFile("../../docs/guides/expressions.md")
	if err != nil {
		t.Fatal(err)
	}
	guide := string(b)
	_, text, _ := strings.Cut(guide, "```yaml\nkind: workflow\nname: import\n")
	text, _, ok := strings.Cut(text, "```")
	if !ok {
		t.Fatal("the guide holds no workflow")
	}
	if err := CheckWorkflow(workflow(t, text)); err != nil {
		t.Error(err)
	}
	var named, known []string
	for _, row := range regexp.MustCompile("(?m)^\\| of (?:values|numbers|texts|lists|objects) \\| `(.*)` \\|$").FindAllStringSubmatch(guide, -1) {
		named = append(named, strings.Fields(row[1])...)
	}
	for name := range functions {
		if !strings.Contains(name, " ") {
			known = append(known, name)
		}
	}
	slices.Sort(named)
	slices.Sort(known)
	if !slices.Equal(named, known) {
		t.Errorf("the guide names %v, there are %v", named, known)
	}
	for name := range predicates {
		if !regexp.MustCompile("(?m)^\\| loops \\| `[^`]*\\b" + name + "\\b").MatchString(guide) {
			t.Errorf("the guide leaves out the loop %s", name)
		}
	}
}
