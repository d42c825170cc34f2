package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// Each help text has an example, and fits into a terminal of 120 columns; what is
// written by hand in it fits into 90.
func TestHelpTextsHaveExamplesAndFit(t *testing.T) {
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			visit(c)
		}
		if cmd.Hidden || strings.HasPrefix(cmd.CommandPath(), "axd completion") {
			return
		}
		if cmd.Example == "" {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
		var help bytes.Buffer
		cmd.SetOut(&help)
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		for text, width := range map[string]int{help.String(): 120, cmd.Long: 90, cmd.Example: 110} {
			for line := range strings.SplitSeq(text, "\n") {
				if n := utf8.RuneCountInString(line); n > width {
					t.Errorf("%s: %d columns, at most %d fit:\n%s", cmd.CommandPath(), n, width, line)
				}
			}
		}
	}
	visit(newRoot())
}
