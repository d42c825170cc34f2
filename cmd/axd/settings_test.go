package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// settingsCommand has one flag of each kind.
func settingsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "x"}
	var log logging
	f := cmd.Flags()
	f.String("name", "host", "")
	f.String("data-dir", "./d", "")
	f.StringSlice("join", nil, "")
	f.StringToString("label", nil, "")
	f.Int("slots", 1, "")
	f.Bool("insecure", false, "")
	d := new(durationFlag)
	f.Var(d, "retention", "")
	log.flags(cmd, "info")
	return cmd
}

func TestSettingsRank(t *testing.T) {
	file := write(t, `# a comment
name: file
data_dir: /from/file
join: [a:1, b:2]
label: {disk: ssd, "zone": '1'}
slots: 4
insecure: true
retention: 7d
log_format: json
`)
	t.Setenv("AXD_NAME", "env")
	t.Setenv("AXD_SLOTS", "5")
	t.Setenv("AXD_RETENTION", "")
	cmd := settingsCommand()
	if err := cmd.ParseFlags([]string{"--config", file, "--slots", "6"}); err != nil {
		t.Fatal(err)
	}
	if err := settings(cmd); err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string]string{
		"slots": "6", "name": "env", "data-dir": "/from/file", "join": "[a:1,b:2]", "insecure": "true",
		"retention": "168h", "log-format": "json", "log-level": "info",
	} {
		if got := cmd.Flags().Lookup(flag).Value.String(); got != want {
			t.Errorf("--%s is %s, want %s", flag, got, want)
		}
	}
	if m, _ := cmd.Flags().GetStringToString("label"); m["disk"] != "ssd" || m["zone"] != "1" || len(m) != 2 {
		t.Errorf("labels %v", m)
	}
}

func TestSettingsFromConfigInEnvironment(t *testing.T) {
	t.Setenv("AXD_CONFIG", write(t, "name: file\n"))
	cmd := settingsCommand()
	if err := settings(cmd); err != nil {
		t.Fatal(err)
	}
	if got, _ := cmd.Flags().GetString("name"); got != "file" {
		t.Errorf("name %q", got)
	}
}

func TestSettingsRefuse(t *testing.T) {
	for _, tt := range []struct{ name, file, want string }{
		{"unknown key", "name: a\n\ndata-dir: x\n", "axd.yaml:3: is not a setting; there are data_dir, "},
		{"wrong type", "name: a\nslots: many\n", "axd.yaml:2: slots "},
		{"list for one value", "name:\n  - a\n  - b\n", "axd.yaml:2: name must be one value"},
		{"map for a list", "join:\n  a: [b]\n", "join must be a map of plain values"},
		{"no value", "name:\n", "axd.yaml:1: name must have a value"},
		{"bare number", "retention: 90\n", "axd.yaml:1: retention must be a duration with a unit"},
		{"twice", "name: a\nname: b\n", "already defined"},
		{"two documents", "name: a\n---\nname: b\n", "one document"},
		{"no map", "- name\n", "must be a list of settings"},
		{"no YAML", "name: [a\n", "must be YAML"},
		{"key that is none", "[a]: b\n", "must be YAML"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd := settingsCommand()
			if err := cmd.ParseFlags([]string{"--config", write(t, tt.file)}); err != nil {
				t.Fatal(err)
			}
			err := settings(cmd)
			if err == nil || !strings.Contains(err.Error(), tt.want) || exitCode(err) != exitUsage {
				t.Errorf("got %v, want …%s…", err, tt.want)
			}
		})
	}
}

func TestSettingsRefuseEnvironment(t *testing.T) {
	t.Setenv("AXD_SLOTS", "many")
	err := settings(settingsCommand())
	if err == nil || !strings.HasPrefix(err.Error(), "AXD_SLOTS: ") || exitCode(err) != exitUsage {
		t.Errorf("got %v", err)
	}
}

func TestSettingsTakeAnEmptyFile(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "---\n"} {
		cmd := settingsCommand()
		_ = cmd.ParseFlags([]string{"--config", write(t, text)})
		if err := settings(cmd); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// No name of Go's types or functions reaches the user.
func TestSettingsSayWhatAValueMustBe(t *testing.T) {
	for name, tt := range map[string]struct{ value, want string }{
		"AXD_SLOTS":     {"x", `AXD_SLOTS: must be a whole number (got "x")`},
		"AXD_INSECURE":  {"x", `AXD_INSECURE: must be true or false (got "x")`},
		"AXD_LOG_LEVEL": {"foo", `AXD_LOG_LEVEL: must be debug, info, warn or error (got "foo")`},
		"AXD_JOIN":      {`a"b`, `AXD_JOIN: must be values separated by commas, with quotes in pairs (got "a\"b")`},
		"AXD_RETENTION": {"7", `AXD_RETENTION: must be a duration with a unit, such as "90s", "1h30m" or "7d", of at most 292 years (got "7")`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, tt.value)
			if err := settings(settingsCommand()); err == nil || err.Error() != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}
