package fsm

import (
	"fmt"
	"strings"
)

func (f fields) dead() DeadFilter {
	return DeadFilter{Job: f["job"], Error: f["error"], From: f.time("from"), To: f.time("to")}
}

// deadCommand builds the commands about dead letters.
func (e *scriptEnv) deadCommand(verb string, f fields) Command {
	if verb == "continue-dead" {
		return ContinueDead{ID: ListDeadActs(e.tx)[0].ID}
	}
	c := DeadLetters{Namespace: f.ns(), Replay: verb == "replay-dead", Filter: f.dead()}
	for _, name := range strings.FieldsFunc(f["task"], func(r rune) bool { return r == ',' }) {
		c.IDs = append(c.IDs, e.ref(fields{"task": name, "ns": f.ns()}).ID)
	}
	return c
}

func (e *scriptEnv) listDead(b *strings.Builder, f fields) {
	p, err := ListDead(e.tx, f.ns(), f.dead(), e.cursor(f), int(f.number("limit")))
	for i := range p.Tasks {
		e.showTask(b, &p.Tasks[i])
	}
	e.showNext(b, p.Next, err)
	n, all := MatchDead(e.tx, f.ns(), f.dead())
	fmt.Fprintf(b, "matches %d (%v); of all %d, acts %d\n", n, all, CountDead(e.tx, "", ""), len(ListDeadActs(e.tx)))
}

func (e *scriptEnv) describeDead(k []byte) (string, bool) {
	r := readKey(k)
	switch k[0] {
	case tableDead:
		return fmt.Sprintf("dead %s %s %s", r.name(), e.at(r.time()), e.name(r.id())), true
	case tableDeadByJob:
		return fmt.Sprintf("dead-job %s %s %s %s", r.name(), r.name(), e.at(r.time()), e.name(r.id())), true
	case tableDeadAge:
		return fmt.Sprintf("dead-age %s %s", e.at(r.time()), e.name(r.ref().ID)), true
	}
	return "", false
}

func (e *scriptEnv) compensations(t *Task) (s string) {
	if !t.CompensatedBy.IsZero() {
		s += " compensated-by " + e.name(t.CompensatedBy)
	}
	if !t.Compensates.IsZero() {
		s += " compensates " + e.name(t.Compensates)
	}
	return s
}
