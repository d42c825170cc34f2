package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "write docs/reference/cli.md anew")

const (
	reference = "../../docs/reference/cli.md"
	generated = "<!-- Below here is written by: go test ./cmd/axd -run TestReference -update -->\n"
)

// TestReference keeps the command line's reference equal to its help texts.
func TestReference(t *testing.T) {
	data, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	head, old, found := strings.Cut(string(data), generated)
	if !found {
		t.Fatalf("%s lacks the line %q", reference, generated)
	}
	var buf bytes.Buffer
	describeCommands(&buf, newRoot())
	if *update {
		if err := os.WriteFile(reference, []byte(head+generated+buf.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if old != buf.String() {
		t.Errorf("%s is behind the help texts; run: go test ./cmd/axd -run TestReference -update", reference)
	}
}

func describeCommands(w *bytes.Buffer, cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		if !c.IsAvailableCommand() || c.Name() == "completion" {
			continue
		}
		if c.HasAvailableSubCommands() && c.Runnable() && c.Name() != "worker" {
			describeCommands(w, c)
			continue
		}
		if f := c.Flags().Lookup("name"); f != nil {
			f.DefValue = "the host's name"
		}
		c.InitDefaultHelpFlag()
		_ = c.Flags().MarkHidden("help")
		text := c.Long
		if text == "" {
			text = c.Short + "."
		}
		fmt.Fprintf(w, "\n## %s\n\n%s\n\n```\n%s\n", c.CommandPath(), indentCode(text), c.UseLine())
		if flags := c.LocalFlags().FlagUsagesWrapped(100); flags != "" {
			fmt.Fprintf(w, "\n%s", flags)
		}
		fmt.Fprintf(w, "```\n")
		if c.Example != "" {
			fmt.Fprintf(w, "\n```sh\n%s\n```\n", dedent(c.Example))
		}
		if c.HasAvailableSubCommands() {
			describeCommands(w, c)
		}
	}
}

// indentCode makes the two-space blocks of a help text code in Markdown.
func indentCode(s string) string { return strings.ReplaceAll(s, "\n  ", "\n      ") }

func dedent(s string) string {
	return strings.TrimPrefix(strings.ReplaceAll(s, "\n  ", "\n"), "  ")
}
