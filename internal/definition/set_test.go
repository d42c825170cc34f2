package definition

import (
	"strings"
	"testing"
	"time"

	"github.com/axd-project/axd/job"
)

func load(t *testing.T, text string) (*Set, error) {
	t.Helper()
	return Load([]string{"-"}, strings.NewReader(text))
}

const workflowHead = "kind: workflow\nname: "

// Workflows come behind those that they start, whatever the files' order; a circle of
// them is named with its way.
func TestWorkflowsOfWorkflows(t *testing.T) {
	a := workflowHead + "a\nsteps:\n- {name: s, workflow: b}\n---\n"
	b := workflowHead + "b\nsteps:\n- {name: s, workflow: c}\n---\n"
	end := workflowHead + "c\nsteps:\n- {name: s, job: j}\n---\n"
	cycle := workflowHead + "c\nsteps:\n- {name: s, job: j}\n- {name: t, workflow: a, needs: [s]}\n---\n"
	const jobJ = "kind: job\nname: j\nhandler: h\n---\n"
	set, err := load(t, a+b+end+jobJ)
	if err != nil {
		t.Fatal(err)
	}
	if got := job.JoinPath(names(set.Objects)); got != "j → c → b → a" {
		t.Error(got)
	}
	_, err = load(t, a+b+cycle+jobJ)
	if err == nil || err.Error() != `-:15: steps[1].workflow: must not close a cycle: a → b → c → a (got "a")` {
		t.Error(err)
	}
}

func TestNextFires(t *testing.T) {
	now := time.Date(2026, 12, 23, 12, 0, 0, 0, time.UTC)
	for want, s := range map[string]job.ScheduleSpec{
		"2026-12-24T02:00:00+01:00 2026-12-25T02:00:00+01:00 2026-12-26T02:00:00+01:00": {Cron: "0 2 * * *", Timezone: "Europe/Berlin"},
		"2026-12-24T02:00:00Z 2026-12-26T02:00:00Z 2026-12-27T02:00:00Z":                {Cron: "0 2 * * *", Calendars: &job.Calendars{Exclude: []string{"holidays"}}},
		"each 15m from when it is created":                                              {Every: job.Duration(15 * time.Minute)},
		"2027-01-01T00:00:00Z":                                                          {At: job.Timestamp(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli())},
		"none: all its times have passed":                                               {At: job.Timestamp(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli())},
		"":                                                                              {Event: &job.OnEvent{Name: "e"}},
	} {
		set := &Set{Objects: []*Object{{Kind: calendars, Name: "holidays", Spec: &job.CalendarSpec{Include: []string{"12-25"}}}}}
		in := set.preview("default", nil)
		in.Now = now
		if got := strings.Join(nextFires(&s, in), " "); got != want {
			t.Errorf("%+v: %q, want %q", s, got, want)
		}
	}
}
