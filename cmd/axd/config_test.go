package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const configReference = "../../docs/reference/config.md"

var usageDefault = regexp.MustCompile(`\(default: (.*)\)$`)

// The reference of settings has every setting and no other, by the names it has,
// with the default that holds.
func TestConfigReference(t *testing.T) {
	data, err := os.ReadFile(configReference)
	if err != nil {
		t.Fatal(err)
	}
	sections := strings.Split(string(data), "\n## ")
	for _, cmd := range []*cobra.Command{newServer(), newWorker(), newDev()} {
		hideZeroDefaults(cmd)
		rows := map[string][]string{}
		for _, s := range sections {
			if name, body, _ := strings.Cut(s, "\n"); name == "axd "+cmd.Name() {
				for line := range strings.Lines(body) {
					if cells := tableCells(line); len(cells) == 6 && strings.HasPrefix(line, "| `--") {
						rows[cells[0]] = cells
					}
				}
			}
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name == "help" {
				return
			}
			cells, ok := rows["--"+f.Name]
			if !ok {
				t.Errorf("axd %s --%s is not in %s", cmd.Name(), f.Name, configReference)
				return
			}
			delete(rows, "--"+f.Name)
			key := fileKey(f.Name)
			if f.Name == "config" {
				key = ""
			}
			for i, want := range map[int]string{1: "AXD_" + envName(f.Name), 2: key, 3: defaultText(f)} {
				if cells[i] != want {
					t.Errorf("axd %s --%s: %q, want %q", cmd.Name(), f.Name, cells[i], want)
				}
			}
		})
		for flag := range rows {
			t.Errorf("axd %s has no setting %s", cmd.Name(), flag)
		}
	}
}

// tableCells takes a row of a Markdown table apart; cells may be empty.
func tableCells(row string) []string {
	cells := strings.Split(strings.Trim(row, "\n"), "|")
	if len(cells) < 2 {
		return nil
	}
	cells = cells[1 : len(cells)-1]
	for i := range cells {
		cells[i] = strings.Trim(cells[i], "` ")
	}
	return cells
}

func defaultText(f *pflag.Flag) string {
	said := usageDefault.FindStringSubmatch(f.Usage)
	switch {
	case f.Name == "name":
		return "the host's name"
	case said != nil:
		return said[1]
	case f.DefValue == "", f.DefValue == "[]":
		return "none"
	}
	return f.DefValue
}
