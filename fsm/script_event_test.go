package fsm

import (
	"fmt"
	"strings"
)

func (e *scriptEnv) sendEvent(f fields) Command {
	c := SendEvent{Namespace: f.ns(), Name: f["name"], Dedup: f["id"], Payload: []byte(f["payload"])}
	c.Judged = e.judged(f)
	return c
}

// judged reads judged=NAME:pass,NAME:drop,NAME:error by the schedules' present
// versions; NAME:stale is of another one.
func (e *scriptEnv) judged(f fields) (all []Judged) {
	for part := range strings.SplitSeq(f["judged"], ",") {
		name, verdict, ok := strings.Cut(part, ":")
		if !ok {
			continue
		}
		s, _, _ := GetSchedule(e.tx, ScheduleRef{f.ns(), name})
		j := Judged{Schedule: name, Version: s.Version, Pass: verdict == "pass"}
		switch verdict {
		case "error":
			j.Error = "no such field"
		case "stale":
			j.Version++
		}
		all = append(all, j)
	}
	return all
}

func (e *scriptEnv) showSent(b *strings.Builder, t *SentEvent) {
	fmt.Fprintf(b, "%s at %s fired %d refused %d passed %d", t.Name, e.at(t.At), t.Fired, t.Refused, t.Passed)
	for _, part := range [][2]string{{"id", t.Dedup}, {"by", t.Actor}, {"from", t.From}, {"after", t.After}} {
		if part[1] != "" {
			fmt.Fprintf(b, " %s %s", part[0], part[1])
		}
	}
	if t.Open {
		fmt.Fprintf(b, " open")
	}
	fmt.Fprintln(b)
}

func (e *scriptEnv) showEvents(b *strings.Builder, f fields) {
	list, next, err := ListEvents(e.tx, f.ns(), f["name"], e.cursor(f), int(f.number("limit")))
	for i := range list {
		e.showSent(b, &list[i])
	}
	e.showNext(b, next, err)
}

func (e *scriptEnv) describeEvent(k []byte) (string, bool) {
	r := readKey(k)
	switch k[0] {
	case tableRelations:
		return fmt.Sprintf("relation %c %s/%s %s", r.u8(), r.name(), r.name(), r.name()), true
	case tableBackfills:
		return fmt.Sprintf("backfill %s/%s", r.name(), r.name()), true
	case tableBackfillAux:
		return fmt.Sprintf("backfill-aux %c", k[1]), true
	case tableEvents:
		return fmt.Sprintf("event %s/%s", r.name(), r.name()), true
	case tableEventAux:
		if r.u8() == eventAge {
			return fmt.Sprintf("event-age %s %s/%s", e.at(r.time()), r.name(), r.name()), true
		}
		return fmt.Sprintf("event-dedup %s/%s %s", r.name(), r.name(), r.name()), true
	}
	return "", false
}
