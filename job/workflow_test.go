package job

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/vmihailenco/msgpack/v5"
)

const etl = `
description: nightly
owner: data
params:
- {name: day, type: string, required: true}
- {name: n, type: int, default: 12345678901234567}
timeout: 2h
max_parallel: 50
steps:
- name: list
  job: list
- name: load
  job: load
  needs: [list]
  rule: none_failed
  when: params.day != "sun"
  payload: {day: "${{ params.day }}", big: 18446744073709551615, f: 1.5, no: null, html: "<a&b>"}
  for_each: {items: "${{ steps.list.output }}", parallel: 20}
  timeout: 90s
  priority: high
  allow_failure: true
- name: sub
  workflow: other
  params: {x: [1, 2]}
on_failure:
- {name: tell, job: tell}
finally:
- {name: clean, job: clean}
`

// A definition says the same in YAML, JSON and msgpack.
func TestWorkflowEncodings(t *testing.T) {
	var w WorkflowSpec
	if err := yaml.UnmarshalWithOptions([]byte(etl), &w, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	load := w.Steps[1]
	if want := `{"big":18446744073709551615,"day":"${{ params.day }}","f":1.5,"html":"<a&b>","no":null}`; string(load.Payload) != want {
		t.Errorf("payload %s, want %s", load.Payload, want)
	}
	if load.TimeoutOrDefault().String() != "1m30s" || load.Priority != High || load.ForEach.MaxOrDefault() != 1000 ||
		load.RuleOrDefault() != NoneFailed || !load.AllowFailure || string(load.ForEach.Items) != `"${{ steps.list.output }}"` {
		t.Errorf("step %+v", load)
	}
	if w.Count() != 5 || w.Sections()[2].Steps[0].RuleOrDefault() != AllSuccess || w.Params[0].TypeOrDefault() != ParamString {
		t.Errorf("workflow %+v", w)
	}
	for _, c := range []struct {
		name    string
		marshal func(any) ([]byte, error)
		read    func([]byte, any) error
	}{
		{"json", json.Marshal, json.Unmarshal},
		{"msgpack", msgpack.Marshal, msgpack.Unmarshal},
		{"yaml", yaml.Marshal, yaml.Unmarshal},
	} {
		b, err := c.marshal(&w)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var back WorkflowSpec
		if err := c.read(b, &back); err != nil {
			t.Errorf("%s: %v in\n%s", c.name, err, b)
			continue
		}
		if a, b := sameJSON(t, w), sameJSON(t, back); !reflect.DeepEqual(a, b) {
			t.Errorf("%s:\n%v\nwant\n%v", c.name, b, a)
		}
	}
}

func sameJSON(t *testing.T, v any) any {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestRunStates(t *testing.T) {
	for _, s := range RunStates {
		if back, err := ParseRunState(s.String()); back != s || err != nil {
			t.Errorf("%s reads as %v: %v", s, back, err)
		}
		if s.Terminal() != (s != RunRunning) {
			t.Errorf("%s terminal %v", s, s.Terminal())
		}
	}
	if _, err := ParseRunState("pending"); err == nil {
		t.Error("accepted pending")
	}
	if RunState(0).String() != "invalid" || !RunState(9).Terminal() {
		t.Error("states out of range")
	}
}
