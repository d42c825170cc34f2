package fsm

import (
	"fmt"
	"strings"
)

// listFetched is the try of the list that a schedule's newest fire owes.
func (e *scriptEnv) listFetched(f fields) Command {
	fires, _, _ := ListFires(e.tx, e.scheduleRef(f), FireFilter{Verdict: VerdictFired}, "", 10)
	c := ListFetched{Term: e.termOf(f), Ref: TaskRef{Namespace: f.ns()}, OK: f["ok"] != "", Status: int(f.number("status")), Error: f["error"]}
	for i := range fires {
		if fires[i].List.State == ListOwed {
			c.Ref.ID = fires[i].List.ID
		}
	}
	l, _ := GetListFetch(e.tx, c.Ref)
	c.Version = l.Version
	if f["version"] != "" {
		c.Version = uint64(f.number("version"))
	}
	c.Counts = ListCounts{Same: int(f.number("same")), Differs: int(f.number("differs")), Replayed: int(f.number("replayed"))}
	for range f.number("kept") {
		c.Different = append(c.Different, Difference{Key: "k", Verdict: "differs", Believed: "success", State: "failed", Error: f["wrong"]})
	}
	return c
}

func (e *scriptEnv) showList(b *strings.Builder, l *ListOutcome) {
	if l == nil {
		return
	}
	fmt.Fprintf(b, " list %s", l.State)
	if l.Tries > 0 {
		fmt.Fprintf(b, " tries %d", l.Tries)
	}
	if l.State == ListOwed {
		fmt.Fprintf(b, " next %s", e.at(l.NextTry))
	}
	if l.Error != "" {
		fmt.Fprintf(b, " %d %q", l.Status, l.Error)
	}
	if l.State == ListCompared {
		fmt.Fprintf(b, " %+v kept %d", l.Counts, len(l.Different))
	}
}

func (e *scriptEnv) dueLists(b *strings.Builder) {
	for _, t := range ListFetchTargets(e.tx, "", 100) {
		list, next := DueListFetches(e.tx, t.Name, e.now, 10)
		fmt.Fprintf(b, "%s from %s:", t.Name, e.at(t.Due))
		for i := range list {
			fmt.Fprintf(b, " %s", list[i].Schedule)
		}
		if next != 0 {
			fmt.Fprintf(b, ", next %s", e.at(next))
		}
		fmt.Fprintln(b)
	}
}
