package job

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/vmihailenco/msgpack/v5"
)

func TestScheduleSpecIsTheSameInJSONAndYAMLAndMsgpack(t *testing.T) {
	window, tolerance := Duration(2*time.Hour), Duration(30*time.Second)
	want := ScheduleSpec{
		Description: "d", Workflow: "etl", Params: Values{"day": JSON(`"sun"`), "n": JSON(`3`)}, Priority: Low,
		Every: Duration(15 * time.Minute), Anchor: 1764550800000, Timezone: "Europe/Berlin",
		After:  &After{All: []Upstream{{Job: "a"}, {Workflow: "b"}, {Schedule: "c"}}, Period: PeriodHour, Wait: Duration(6 * time.Hour)},
		Event:  &OnEvent{Name: "file-arrived", Filter: "payload.size > 0"},
		Jitter: Duration(30 * time.Second), Calendars: &Calendars{Include: []string{"work"}, Exclude: []string{"holidays"}, Shift: ShiftNext},
		Start: 1764550800000, End: 1764550800001, MaxRuns: 100, Overlap: OverlapQueueAll, QueueCap: 7,
		Misfire: MisfireAll, MisfireWindow: &window, MisfireCap: 5, Tolerance: &tolerance, PauseAfterFailures: 5,
	}
	valid := want
	valid.Event = nil // which is not allowed beside after
	if err := valid.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, roundTrip := range map[string]func(ScheduleSpec) (ScheduleSpec, error){
		"json": func(s ScheduleSpec) (got ScheduleSpec, err error) {
			b, err := json.Marshal(s)
			if err == nil {
				err = json.Unmarshal(b, &got)
			}
			return got, err
		},
		"yaml": func(s ScheduleSpec) (got ScheduleSpec, err error) {
			b, err := yaml.Marshal(s)
			if err == nil {
				err = yaml.UnmarshalWithOptions(b, &got, yaml.Strict())
			}
			return got, err
		},
		"msgpack": func(s ScheduleSpec) (got ScheduleSpec, err error) {
			b, err := msgpack.Marshal(s)
			if err == nil {
				err = msgpack.Unmarshal(b, &got)
			}
			return got, err
		},
	} {
		got, err := roundTrip(want)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got\n%+v, want\n%+v", name, got, want)
		}
	}
}

func TestScheduleSpecIsRefused(t *testing.T) {
	valid := func() ScheduleSpec { return ScheduleSpec{Job: "j", Cron: "0 2 * * *"} }
	second, long := Duration(time.Second), Duration(400*24*time.Hour)
	for _, c := range []struct {
		field, value string
		change       func(*ScheduleSpec)
	}{
		{"job", "", func(s *ScheduleSpec) { s.Job = "" }},
		{"job", `"a b"`, func(s *ScheduleSpec) { s.Job = "a b" }},
		{"workflow", `"w"`, func(s *ScheduleSpec) { s.Workflow = "w" }},
		{"workflow", `"-w"`, func(s *ScheduleSpec) { s.Job, s.Workflow = "", "-w" }},
		{"params", "", func(s *ScheduleSpec) { s.Params = Values{"a": JSON("1")} }},
		{"payload", "", func(s *ScheduleSpec) { s.Job, s.Workflow, s.Payload = "", "w", JSON("1") }},
		{"payload", `"{"`, func(s *ScheduleSpec) { s.Payload = JSON("{") }},
		{`params["a"]`, `"x"`, func(s *ScheduleSpec) { s.Job, s.Workflow, s.Params = "", "w", Values{"a": JSON("x")} }},
		{"reconcile_url", "", func(s *ScheduleSpec) { s.ReconcileURL = "http://a" }},
		{"reconcile_url", `"ftp://a"`, func(s *ScheduleSpec) { s.Job, s.ReconcileURL = "", "ftp://a" }},
		{"reconcile_url", "", func(s *ScheduleSpec) { s.Job, s.ReconcileURL = "", "http://u:p@a" }},
		{"reconcile_secret", `"x"`, func(s *ScheduleSpec) { s.ReconcileSecret = "x" }},
		{"reconcile_secret", `"-"`, func(s *ScheduleSpec) { s.Job, s.ReconcileURL, s.ReconcileSecret = "", "http://a", "-" }},
		{"reconcile_replay", "", func(s *ScheduleSpec) { s.ReconcileReplay = true }},
		{"payload", "", func(s *ScheduleSpec) { s.Job, s.ReconcileURL, s.Payload = "", "http://a", JSON("1") }},
		{"params", "", func(s *ScheduleSpec) { s.Job, s.ReconcileURL, s.Params = "", "http://a", Values{"a": JSON("1")} }},
		{"priority", `"low"`, func(s *ScheduleSpec) { s.Job, s.ReconcileURL, s.Priority = "", "http://a", Low }},
		{"overlap", `"allow"`, func(s *ScheduleSpec) { s.Job, s.ReconcileURL, s.Overlap = "", "http://a", OverlapAllow }},
		{"overlap", `"cancel_other"`, func(s *ScheduleSpec) { s.Job, s.ReconcileURL, s.Overlap = "", "http://a", OverlapCancelOther }},
		{"priority", "4", func(s *ScheduleSpec) { s.Priority = 4 }},
		{"every", "", func(s *ScheduleSpec) { s.Every = Duration(time.Hour) }},
		{"at", "", func(s *ScheduleSpec) { s.At = 1 }},
		{"every", `"1ms"`, func(s *ScheduleSpec) { s.Cron, s.Every = "", Duration(time.Millisecond) }},
		{"every", `"-1h"`, func(s *ScheduleSpec) { s.Cron, s.Every = "", Duration(-time.Hour) }},
		{"anchor", `"1970-01-01T00:00:00.001Z"`, func(s *ScheduleSpec) { s.Anchor = 1 }},
		{"event.name", "", func(s *ScheduleSpec) { s.Event = &OnEvent{} }},
		{"after.all", "0", func(s *ScheduleSpec) { s.After = &After{} }},
		{"after.all[1]", "", func(s *ScheduleSpec) { s.After = &After{All: []Upstream{{Job: "a"}, {Job: "a", Schedule: "b"}}} }},
		{"after.all[1]", "", func(s *ScheduleSpec) { s.After = &After{All: []Upstream{{Job: "a"}, {Job: "a"}}} }},
		{"after.all[0].workflow", `"a/b"`, func(s *ScheduleSpec) { s.After = &After{All: []Upstream{{Workflow: "a/b"}}} }},
		{"after.period", `"decade"`, func(s *ScheduleSpec) { s.After = &After{All: []Upstream{{Job: "a"}}, Period: "decade"} }},
		{"after.wait", `"-1s"`, func(s *ScheduleSpec) { s.After = &After{All: []Upstream{{Job: "a"}}, Wait: -Duration(time.Second)} }},
		{"end", `"1970-01-01T00:00:00.005Z"`, func(s *ScheduleSpec) { s.Start, s.End = 5, 5 }},
		{"start", "-1", func(s *ScheduleSpec) { s.Start = -1 }},
		{"max_runs", "-1", func(s *ScheduleSpec) { s.MaxRuns = -1 }},
		{"jitter", `"9600h"`, func(s *ScheduleSpec) { s.Jitter = long }},
		{"timezone", `"Europe/ Berlin"`, func(s *ScheduleSpec) { s.Timezone = "Europe/ Berlin" }},
		{"dst", "", func(s *ScheduleSpec) { s.Cron, s.Every, s.DST = "", Duration(time.Hour), &DST{} }},
		{"dst.gap", `"before"`, func(s *ScheduleSpec) { s.DST = &DST{Gap: "before"} }},
		{"dst.repeat", `"third"`, func(s *ScheduleSpec) { s.DST = &DST{Repeat: "third"} }},
		{"calendars", "", func(s *ScheduleSpec) { s.Calendars = &Calendars{Shift: ShiftNext} }},
		{"calendars", "", func(s *ScheduleSpec) { s.Cron, s.Calendars = "", &Calendars{Include: []string{"a"}} }},
		{"calendars.exclude[0]", `"a b"`, func(s *ScheduleSpec) { s.Calendars = &Calendars{Exclude: []string{"a b"}} }},
		{"calendars.include", "17", func(s *ScheduleSpec) { s.Calendars = &Calendars{Include: make([]string, 17)} }},
		{"calendars.shift", `"up"`, func(s *ScheduleSpec) { s.Calendars = &Calendars{Include: []string{"a"}, Shift: "up"} }},
		{"overlap", `"never"`, func(s *ScheduleSpec) { s.Overlap = "never" }},
		{"queue_cap", "3", func(s *ScheduleSpec) { s.QueueCap = 3 }},
		{"queue_cap", "1001", func(s *ScheduleSpec) { s.Overlap, s.QueueCap = OverlapQueueAll, 1001 }},
		{"misfire", `"some"`, func(s *ScheduleSpec) { s.Misfire = "some" }},
		{"misfire_cap", "1001", func(s *ScheduleSpec) { s.Misfire, s.MisfireCap = MisfireAll, 1001 }},
		{"misfire_cap", "5", func(s *ScheduleSpec) { s.Misfire, s.MisfireCap = MisfireLatest, 5 }},
		{"misfire_window", `"9600h"`, func(s *ScheduleSpec) { s.Misfire, s.MisfireWindow = MisfireLatest, &long }},
		{"misfire_window", `"1s"`, func(s *ScheduleSpec) { s.MisfireWindow = &second }},
		{"tolerance", `"9600h"`, func(s *ScheduleSpec) { s.Tolerance = &long }},
		{"tolerance", `"0s"`, func(s *ScheduleSpec) { s.Tolerance = new(Duration) }},
		{"pause_after_failures", "-1", func(s *ScheduleSpec) { s.PauseAfterFailures = -1 }},
	} {
		s := valid()
		c.change(&s)
		err := s.Validate()
		if err == nil || err.Field != c.field || err.Value != c.value || err.Rule == "" {
			t.Errorf("%s: got %+v, want that field with the value %q", c.field, err, c.value)
		}
	}
	s := valid()
	s.Tolerance = &second
	if err := s.Validate(); err != nil {
		t.Errorf("a valid schedule was refused: %v", err)
	}
}
