package crontab

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/job/cron"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Each table of testdata gives what stands in the file beside it.
func TestTables(t *testing.T) {
	tables, err := filepath.Glob("testdata/*.crontab")
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	for _, table := range tables {
		data, err := os.ReadFile(table)
		if err != nil {
			t.Fatal(err)
		}
		opt := Options{System: strings.Contains(table, "system"), Name: filepath.Base(table)}
		if !opt.System {
			opt.Timezone = "America/New_York"
		}
		got := shown(Convert(data, opt))
		golden := strings.TrimSuffix(table, ".crontab") + ".golden"
		if *update {
			if err := os.WriteFile(golden, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s gives, other than %s:\n%s", table, golden, got)
		}
	}
}

func shown(defs []Definition, notes []Note) []byte {
	var b bytes.Buffer
	for _, d := range defs {
		if d.Comment != "" {
			fmt.Fprintf(&b, "# %s\n", d.Comment)
		}
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		fmt.Fprintf(&b, "%s %s ", d.Kind, d.Name)
		_ = enc.Encode(d.Spec)
	}
	for _, n := range notes {
		fmt.Fprintf(&b, "lost %v: %s\n", n.Lost, n)
	}
	return b.Bytes()
}

func TestSplitPercent(t *testing.T) {
	for _, c := range []struct{ in, command, stdin string }{
		{"date", "date", ""},
		{`date +\%H:\%M`, "date +%H:%M", ""},
		{"cat%", "cat", "\n"},
		{"cat%a%b", "cat", "a\nb\n"},
		{`cat%a\%b%`, "cat", "a%b\n"},
		{`a\\%b`, `a\%b`, ""},
		{`a\b`, `a\b`, ""},
		{"cat%a%%", "cat", "a\n\n"},
	} {
		if command, stdin := splitPercent(c.in); command != c.command || stdin != c.stdin {
			t.Errorf("%q: %q, %q", c.in, command, stdin)
		}
	}
}

func TestNames(t *testing.T) {
	for command, want := range map[string]string{
		"/usr/bin/backup.sh --all":                   "backup",
		"cd /srv && ./run it":                        "run",
		"FOO=1 BAR=2 /opt/x.py":                      "x",
		"test -x /usr/sbin/anacron || run-parts /":   "run-parts",
		"[ -d /a ] && sweep":                         "sweep",
		"flock -n /tmp/l timeout 60 python3 /a/b.py": "b",
		"nice -n 19 ionice -c3 updatedb":             "updatedb",
		"timeout 60 curl http://a/b":                 "curl",
		"/opt/ünï":                                   "n",
		"...":                                        "cron",
		"cd /x":                                      "cd",
		`"/opt/my tool/run"`:                         "my",
		strings.Repeat("a", 100):                     strings.Repeat("a", 60),
	} {
		if got := nameOf(command); got != want {
			t.Errorf("%q: %q, want %q", command, got, want)
		}
	}
}

// Whatever a table says: nothing panics, what comes out is valid, and each line
// that runs something is a job or told of.
func FuzzConvert(f *testing.F) {
	tables, _ := filepath.Glob("testdata/*.crontab")
	for _, table := range tables {
		data, _ := os.ReadFile(table)
		f.Add(data, false)
		f.Add(data, true)
	}
	f.Add([]byte("* * * * * a%\\%\n@x\nA='\n"), false)
	f.Fuzz(func(t *testing.T, data []byte, system bool) {
		defs, notes := Convert(data, Options{System: system, Name: "t"})
		told, names := map[int]bool{}, map[string]bool{}
		for _, n := range notes {
			told[n.Line] = told[n.Line] || n.Lost
		}
		for _, d := range defs {
			key := d.Kind + " " + d.Name
			if names[key] || job.ValidateName("name", d.Name) != nil {
				t.Fatalf("name %q", d.Name)
			}
			names[key] = true
			switch spec := d.Spec.(type) {
			case *job.Spec:
				if e := spec.Validate(); e != nil {
					t.Fatal(e)
				}
			case *job.ScheduleSpec:
				if e := spec.Validate(); e != nil || !names["job "+spec.Job] {
					t.Fatal(e, spec.Job)
				}
				if spec.Cron != "" {
					if _, err := cron.Parse(string(spec.Cron), cron.Options{}); err != nil {
						t.Fatal(err)
					}
				}
			default:
				t.Fatal(reflect.TypeOf(d.Spec))
			}
		}
		entries, _ := Read(data, system)
		for _, e := range entries {
			if !told[e.Line] && !bytes.Contains(data, []byte(e.Text)) {
				t.Fatalf("line %d", e.Line)
			}
		}
		lost := 0
		for _, n := range notes {
			if n.Lost {
				lost++
			}
		}
		if len(defs) < 2*len(entries)-2*lost {
			t.Fatalf("%d lines gave %d definitions and %d notes", len(entries), len(defs), lost)
		}
	})
}
