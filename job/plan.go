package job

import (
	"errors"
	"hash/fnv"
	"time"

	"github.com/axd-project/axd/job/cron"
)

// Plan tells the planned times of a schedule's cron, every or at, within its
// bounds and on the days that its calendars allow; of a schedule with after alone the
// begins of its periods. Its run budget, its other triggers and overlaps are not its business.
// A plan never changes; whoever has a new version of the schedule or of one of
// its calendars makes a new one.
type Plan struct {
	expr   *cron.Expr // of cron and every; else nil
	at     time.Time  // of at; else zero
	period Period     // of after alone; else empty
	first  time.Time  // its first time: the begin of the period in which the schedule was created
	zone   *time.Location
	start  time.Time // zero: none
	end    time.Time // the first instant that is too late; zero: none
	days   *planDays // nil: all
	jitter Duration
	seed   string
}

// PlanFor is what a plan follows from beside the schedule itself.
type PlanFor struct {
	Namespace, Name string    // of the schedule: what H and jitter are drawn from
	Created         time.Time // of the schedule: the anchor of every, where none is given
	// Calendar finds a calendar of the schedule's namespace; nil: there is none.
	Calendar func(name string) (*CalendarDays, bool)
}

// NewPlan reads what Validate leaves out: the cron expression and the time zone.
// It reads the data of zones, so the state machine makes no plan.
func NewPlan(s *ScheduleSpec, of PlanFor) (*Plan, *Error) {
	loc, err := cron.Zone(s.Timezone)
	if err != nil {
		return nil, planError("cron", err)
	}
	p := &Plan{jitter: s.Jitter, seed: of.Namespace + "/" + of.Name, zone: loc}
	switch {
	case s.Cron != "":
		opt := cron.Options{Location: loc, HashSeed: p.seed, Anchor: of.Created}
		if s.DST != nil {
			opt.DST = cron.DST{Gap: cron.Gap(s.DST.Gap), Repeat: cron.Repeat(s.DST.Repeat)}
		}
		p.expr, err = cron.Parse(string(s.Cron), opt)
	case s.Every != 0:
		anchor := of.Created
		if s.Anchor != 0 {
			anchor = s.Anchor.Std()
		}
		p.expr, err = cron.Every(s.Every.Std(), anchor, loc)
	case s.At != 0:
		p.at = s.At.Std().In(loc)
	case s.After != nil:
		p.period = s.After.PeriodOrDefault()
		if of.Created.Unix() > 0 {
			p.first, _ = p.period.Bounds(of.Created, loc)
		}
	}
	if err != nil {
		return nil, planError("cron", err)
	}
	if s.Start != 0 {
		p.start = s.Start.Std()
	}
	if s.End != 0 {
		p.end = s.End.Std()
	}
	if s.Calendars != nil && p.expr != nil {
		days, err := newPlanDays(s.Calendars, of.Calendar)
		if err != nil {
			return nil, err
		}
		p.days = days
	}
	return p, nil
}

// planError names the field of the schedule that an expression's error is about.
func planError(field string, err error) *Error {
	var bad *cron.Error
	switch {
	case !errors.As(err, &bad):
		return AsError(err)
	case bad.Field == "timezone" || bad.Field == "dst.gap" || bad.Field == "dst.repeat":
		return Invalid(bad.Field, bad.Rule, bad.Value)
	case bad.Field == "expression":
		return Invalid(field, bad.Rule, bad.Value)
	}
	return Invalid(field, bad.Field+" "+bad.Rule, bad.Value)
}

// Timed tells whether there is any trigger of the plan's kind: otherwise it
// never has a time.
func (p *Plan) Timed() bool { return p.expr != nil || !p.at.IsZero() || p.period != "" }

// Bounds returns the span of a period that holds t, by the schedule's clocks.
func (p *Plan) Bounds(period Period, t time.Time) (start, end time.Time) {
	return period.Bounds(t, p.zone)
}

// Next returns the first planned time after an instant, which is always later
// than it. None lies before 1970.
func (p *Plan) Next(after time.Time) (time.Time, bool) {
	if epoch := time.Unix(0, 0); after.Before(epoch) {
		after = epoch.Add(-1)
	}
	if !p.start.IsZero() && after.Before(p.start) {
		after = p.start.Add(-1)
	}
	t, ok := p.next(after)
	if !ok || !p.end.IsZero() && !t.Before(p.end) {
		return time.Time{}, false
	}
	return t, true
}

func (p *Plan) next(after time.Time) (time.Time, bool) {
	if p.days != nil {
		return p.days.next(p.expr, after)
	}
	if p.expr != nil {
		return p.expr.Next(after)
	}
	if p.period != "" {
		next := p.first
		if !next.After(after) {
			_, next = p.period.Bounds(after, p.zone)
		}
		return next, next.UnixMilli() <= MaxTime
	}
	return p.at, !p.at.IsZero() && p.at.After(after)
}

// Prev returns the last planned time before an instant.
func (p *Plan) Prev(before time.Time) (time.Time, bool) {
	if !p.end.IsZero() && before.After(p.end) {
		before = p.end
	}
	t, ok := p.prev(before)
	if !ok || t.Before(p.start) {
		return time.Time{}, false
	}
	return t, true
}

func (p *Plan) prev(before time.Time) (time.Time, bool) {
	if p.days != nil {
		return p.days.prev(p.expr, before)
	}
	if p.expr != nil {
		return p.expr.Prev(before)
	}
	if p.period != "" {
		start, _ := p.period.Bounds(before.Add(-1), p.zone)
		return start, !start.Before(p.first)
	}
	return p.at, !p.at.IsZero() && p.at.Before(before)
}

// Between returns the planned times after a, up to and including b, at most
// limit of them: the first ones.
func (p *Plan) Between(a, b time.Time, limit int) []time.Time {
	var all []time.Time
	for t, ok := p.Next(a); ok && !t.After(b) && len(all) < limit; t, ok = p.Next(t) {
		all = append(all, t)
	}
	return all
}

// Delay is by how much the schedule's jitter puts off what is planned: always
// the same, so that two times keep their distance.
func (p *Plan) Delay() time.Duration {
	if p.jitter <= 0 {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte("jitter\x00" + p.seed))
	const mix = 0x9e3779b97f4a7c15                                    // neighbouring names lie far apart
	ms := uint64(p.jitter.Milliseconds())                             //nolint:gosec // it is positive
	return time.Duration(h.Sum64()*mix>>11%(ms+1)) * time.Millisecond //nolint:gosec // 53 bits
}

// Words says in English when the plan has its times; empty where it has none.
func (p *Plan) Words() string {
	words := ""
	switch {
	case p.expr != nil:
		words = p.expr.Words()
	case !p.at.IsZero():
		return "once, at " + p.at.Format("2006-01-02 15:04:05") + " in " + p.at.Location().String()
	}
	if p.days != nil {
		words += ", as its calendars allow"
	}
	return words
}

// Planned returns the wall time that a planned time stands for, such as
// 2026-03-08T02:30:00, and words on how the two differ or why it is special;
// mostly none.
func (p *Plan) Planned(at time.Time) (wall, note string) {
	if p.expr == nil {
		wall = at.In(p.zone).Format("2006-01-02T15:04:05")
		if p.period != "" {
			note = "begin of the " + string(p.period) + ": it waits for what it comes after"
		}
		return wall, note
	}
	if p.days != nil {
		w, note := p.days.planned(p.expr, at)
		return w.String(), note
	}
	w, note := p.expr.Planned(at)
	return w.String(), note
}
