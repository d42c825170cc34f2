package definition

import (
	"errors"
	"strings"
	"testing"

	"github.com/axd-project/axd/job"
)

// Each refusal names the line, the path, the rule and the value.
func TestReadRefuses(t *testing.T) {
	const head = "kind: job\nname: x\nexec: {command: [a]}\n"
	for name, c := range map[string]struct{ text, want string }{
		"unknown field":  {head + "retry: {max: 1}", "f:4: retry.max: is not a field that axd knows here"},
		"other case":     {head + "Retry: {}", "f:4: Retry: is not a field that axd knows here; it is written retry"},
		"doubled":        {head + "app: a\napp: b", `f:5: mapping key "app" already defined`},
		"list for text":  {head + "app: [a]", "f:4: app: must be a text"},
		"number":         {head + "success_codes: [1.5]", `f:4: success_codes[0]: must be a whole number within its range (got "1.5")`},
		"boolean":        {head + "idempotent: yes", `f:4: idempotent: must be true or false (got "yes")`},
		"duration":       {head + "timeout: 90", `f:4: timeout: must be a duration with a unit`},
		"null in a map":  {head + "selector:\n  a:\n", `f:5: selector["a"]: must have a value`},
		"alias":          {head + "app: *a", `f:4: app: must be the alias of an anchor before it (got "a")`},
		"tag":            {head + "app: !include a", `f:4: app: must have no tag (got "!include")`},
		"own rule":       {head + "retry:\n  initial: 5s\n  cap: 1s", `f:6: retry.cap: must be at least retry.initial, 5s (got "1s")`},
		"absent field":   {"kind: job\nname: x\nexec:\n  env: {A: b}", "f:3: exec.command: must hold the program"},
		"name":           {"kind: job\nname: a/b\nhandler: h", `f:2: name: must be 1 to 253`},
		"no map":         {"- a", "f:1: must be a map of fields"},
		"second of many": {head + "---\n" + head + "---\nkind: job\nname: [a]\n", "f:10: name: must be a text"},
		"cut":            {"kind: job\nexec: {command: [a\n", "f:2"},
		"empty cron":     {"kind: schedule\nname: x\njob: a\ncron: \"\"", `f:4: cron: must not be empty: leave it out of a schedule without times`},
		"cron":           {"kind: schedule\nname: x\njob: a\ncron: 61 * * * *", `f:4: cron: minute must be from 0 to 59 (got "61")`},
		"after":          {"kind: schedule\nname: x\njob: a\nafter: {all: [{job: b}], period: day, wait: -1s}", `f:4: after.wait: must be 0`},
		"after an event": {"kind: schedule\nname: x\njob: a\nevent: {name: e}\nafter: {all: [{job: b}]}", `f:5: after: must not be given beside event`},
		"step":           {"kind: workflow\nname: x\nsteps:\n- {name: a, job: a}\n- {name: b, job: b, needs: [c]}", "f:5: steps[1].needs[0]"},
		"expression":     {"kind: workflow\nname: x\nsteps:\n- {name: a, job: a}\n- {name: b, job: b, needs: [a], when: 'steps.c.output'}", "f:5: steps[1].when"},
		"laughs": {"kind: job\nname: x\nexec: {command: [a]}\napp: &a [" + strings.Repeat("b,", 10) + "]\n" +
			"selector: {a: &b [*a,*a]}", "f:4: app: must be a text"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse("f", []byte(c.text), "", kindNamed)
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
			var e *job.Error
			if !errors.As(err, &e) || e.Code != job.CodeInvalid {
				t.Errorf("%T", err)
			}
		})
	}
}

// A document can't grow without bound by its aliases.
func TestAliasesAreBounded(t *testing.T) {
	text := "kind: schedule\nname: x\njob: a\npayload:\n  a: &a [1,1,1,1,1,1,1,1,1,1]\n"
	before := "a"
	for _, name := range []string{"b", "c", "d", "e", "f", "g", "h"} {
		text += "  " + name + ": &" + name + " [" + strings.TrimSuffix(strings.Repeat("*"+before+",", 10), ",") + "]\n"
		before = name
	}
	_, err := parse("f", []byte(text), "", kindNamed)
	if err == nil || !strings.Contains(err.Error(), "must hold at most 500000 values, aliases counted") {
		t.Error(err)
	}
}

func TestReadTakes(t *testing.T) {
	found, err := parse("f", []byte(`
# what both have
kind: schedule
name: x
job: report
cron: "0 2 * * *"
payload:
  base: &base {n: 9007199254740993, f: 1.10, big: 123456789012345678901234567890}
  over: {<<: *base, n: 0x10}
  text: !!str 12
  none: ~
start: 2026-12-01T00:00:00Z
max_runs: 5
---
# nothing
---
kind: job
name: y
exec: {command: [sleep, 5, 1.50, true], env: {PORT: 08080}}
timeout: 1h30m
`), "", kindNamed)
	if err != nil || len(found) != 2 {
		t.Fatal(found, err)
	}
	s, _ := found[0].Spec.(*job.ScheduleSpec)
	want := `{"base":{"n":9007199254740993,"f":1.10,"big":123456789012345678901234567890},` +
		`"over":{"n":16,"f":1.10,"big":123456789012345678901234567890},"text":"12","none":null}`
	if string(s.Payload) != want || s.MaxRuns != 5 || s.Start.String() != "2026-12-01T00:00:00Z" || found[0].Line != 3 {
		t.Errorf("%s\n%+v", s.Payload, s)
	}
	j, _ := found[1].Spec.(*job.Spec)
	if got := strings.Join(j.Exec.Command, " "); got != "sleep 5 1.50 true" || j.Exec.Env["PORT"] != "08080" {
		t.Errorf("%q %v", got, j.Exec.Env)
	}
}

// Whatever is in a file, reading it neither panics nor takes what the API would refuse.
func FuzzParse(f *testing.F) {
	f.Add([]byte("kind: job\nname: x\nexec: {command: [a]}\n---\nkind: schedule\nname: s\njob: x\ncron: '@daily'\npayload: &a {b: [*a, 1e400]}\n"))
	f.Add([]byte("{\"kind\": \"workflow\", \"name\": \"w\", \"steps\": [{\"name\": \"a\", \"job\": \"a\", \"payload\": {\"<<\": 1}}]}"))
	f.Add([]byte("kind: job\nname: x\nexec:\n  command: [a]\n  stdin: |+\n    b\n\n  env: &e {A: !!str 1}\nselector: {<<: *e}\n? a\n: b\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		found, err := parse("f", data, "job", kindNamed)
		if err != nil {
			return
		}
		for _, o := range found {
			if err := o.Kind.check(o.Spec); err != nil {
				t.Fatal(err)
			}
			text, err := YAML(o.Kind.Name, o.Name, o.Spec)
			if err != nil {
				t.Fatal(err)
			}
			again, err := parse("g", text, "", kindNamed)
			if err != nil || len(again) != 1 {
				t.Fatalf("%q is not read again: %v", text, err)
			}
			d, err := diff(o.Spec, again[0].Spec)
			if err != nil || len(d) > 0 {
				t.Fatalf("%q reads as another: %v %v", text, d, err)
			}
		}
	})
}
