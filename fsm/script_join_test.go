package fsm

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/axd-project/axd/job"
)

// after reads after=job:a,schedule:b with period= and wait=.
func (f fields) after() *job.After {
	if f["after"] == "" {
		return nil
	}
	a := &job.After{Period: job.Period(f["period"]), Wait: f.duration("wait")}
	for _, part := range f.list("after") {
		switch kind, name, _ := strings.Cut(part, ":"); kind {
		case "job":
			a.All = append(a.All, job.Upstream{Job: name})
		case "workflow":
			a.All = append(a.All, job.Upstream{Workflow: name})
		default:
			a.All = append(a.All, job.Upstream{Schedule: name})
		}
	}
	return a
}

// needs reads needs=1,24p,-1 by the states that the upstreams have: a p says that only
// planned times count, an x that the state is another one. seen= is of the first.
func (e *scriptEnv) needs(ref ScheduleRef, f fields) (all []JoinNeed) {
	s, _, _ := GetSchedule(e.tx, ref)
	for i, text := range f.list("needs") {
		number, planned := strings.CutSuffix(strings.TrimSuffix(text, "x"), "p")
		n, err := strconv.Atoi(number)
		if err != nil {
			panic(err)
		}
		need := JoinNeed{N: n, Planned: planned}
		if s.Spec.After != nil && i < len(s.Spec.After.All) {
			if up := s.Spec.After.All[i].Schedule; up != "" {
				st, _ := GetScheduleState(e.tx, ScheduleRef{ref.Namespace, up})
				need.Generation = st.Generation
			}
		}
		if strings.HasSuffix(text, "x") {
			need.Generation++
		}
		if i == 0 {
			for _, at := range f.list("seen") {
				need.Seen = append(need.Seen, fields{"at": at}.time("at"))
			}
		}
		all = append(all, need)
	}
	return all
}

// quarter reads a time and takes the quarter of an hour before it, as periods begin.
func (f fields) quarter(name string) int64 { return f.time(name) - f.time(name)%doneStep }

// join reads what a time of a fire waits for.
func (e *scriptEnv) join(ref ScheduleRef, f fields) *FireJoin {
	if f["needs"] == "" {
		return nil
	}
	return &FireJoin{Start: f.quarter("start"), End: f.quarter("end"), Until: f.time("wait-until"), Needs: e.needs(ref, f)}
}

func (e *scriptEnv) joinCommand(verb string, f fields, input string) (Command, bool) {
	switch verb {
	case "end-joins":
		c := EndJoins{Term: e.termOf(f), Items: ScanJoinDue(e.tx, f.time("until"), MaxJoinEnds)}
		return c, true
	case "judge-joins":
		ref := e.scheduleRef(f)
		_, st, _ := GetSchedule(e.tx, ref)
		c := JudgeJoins{Term: e.termOf(f), Ref: ref, Generation: st.Generation}
		for line := range strings.Lines(input) {
			g := parseFields(strings.Fields(line))
			c.Joins = append(c.Joins, JoinJudged{End: g.quarter("end"), Needs: e.needs(ref, g)})
		}
		return c, true
	}
	return nil, false
}

func (e *scriptEnv) showJoins(b *strings.Builder, f fields) {
	for _, j := range ListJoins(e.tx, e.scheduleRef(f)) {
		fmt.Fprintf(b, "%s to %s lacks %s\n", e.at(j.Start), e.at(j.End), j.Lacks())
		for _, w := range ListJoinWaits(e.tx, j.ref(), &j, 10) {
			fmt.Fprintf(b, "  %s until %s\n", e.at(w.Nominal), e.at(w.Until))
		}
	}
}

func (e *scriptEnv) describeJoin(k []byte) (string, bool) {
	r := readKey(k)
	name := func(ref ScheduleRef) string { return ref.Namespace + "/" + ref.Name }
	switch k[0] {
	case tableJoins:
		return fmt.Sprintf("join %c %s until %s", r.u8(), name(r.scheduleRef()), e.at(r.time())), true
	case tableJoinDue:
		w := readJoinDue(k)
		if w.Until == 0 {
			return fmt.Sprintf("join-due at once %s", name(w.Ref)), true
		}
		return fmt.Sprintf("join-due %s %s %s", e.at(w.Until), name(w.Ref), e.at(w.Nominal)), true
	case tableDone:
		at := ""
		if r.u8() == doneAge {
			at = " at " + e.at(r.time())
		}
		return fmt.Sprintf("done%s %c %s/%s class %d %s", at, r.u8(), r.name(), r.name(), r.u8(), e.at(r.time())), true
	}
	return "", false
}
