package expression

import (
	"testing"
	"time"

	"github.com/axd-project/axd/job"
)

func TestFilterOfAnEvent(t *testing.T) {
	at := time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		filter, payload string
		pass, fails     bool
	}{
		{`payload.size > 0`, `{"size":1}`, true, false},
		{`payload.size > 0`, `{"size":0}`, false, false},
		{`payload.size > 0`, `{}`, false, true},
		{`payload == nil`, ``, true, false},
		{`event.name == "arrived" && event.id == "f1"`, ``, true, false},
		{`event.time == "2026-03-29T01:00:00Z"`, `1`, true, false},
		{`payload.n == 9007199254740993`, `{"n":9007199254740993}`, true, false},
		{`payload`, `{"a":1}`, false, true},
	} {
		e, wrong := CompileFilter(c.filter)
		if wrong != nil {
			t.Fatal(wrong)
		}
		pass, err := Passes(e, "arrived", "f1", at, []byte(c.payload))
		if pass != c.pass || (err != nil) != c.fails {
			t.Errorf("%s with %s: %v, %v", c.filter, c.payload, pass, err)
		}
	}
}

func TestCheckSchedule(t *testing.T) {
	for filter, ok := range map[string]bool{"": true, "payload.a == 1": true, "steps.a.output": false, "payload.": false, "now() > 1": false, "1": false} {
		s := &job.ScheduleSpec{Job: "j", Event: &job.OnEvent{Name: "e", Filter: filter}}
		if err := CheckSchedule(s); (err == nil) != ok || err != nil && err.Field != "event.filter" {
			t.Errorf("%q: %v", filter, err)
		}
	}
}
