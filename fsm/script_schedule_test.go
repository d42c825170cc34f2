package fsm

import (
	"fmt"
	"strings"

	"github.com/axd-project/axd/job"
)

func (e *scriptEnv) scheduleCommand(verb string, f fields, input string) (Command, bool) {
	ref := e.scheduleRef(f)
	switch verb {
	case "put-schedule":
		return PutSchedule{Namespace: ref.Namespace, Name: ref.Name, Spec: e.scheduleSpec(f)}, true
	case "list-fetched":
		return e.listFetched(f), true
	case "delete-schedule":
		return DeleteSchedule{Namespace: ref.Namespace, Name: ref.Name}, true
	case "pause", "resume":
		return PauseSchedule{Namespace: ref.Namespace, Name: ref.Name, Resume: verb == "resume", Reason: f["reason"], Actor: f["actor"]}, true
	case "trigger":
		return TriggerSchedule{Namespace: ref.Namespace, Name: ref.Name, Payload: []byte(f["payload"]), Actor: f["actor"]}, true
	case "fire":
		_, st, _ := GetSchedule(e.tx, ref)
		it := FireItem{Ref: ref, Generation: st.Generation, Cursor: st.Cursor, Upto: f.time("upto"), Next: f.time("next"), Broken: f["broken"]}
		it.NextAt = it.Next + f.duration("jitter").Milliseconds()
		if f["generation"] != "" {
			it.Generation = uint64(f.number("generation"))
		}
		if f["cursor"] != "" {
			it.Cursor = f.time("cursor")
		}
		for line := range strings.Lines(input) {
			g := parseFields(strings.Fields(line))
			t := FireTime{
				Nominal: g.time("at"), Due: g.time("due"), CatchUp: g["catch-up"] != "", Until: g.time("until"), Count: g.number("count"),
				Why: g["why"], Into: g.time("into"), Join: e.join(ref, g),
			}
			if g["verdict"] != "" {
				t.Verdict, _ = ParseVerdict(g["verdict"])
			}
			it.Times = append(it.Times, t)
		}
		return FireSchedules{Term: e.termOf(f), Items: []FireItem{it}}, true
	case "put-calendar":
		return PutCalendar{Namespace: ref.Namespace, Name: ref.Name, Spec: job.CalendarSpec{
			Weekdays: f.list("weekdays"), Include: f.list("include"), Exclude: f.list("exclude"),
		}, FileSet: f["set"]}, true
	case "delete-calendar":
		return DeleteCalendar{Namespace: ref.Namespace, Name: ref.Name}, true
	case "backfill":
		which, _ := ParseBackfillWhich(f.or("which", "missing"))
		s, _, _ := GetSchedule(e.tx, ref)
		c := PutBackfill{
			Namespace: ref.Namespace, Schedule: ref.Name, Version: s.Version, From: f.time("from"), To: f.time("to"), Newest: f["newest"] != "",
			Parallel: int(max(f.number("parallel"), 1)), Wait: f["wait"] != "", Which: which, Priority: e.priority(f), Actor: f["actor"],
		}
		if f["version"] != "" {
			c.Version = uint64(f.number("version"))
		}
		for line := range strings.Lines(input) {
			c.Times = append(c.Times, parseFields(strings.Fields(line)).time("at"))
		}
		return c, true
	case "cancel-backfill":
		list, _, _ := ListBackfills(e.tx, ref, "", 10)
		c := CancelBackfill{Namespace: ref.Namespace, Schedule: ref.Name}
		if n := int(f.number("number")); n < len(list) {
			c.ID = list[n].ID
		}
		return c, true
	case "continue-schedules":
		c := ContinueSchedules{Kind: ScheduleActKind(f.number("kind")), Ref: ref, Judged: e.judged(f)}
		if ref.Name == "" { // the first that goes on
			c.Kind, c.Ref = ListScheduleActs(e.tx, 1)[0].Kind, ListScheduleActs(e.tx, 1)[0].Ref
		}
		return c, true
	}
	return e.joinCommand(verb, f, input)
}

func (e *scriptEnv) scheduleRef(f fields) ScheduleRef { return ScheduleRef{f.ns(), f["name"]} }

func (e *scriptEnv) scheduleSpec(f fields) job.ScheduleSpec {
	s := job.ScheduleSpec{
		Job: f["job"], Workflow: f["workflow"], Cron: job.CronText(f["cron"]), Every: f.duration("every"), At: job.Timestamp(f.time("at")),
		Overlap: job.Overlap(f["overlap"]), QueueCap: int(f.number("queue-cap")), MaxRuns: int(f.number("max-runs")),
		PauseAfterFailures: int(f.number("pause-after")), Payload: job.JSON(f["payload"]), After: f.after(),
		ReconcileURL: f["url"], ReconcileSecret: f["secret"], ReconcileReplay: f["replay"] != "",
	}
	if f["include"]+f["exclude"] != "" {
		s.Calendars = &job.Calendars{Include: f.list("include"), Exclude: f.list("exclude"), Shift: job.Shift(f["shift"])}
	}
	if f["event"] != "" {
		s.Event = &job.OnEvent{Name: f["event"], Filter: f["filter"]}
	}
	return s
}

func (e *scriptEnv) scheduleQuery(b *strings.Builder, cmd string, f fields) bool {
	ref := e.scheduleRef(f)
	switch cmd {
	case "schedule":
		if s, st, ok := GetSchedule(e.tx, ref); ok {
			e.showSchedule(b, &s, &st)
		}
	case "schedules":
		list, next, err := ListSchedules(e.tx, f["ns"], e.cursor(f), int(f.number("limit")))
		for _, s := range list {
			fmt.Fprintf(b, "%s/%s version %d\n", s.Namespace, s.Name, s.Version)
		}
		e.showNext(b, next, err)
	case "fires":
		filter := FireFilter{From: f.time("from"), To: f.time("to")}
		if f["verdict"] != "" {
			filter.Verdict, _ = ParseVerdict(f["verdict"])
		}
		list, next, err := ListFires(e.tx, ref, filter, e.cursor(f), int(f.number("limit")))
		for i := range list {
			e.showFire(b, &list[i])
		}
		e.showNext(b, next, err)
	case "joins":
		e.showJoins(b, f)
	case "calendar":
		if c, ok := GetCalendar(e.tx, ref.Namespace, ref.Name); ok {
			users, more := CalendarUsers(e.tx, ref.Namespace, ref.Name, 3)
			fmt.Fprintf(b, "%s v%d updated %s %+v users %v more %v set %q\n", c.Name, c.Version, e.at(c.Updated), c.Spec, users, more, c.FileSet)
		}
	case "calendars":
		list, next, err := ListCalendars(e.tx, f["ns"], e.cursor(f), int(f.number("limit")))
		for _, c := range list {
			fmt.Fprintf(b, "%s/%s version %d\n", c.Namespace, c.Name, c.Version)
		}
		e.showNext(b, next, err)
	case "backfills":
		list, next, err := ListBackfills(e.tx, ref, e.cursor(f), int(f.number("limit")))
		for i := range list {
			e.showBackfill(b, &list[i])
		}
		e.showNext(b, next, err)
	case "due-lists":
		e.dueLists(b)
	case "schedule-due":
		for _, d := range ScanScheduleDue(e.tx, ScheduleDue{}, job.MaxTime, 100) {
			at := "at once"
			if d.At != 0 {
				at = e.at(d.At)
			}
			fmt.Fprintf(b, "%s %s\n", d.Ref.Name, at)
		}
	default:
		return false
	}
	return true
}

func (e *scriptEnv) showSchedule(b *strings.Builder, s *Schedule, st *ScheduleState) {
	fmt.Fprintf(b, "%s v%d cursor %s", s.Name, s.Version, e.at(st.Cursor))
	add := func(show bool, format string, args ...any) {
		if show {
			fmt.Fprintf(b, " "+format, args...)
		}
	}
	add(!st.Planned, "unplanned")
	add(st.Next != 0, "next %s", e.at(st.Next))
	add(st.NextAt != st.Next, "due %s", e.at(st.NextAt))
	if p := st.Paused; p != nil {
		fmt.Fprintf(b, " paused at %s %q by %q auto %v", e.at(p.At), p.Reason, p.Actor, p.Auto)
	}
	add(st.GapTo != 0, "gap to %s", e.at(st.GapTo))
	add(st.Broken != "", "broken %q", st.Broken)
	add(st.Active != 0, "active %d", st.Active)
	add(st.Queued != 0, "queued %d", st.Queued)
	add(st.Waiting != 0, "waiting %d", st.Waiting)
	add(st.Rejudge, "to be judged")
	add(st.Failures != 0, "failures %d", st.Failures)
	add(st.Unfired != 0, "unfired %d alerted %v", st.Unfired, st.Alerted)
	add(st.Counts.Refused != 0, "refused %d", st.Counts.Refused)
	c := st.Counts
	fmt.Fprintf(b, " planned %d fired %d merged %d skipped %d missed %d succeeded %d failed %d",
		c.Planned, c.Fired, c.Merged, c.Skipped, c.Missed, c.Succeeded, c.Failed)
	if !st.Last.Task.IsZero() {
		fmt.Fprintf(b, " last %s at %s %s", e.at(st.Last.Nominal), e.at(st.Last.At), e.name(st.Last.Task))
	}
	fmt.Fprintln(b)
}

func (e *scriptEnv) showFire(b *strings.Builder, f *Fire) {
	fmt.Fprintf(b, "%s", e.at(f.Nominal))
	add := func(show bool, format string, args ...any) {
		if show {
			fmt.Fprintf(b, " "+format, args...)
		}
	}
	add(f.Span(), "to %s count %d", e.at(f.Until), f.Count)
	add(true, "%s", f.Verdict)
	add(f.Why != "", "%s", f.Why)
	add(f.Origin != ByPlan, "by %s", f.Origin)
	add(f.Into != 0, "into %s", e.at(f.Into))
	if !f.Task.IsZero() {
		fmt.Fprintf(b, " %s", e.name(f.Task))
	}
	add(f.Late != 0, "late %d", f.Late)
	add(f.CatchUp, "catch-up")
	add(f.Actor != "", "actor %s", f.Actor)
	add(f.Error != "", "error %q", f.Error)
	e.showList(b, f.List)
	add(f.At != f.Nominal, "decided %s", e.at(f.At))
	fmt.Fprintln(b)
}

func (e *scriptEnv) describeSchedule(k []byte) (string, bool) {
	r := readKey(k)
	name := func(ref ScheduleRef) string { return ref.Namespace + "/" + ref.Name }
	switch k[0] {
	case tableSchedules:
		return "schedule " + name(r.scheduleRef()), true
	case tableScheduleStates:
		return "schedule-state " + name(r.scheduleRef()), true
	case tableScheduleDue:
		return fmt.Sprintf("schedule-due %s %s", e.at(r.time()), name(r.scheduleRef())), true
	case tableFires:
		return fmt.Sprintf("fire %s %s", name(r.scheduleRef()), e.at(r.newest().Nominal)), true
	case tableFireAge:
		return fmt.Sprintf("fire-age %s %s %s", e.at(r.time()), name(r.scheduleRef()), e.at(r.fireKey().Nominal)), true
	case tableFireQueue:
		return fmt.Sprintf("fire-queue %s %s", name(r.scheduleRef()), e.at(r.fireKey().Nominal)), true
	case tableCalendars:
		return "calendar " + name(r.scheduleRef()), true
	case tableCalendarUses:
		return fmt.Sprintf("calendar-use %s by %s", name(r.scheduleRef()), r.name()), true
	case tableScheduleActs:
		return fmt.Sprintf("schedule-act %d %s", r.u8(), name(r.scheduleRef())), true
	}
	return "", false
}

func (e *scriptEnv) showBackfill(b *strings.Builder, t *Backfill) {
	fmt.Fprintf(b, "%s %s to %s %s of %d, left %d active %d fired %d present %d refused %d succeeded %d failed %d", t.State, e.at(t.From), e.at(t.To),
		t.Which, t.Total, t.Left, t.Active, t.Fired, t.Present, t.Refused, t.Succeeded, t.Failed)
	if t.Actor != "" {
		fmt.Fprintf(b, " by %s", t.Actor)
	}
	fmt.Fprintln(b)
}
