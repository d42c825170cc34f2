package fsm

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/axd-project/axd/job"
)

// AuditVerbs are what audit records tell of, by the kind of object: a list may ask for
// nothing else.
var AuditVerbs = map[string][]string{
	"job":         {"put", "delete", "pause", "resume"},
	"schedule":    {"put", "delete", "pause", "resume", "trigger", "backfill", "cancel_backfill"},
	"workflow":    {"put", "delete"},
	"calendar":    {"put", "delete"},
	"secret":      {"put", "delete"},
	"run":         {"cancel", "rerun", "force_success", "skip"},
	"task":        {"cancel", "reschedule"},
	"dead_letter": {"replay", "discard", "cancel_act"},
	"worker":      {"drain", "resume", "forget"},
	"cluster":     {"set"},
	"alert":       {"acknowledge"},
	"callback":    {"redeliver"},
}

// Act implements Acting.
func (c PutJob) Act() Act {
	return Act{Verb: "put", Kind: "job", Namespace: c.Namespace, Names: []string{c.Name}, Actor: c.Actor}
}

// Act implements Acting.
func (c DeleteJob) Act() Act {
	return Act{Verb: "delete", Kind: "job", Namespace: c.Namespace, Names: []string{c.Name}, Actor: c.Actor}
}

// Act implements Acting.
func (c Cancel) Act() Act { return actOn("cancel", c.Ref, c.Actor, c.Reason) }

// Act implements Acting.
func (c Reschedule) Act() Act {
	var said []string
	switch {
	case c.Now:
		said = append(said, "to now")
	case c.Due != 0:
		said = append(said, "to "+rfc3339(c.Due))
	case c.Delay != 0:
		said = append(said, "by "+c.Delay.String())
	}
	if c.Priority != 0 {
		said = append(said, c.Priority.String()+" priority")
	}
	return actOn("reschedule", c.Ref, "", strings.Join(said, ", "))
}

func actOn(verb string, ref TaskRef, actor, detail string) Act {
	return Act{Verb: verb, Kind: "task", Namespace: ref.Namespace, Names: []string{ref.ID.String()}, Actor: actor, Detail: detail}
}

// Act implements Acting.
func (c PutSchedule) Act() Act {
	return Act{Verb: "put", Kind: "schedule", Namespace: c.Namespace, Names: []string{c.Name}, Actor: c.Actor}
}

// Act implements Acting.
func (c DeleteSchedule) Act() Act {
	return Act{Verb: "delete", Kind: "schedule", Namespace: c.Namespace, Names: []string{c.Name}, Actor: c.Actor}
}

// Act implements Acting.
func (c PauseSchedule) Act() Act {
	act := Act{Verb: "pause", Kind: "schedule", Namespace: c.Namespace, Names: []string{c.Name}, Actor: c.Actor, Detail: c.Reason}
	if c.Resume {
		act.Verb = "resume"
	}
	return act
}

// Act implements Acting.
func (c TriggerSchedule) Act() Act {
	return Act{Verb: "trigger", Kind: "schedule", Namespace: c.Namespace, Names: []string{c.Name}, Actor: c.Actor}
}

// Act implements Acting. An event is recorded as itself; see SentEvent.
func (SendEvent) Act() Act { return Act{} }

// Act implements Acting.
func (c PutBackfill) Act() Act {
	return Act{
		Verb: "backfill", Kind: "schedule", Namespace: c.Namespace, Names: []string{c.Schedule}, Actor: c.Actor,
		Detail: rfc3339(c.From) + " to " + rfc3339(c.To) + ", " + strconv.Itoa(len(c.Times)) + " times",
	}
}

// Act implements Acting.
func (c CancelBackfill) Act() Act {
	return Act{
		Verb: "cancel_backfill", Kind: "schedule", Namespace: c.Namespace, Names: []string{c.Schedule}, Actor: c.Actor, Detail: c.ID.String(),
	}
}

// Act implements Acting.
func (c DrainWorker) Act() Act {
	act := Act{Verb: "drain", Kind: "worker", Names: []string{c.Name}, Actor: c.Actor}
	if c.Resume {
		act.Verb = "resume"
	}
	return act
}

// Act implements Acting.
func (c ForgetWorker) Act() Act { return Act{Verb: "forget", Kind: "worker", Names: []string{c.Name}} }

// Act implements Acting. Only what an operator sets is an act.
func (c Configure) Act() Act {
	if c.Settings == nil {
		return Act{}
	}
	text, _ := json.Marshal(c.Settings) // plain fields, maps by the order of their keys
	return Act{Verb: "set", Kind: "cluster", Detail: string(text)}
}

// Act implements Acting.
func (c DeadLetters) Act() Act {
	act := Act{Verb: "discard", Kind: "dead_letter", Namespace: c.Namespace, Detail: c.Filter.String()}
	if c.Replay {
		act.Verb = "replay"
	}
	for _, id := range c.IDs {
		act.Names = append(act.Names, id.String())
	}
	if len(c.IDs) > 0 {
		act.Detail = ""
	}
	return act
}

// String tells people what a filter selects.
func (f DeadFilter) String() string {
	said := []string{"all"}
	if f.Job != "" {
		said = append(said, "of job "+f.Job)
	}
	if f.Error != "" {
		said = append(said, "with "+strconv.Quote(f.Error)+" in the error")
	}
	if f.From != 0 {
		said = append(said, "from "+rfc3339(f.From))
	}
	if f.To != 0 {
		said = append(said, "before "+rfc3339(f.To))
	}
	return strings.Join(said, " ")
}

// Act implements Acting. That a cause is gone is nobody's act.
func (c EndAlert) Act() Act {
	if c.Resolved {
		return Act{}
	}
	return Act{Verb: "acknowledge", Kind: "alert", Names: []string{c.Kind + "/" + c.Subject}, Actor: c.Actor}
}

// Act implements Acting.
func (c Redeliver) Act() Act {
	return Act{Verb: "redeliver", Kind: "callback", Namespace: c.Ref.Task.Namespace, Names: []string{c.Ref.String()}}
}

// Act implements Acting.
func (c PutCalendar) Act() Act {
	return Act{Verb: "put", Kind: "calendar", Namespace: c.Namespace, Names: []string{c.Name}, Actor: c.Actor}
}

// Act implements Acting.
func (c DeleteCalendar) Act() Act {
	return Act{Verb: "delete", Kind: "calendar", Namespace: c.Namespace, Names: []string{c.Name}, Actor: c.Actor}
}

// Act implements Acting. It holds nothing of the secret but its name.
func (c PutSecret) Act() Act {
	return Act{Verb: "put", Kind: "secret", Namespace: c.Namespace, Names: []string{c.Name}}
}

// Act implements Acting.
func (c DeleteSecret) Act() Act {
	return Act{Verb: "delete", Kind: "secret", Namespace: c.Namespace, Names: []string{c.Name}}
}

// Act implements Acting.
func (c PutWorkflow) Act() Act {
	return Act{Verb: "put", Kind: "workflow", Namespace: c.Namespace, Names: []string{c.Name}, Actor: c.Actor}
}

// Act implements Acting.
func (c DeleteWorkflow) Act() Act {
	return Act{Verb: "delete", Kind: "workflow", Namespace: c.Namespace, Names: []string{c.Name}, Actor: c.Actor}
}

func actOnRun(verb string, ref RunRef, actor, detail string) Act {
	return Act{Verb: verb, Kind: "run", Namespace: ref.Namespace, Names: []string{ref.ID.String()}, Actor: actor, Detail: detail}
}

// Act implements Acting.
func (c CancelRun) Act() Act { return actOnRun("cancel", c.Ref, c.Actor, c.Reason) }

// Act implements Acting.
func (c RerunRun) Act() Act {
	detail := "what failed"
	switch c.Mode {
	case RerunFrom:
		detail = "from step " + c.Step
	case RerunOne:
		detail = "step " + c.Step
	}
	return actOnRun("rerun", c.Ref, c.Actor, detail)
}

// Act implements Acting.
func (c ForceSuccess) Act() Act {
	return actOnRun("force_success", c.Ref, c.Actor, joined("step "+c.Step, c.Reason))
}

// Act implements Acting.
func (c SkipStep) Act() Act {
	return actOnRun("skip", c.Ref, c.Actor, joined("step "+c.Step, c.Reason))
}

func rfc3339(ms int64) string {
	return time.UnixMilli(min(ms, job.MaxTime)).UTC().Format("2006-01-02T15:04:05.999Z07:00")
}
