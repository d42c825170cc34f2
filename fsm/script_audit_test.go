package fsm

import (
	"fmt"
	"strings"
)

// sent adds who gives a command: as=NAME, at=ADDRESS.
func (e *scriptEnv) sent(f fields, c Command) Command {
	if f["as"] == "" && f["at-address"] == "" {
		return c
	}
	by, err := SentBy(f["as"], f["at-address"], c)
	if err != nil {
		panic(err)
	}
	return by
}

func (e *scriptEnv) showAudit(b *strings.Builder, f fields) {
	filter := AuditFilter{
		Namespace: f["ns"], Actor: f["actor"], Verb: f["verb"], Kind: f["kind"], Name: f["name"], From: f.time("from"), To: f.time("to"),
	}
	if strings.HasPrefix(filter.Name, "t") && filter.Kind != "job" {
		filter.Name = e.ref(fields{"task": filter.Name}).ID.String()
	}
	p, err := ListAudit(e.tx, filter, e.cursor(f), int(f.number("limit")))
	for _, t := range p.Records {
		fmt.Fprintf(b, "%s %s %s", e.at(t.At), t.Verb, t.Kind)
		for _, name := range t.Names {
			fmt.Fprintf(b, " %s", e.nameIDs(name))
		}
		for _, part := range [][2]string{{"in", t.Namespace}, {"by", t.Actor}, {"from", t.From}, {"-", t.Detail}} {
			if part[1] != "" {
				fmt.Fprintf(b, " %s %s", part[0], part[1])
			}
		}
		fmt.Fprintln(b)
	}
	e.showNext(b, p.Next, err)
}

func (e *scriptEnv) describeAudit(k []byte) (string, bool) {
	r := readKey(k)
	switch k[0] {
	case tableAudit:
		return fmt.Sprintf("audit %s", e.at(r.id().Time())), true
	case tableAuditBy:
		return fmt.Sprintf("audit-by %q", k[1:len(k)-idLen]), true
	}
	return "", false
}
