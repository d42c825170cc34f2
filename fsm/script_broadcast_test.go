package fsm

import (
	"fmt"
	"strings"
)

func (e *scriptEnv) broadcastCommand(verb string, f fields) (Command, bool) {
	switch verb {
	case "record-done":
		return RecordDone{AttemptRef: e.attemptRef(f), Name: f["name"], Value: []byte(f["value"])}, true
	case "broadcast":
		c := Broadcast{Term: e.termOf(f), Ref: e.ref(f), Version: e.task(f).Version + uint64(f.number("newer")), Total: int(f.number("total"))}
		if n := int(f.number("many")); n > 0 {
			for i := range n {
				c.Workers = append(c.Workers, fmt.Sprintf("m%04d", i))
			}
		} else if c.Total == 0 {
			c.Workers = f.list("to")
		}
		return c, true
	case "continue-broadcast":
		return ContinueBroadcast{Ref: e.ref(f)}, true
	case "end-parts":
		c := EndParts{Term: e.termOf(f)}
		for _, name := range f.list("task") {
			ref := e.ref(fields{"task": name, "ns": f.ns()})
			t, _ := GetTask(e.tx, ref)
			c.Parts = append(c.Parts, TaskVersion{ref, t.Version + uint64(f.number("newer"))})
		}
		return c, true
	}
	return nil, false
}

func (e *scriptEnv) showDone(b *strings.Builder, d *Done) {
	fmt.Fprintf(b, "%s done at %s by attempt %d: %q\n", d.Name, e.at(d.At), d.Attempt, d.Value)
}

func (e *scriptEnv) showExtra(b *strings.Builder, cmd string, f fields) {
	t := e.task(f)
	if cmd == "done" {
		for _, d := range ListDone(e.tx, &t) {
			e.showDone(b, &d)
		}
		return
	}
	if !t.IsBroadcast() {
		return
	}
	p := t.Extra.Broadcast
	fmt.Fprintf(b, "%s, %d of %d made: %d succeeded, %d failed, %d cancelled\n", t.State, p.Made, p.Total, p.Succeeded, p.Failed, p.Cancelled)
	if p.Total > 10 {
		return
	}
	for _, part := range ListParts(e.tx, &t, 10) {
		fmt.Fprintf(b, "  %s at %s: %s\n", e.name(part.ID), part.Bound(), part.State)
	}
}
