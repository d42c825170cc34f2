package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

// timetable is a schedule of the load. What its expression means is said another
// way as well, for the checks.
type timetable struct {
	name string
	spec job.ScheduleSpec
	wall *wallTimes // of an expression
}

// wallTimes are the times of a cron expression. A nil list stands for all values.
type wallTimes struct {
	second, minute, hour []int
	fixed                bool // neither minute nor hour has a * or a step
}

func every(n, of int) (out []int) {
	for i := 0; i < of; i += n {
		out = append(out, i)
	}
	return out
}

const (
	berlin    = "Europe/Berlin"
	eventName = "arrived"

	failingPlan = "failing" // pauses itself
)

// streamPlan begins the names of schedules that each start a small run a second.
const streamPlan = "stream-"

// rarer is how much rarer than else the times of schedules are in a load of hours.
const rarer = 60

// onceBefore is how long before the load's end its one-off time lies: it must still
// be ahead when schedules are put, however short the load is.
func (p Plan) onceBefore() time.Duration {
	const usual = 40 * time.Second
	if p.Length == 0 {
		return usual
	}
	return min(usual, p.Length/3)
}

// timetables are the schedules of a load that ends at a time.
func timetables(until time.Time, p Plan) []timetable {
	all := append(runTables(), taskTables(until, p.onceBefore())...)
	if p.Think > longThink {
		all = slices.DeleteFunc(all, func(t timetable) bool { return len(strings.Fields(string(t.spec.Cron))) > 5 }) // by the second
		for i := range all {
			all[i].spec.Every *= rarer
			all[i].spec.Jitter *= rarer
		}
	}
	for i := range p.Streams {
		all = append(all, timetable{name: streamPlan + strconv.Itoa(i), spec: job.ScheduleSpec{
			Workflow: smallFlow, Every: job.Duration(time.Second), Overlap: job.OverlapAllow, Misfire: job.MisfireAll, MisfireCap: job.MaxMisfireCap,
			Tolerance: new(job.Duration(30 * time.Second)),
		}})
	}
	for i := range all {
		s := &all[i].spec
		s.End = job.Timestamp(until.UnixMilli())
		if s.Job == "" && s.Workflow == "" {
			s.Job = plainJob
		}
		if s.Job != "" && s.Payload == nil {
			s.Payload = job.JSON(`{"run_ms": 300}`)
		}
		if s.At != 0 {
			s.End = 0
		}
	}
	return all
}

// runTables start runs.
func runTables() []timetable {
	short := func(d time.Duration) *job.Duration { return new(job.Duration(d)) }
	return []timetable{
		{name: "flows", spec: job.ScheduleSpec{
			Workflow: outerFlow, Every: job.Duration(17 * time.Second), Overlap: job.OverlapQueueOne, Misfire: job.MisfireLatest,
			Tolerance: short(5 * time.Second), Params: job.Values{"ms": job.JSON("120"), "list": job.JSON("[1, 2]")},
		}},
		{name: "flows-cron", spec: job.ScheduleSpec{
			Workflow: rulesFlow, Cron: "5/30 * * * * *", Overlap: job.OverlapAllow, Misfire: job.MisfireAll, MisfireCap: 2,
			Tolerance: short(3 * time.Second),
		}, wall: &wallTimes{second: []int{5, 35}}},
	}
}

// taskTables fire tasks: by each rule for overlaps and missed times, by event, and in
// zones whose clocks change.
func taskTables(until time.Time, once time.Duration) []timetable {
	const minute = 60
	short := func(d time.Duration) *job.Duration { return new(job.Duration(d)) }
	return []timetable{
		{name: "all", spec: job.ScheduleSpec{
			Cron: "*/10 * * * * *", Overlap: job.OverlapAllow, Misfire: job.MisfireAll, Tolerance: short(2 * time.Second),
		}, wall: &wallTimes{second: every(10, minute)}},
		{name: "strict", spec: job.ScheduleSpec{Every: job.Duration(7 * time.Second), Tolerance: short(time.Second), Payload: job.JSON(`{"run_ms": 5000}`)}},
		{name: "queue", spec: job.ScheduleSpec{
			Every: job.Duration(9 * time.Second), Overlap: job.OverlapQueueAll, QueueCap: 2, Misfire: job.MisfireLatest,
			Tolerance: short(4 * time.Second), Payload: job.JSON(`{"run_ms": 8000}`),
		}},
		{name: "latest", spec: job.ScheduleSpec{
			Cron: "*/12 * * * * *", Overlap: job.OverlapLatest, Misfire: job.MisfireAll, MisfireCap: 3, Tolerance: short(3 * time.Second),
			Payload: job.JSON(`{"run_ms": 20000}`),
		}, wall: &wallTimes{second: every(12, minute)}},
		{name: "oldest", spec: job.ScheduleSpec{
			Every: job.Duration(8 * time.Second), Overlap: job.OverlapQueueOne, Payload: job.JSON(`{"run_ms": 15000}`),
		}},
		{name: "instead", spec: job.ScheduleSpec{
			Every: job.Duration(20 * time.Second), Overlap: job.OverlapCancelOther, Payload: job.JSON(`{"run_ms": 30000}`), Misfire: job.MisfireLatest,
		}},
		{name: "jittered", spec: job.ScheduleSpec{
			Every: job.Duration(11 * time.Second), Jitter: job.Duration(4 * time.Second), Overlap: job.OverlapAllow, Misfire: job.MisfireAll,
		}},
		{name: "few", spec: job.ScheduleSpec{Every: job.Duration(6 * time.Second), MaxRuns: 5, Misfire: job.MisfireAll, Overlap: job.OverlapAllow}},
		{name: failingPlan, spec: job.ScheduleSpec{
			Job: doomedJob, Every: job.Duration(5 * time.Second), PauseAfterFailures: 3, Payload: job.JSON(`{"fail": 99}`), Priority: job.Low,
		}},
		{name: "clocks", spec: job.ScheduleSpec{Cron: "*/5 * * * *", Timezone: berlin, Misfire: job.MisfireAll, Overlap: job.OverlapAllow},
			wall: &wallTimes{second: []int{0}, minute: every(5, minute)}},
		{name: "fixed", spec: job.ScheduleSpec{Cron: "30 2 * * *", Timezone: berlin, Misfire: job.MisfireLatest},
			wall: &wallTimes{second: []int{0}, minute: []int{30}, hour: []int{2}, fixed: true}},
		{name: "once", spec: job.ScheduleSpec{At: job.Timestamp(until.Add(-once).UnixMilli()), Misfire: job.MisfireAll}},
		{name: "heard", spec: job.ScheduleSpec{
			Event: &job.OnEvent{Name: eventName}, Overlap: job.OverlapQueueAll, QueueCap: job.MaxQueueCap, Payload: job.JSON(`{"run_ms": 100}`),
		}},
		{name: "every", spec: job.ScheduleSpec{Job: everyJob, Every: job.Duration(23 * time.Second), Overlap: job.OverlapCancelOther, Payload: job.JSON(`{"run_ms": 9000}`)}},
		{name: "both", spec: job.ScheduleSpec{
			Event: &job.OnEvent{Name: eventName}, Every: job.Duration(13 * time.Second), Overlap: job.OverlapAllow, Misfire: job.MisfireAll,
		}},
	}
}

func (l *load) defineSchedules(ctx context.Context) error {
	for _, t := range timetables(l.until, l.c.Ledger.plan) {
		if !t.comesUp(time.Now()) {
			continue
		}
		l.tables = append(l.tables, t)
		if _, err := l.clients[0].PutSchedule(ctx, t.name, t.spec); err != nil {
			return fmt.Errorf("define schedule %s: %w", t.name, err)
		}
	}
	return nil
}

func (c *caller) table() timetable {
	return c.tables[c.rng.IntN(len(c.tables)-c.c.Ledger.plan.Streams)] // the streams stand at the end
}

// send sends an event, at times through several servers at once or once more.
func (c *caller) send() {
	id := fmt.Sprintf("event-%d", c.next())
	send := func(through int) {
		call := Call{Verb: SendEvent, Arg: id, Begun: time.Now()}
		ctx, cancel := context.WithTimeout(context.Background(), callLimit)
		defer cancel()
		e, err := c.clients[through%len(c.clients)].SendEvent(ctx, eventName, client.SendEventRequest{DedupID: id, Payload: json.RawMessage(`{"run_ms": 50}`)})
		call.Ended = time.Now()
		if call.Object, call.Deduplicated = e.ID, e.Deduplicated; err != nil {
			call.Code = codeOf(err)
		}
		c.c.Ledger.called(call)
	}
	c.together(1+c.rng.IntN(3), func(n int) { send(c.i + n) })
	if c.rng.IntN(3) == 0 {
		send(c.rng.IntN(len(c.clients)))
	}
}

// trigger fires a schedule by hand.
func (c *caller) trigger() {
	name := c.table().name
	c.ask(Call{Verb: Trigger, Object: name}, func(ctx context.Context, cl *client.Client) (string, error) {
		_, err := cl.TriggerSchedule(ctx, name, client.TriggerRequest{})
		return "", err
	})
}

// pauseSchedule pauses a schedule for a while, or resumes the one that pauses
// itself.
func (c *caller) pauseSchedule() {
	name := c.table().name
	if c.rng.IntN(3) == 0 {
		name = failingPlan
	}
	if name == failingPlan {
		c.resume(name)
		return
	}
	c.ask(Call{Verb: Pause, Object: name}, func(ctx context.Context, cl *client.Client) (string, error) {
		_, err := cl.PauseSchedule(ctx, name, "sim")
		return "", err
	})
	length := time.Duration(c.rng.Int64N(int64(longestWait)))
	c.aside.Go(func() {
		time.Sleep(length)
		for code := c.resume(name); code != "" && code != job.CodeConflict; code = c.resume(name) { // whatever became of the pause, it ends
			time.Sleep(lookAgain)
		}
	})
}

func (c *caller) resume(name string) job.Code {
	return c.ask(Call{Verb: Resume, Object: name}, func(ctx context.Context, cl *client.Client) (string, error) {
		_, err := cl.ResumeSchedule(ctx, name)
		return "", err
	})
}

// resumeAll ends all pauses, so that each time gets its verdict.
func (l *load) resumeAll(ctx context.Context) error {
	for _, t := range l.tables {
		s, err := l.clients[0].Schedule(ctx, t.name)
		if err == nil && s.Status != nil && s.Status.Paused != nil {
			_, err = l.clients[0].ResumeSchedule(ctx, t.name)
		}
		if err != nil {
			return fmt.Errorf("resume schedule %s: %w", t.name, err)
		}
	}
	return nil
}

// changeSchedule changes what a schedule fires, not when.
func (c *caller) changeSchedule() {
	t := c.table()
	if !t.comesUp(time.Now().Add(callLimit)) { // what has no time to come any more is refused
		c.look()
		return
	}
	if t.spec.Workflow == "" {
		t.spec.Description = fmt.Sprintf("change %d", c.next())
	} else {
		t.spec.Priority = job.Priorities[c.rng.IntN(len(job.Priorities))]
	}
	c.ask(Call{Verb: Change, Object: t.name}, func(ctx context.Context, cl *client.Client) (string, error) {
		_, err := cl.PutSchedule(ctx, t.name, t.spec)
		return "", err
	})
}
