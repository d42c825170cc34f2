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
					if cells := strings.Split(strings.TrimSpace(line), " | "); strings.HasPrefix(line, "| `--") && len(cells) == 6 {
						rows[strings.Trim(cells[0], "| `")] = cells
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
				if got := strings.Trim(cells[i], "` "); got != want {
					t.Errorf("axd %s --%s: %q, want %q", cmd.Name(), f.Name, got, want)
				}
			}
		})
		for flag := range rows {
			t.Errorf("axd %s has no setting %s", cmd.Name(), flag)
		}
	}
}

func defaultText(f *pflag.Flag) string {
	said := usageDefault.FindStringSubmatch(f.Usage)
	switch {
	case f.Name == "name":
		return "the host's name"
	case said != nil:
		return said[1]
	case f.DefValue == "":
		return "none"
	}
	return f.DefValue
}
