package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
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

// What can't go on by itself is said with the command that helps.
func TestHintsNameTheNextCommand(t *testing.T) {
	for next, err := range map[string]error{
		"'axd cluster recover'": job.Errorf(job.CodeNoLeader, "there is no leader"),
		"'axd cluster status'":  job.NotFound("server", "s9"),
		"'axd task list'":       &client.Error{Problem: client.Problem{Code: job.CodeNotFound, Field: "task", Status: 404}},
		"'axd alert list'":      job.NotFound("alert", "x/y"),
	} {
		if got := hint(err); !strings.Contains(got, next) {
			t.Errorf("%v: %q doesn't name %s", err, got, next)
		}
	}
}
