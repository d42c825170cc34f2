package fsm

import "github.com/axd-project/axd/job"

// Schedule is a plan in its newest version. What changes with each of its fires is
// its ScheduleState, in a row of its own.
type Schedule struct {
	Namespace string           `msgpack:"n"`
	Name      string           `msgpack:"N"`
	ID        job.ID           `msgpack:"i"` // another one when it is made anew under the same name
	Version   uint64           `msgpack:"v"`
	Spec      job.ScheduleSpec `msgpack:"s"`
	Created   int64            `msgpack:"c"`
	Updated   int64            `msgpack:"u"`
	FileSet   string           `msgpack:"f,omitempty"` // see Job.FileSet
}

// ScheduleState is what changes of a schedule. Times are Unix milliseconds by the
// cluster's clock; 0 means: none.
type ScheduleState struct {
	ID job.ID `msgpack:"i"` // of the schedule
	// Generation rises when the schedule is changed, paused or resumed: what a leader
	// decided by an earlier one is refused.
	Generation uint64 `msgpack:"g"`
	// Cursor is up to when, inclusively, each planned time has its verdict.
	Cursor int64 `msgpack:"c"`
	// Planned: Next is the first planned time after Cursor, 0 where none is left, and
	// NextAt is when it is due, which jitter puts off. Otherwise the leader is to say.
	Planned bool  `msgpack:"p,omitempty"`
	Next    int64 `msgpack:"n,omitempty"`
	NextAt  int64 `msgpack:"a,omitempty"`

	Paused *Pause `msgpack:"P,omitempty"`
	// GapTo is up to when the times after Cursor were paused away: they have no verdict
	// yet, since only the leader can tell them.
	GapTo int64 `msgpack:"t,omitempty"`
	// MissedTo is up to when the times after Cursor were found to be missed, where that
	// is more than one proposal could judge.
	MissedTo int64 `msgpack:"m,omitempty"`

	Broken string `msgpack:"b,omitempty"` // why its times can't be told; it fires by hand alone

	Active int `msgpack:"A,omitempty"` // tasks, runs and lists that it fired and that have not ended
	Queued int `msgpack:"q,omitempty"` // times that wait for those to end
	// Waiting is how many times wait for upstreams. Rejudge: the leader is to tell anew
	// what they wait for.
	Waiting int  `msgpack:"w,omitempty"`
	Rejudge bool `msgpack:"R,omitempty"`
	// Backfills is how many of it run. What they fire counts neither as Active nor as
	// failed.
	Backfills int `msgpack:"B,omitempty"`
	Failures  int `msgpack:"F,omitempty"` // of what it fired, in a row

	// Unfired are times in a row, up to the last, that should have been fired and were
	// not; Alerted: it has an alert of its own for it.
	Unfired int64 `msgpack:"u,omitempty"`
	Alerted bool  `msgpack:"W,omitempty"`

	Ledger Ledger         `msgpack:"k"`
	Counts ScheduleCounts `msgpack:"C"`
	Last   LastFire       `msgpack:"l"`
	// Latest is what fired last and has not ended, as far as known: what cancel_other
	// cancels.
	Latest job.ID `msgpack:"L"`
}

// Pause tells who paused a schedule, and why.
type Pause struct {
	At     int64  `msgpack:"a"`
	Reason string `msgpack:"r,omitempty"`
	Actor  string `msgpack:"b,omitempty"`
	Auto   bool   `msgpack:"s,omitempty"` // by pause_after_failures
}

// ScheduleCounts are what has become of a schedule's times since it was created,
// and of what they fired.
type ScheduleCounts struct {
	Planned   int64 `msgpack:"p,omitempty"` // fired by the plan, what max_runs counts
	Fired     int64 `msgpack:"f,omitempty"` // these and those by hand, event and backfill
	Merged    int64 `msgpack:"m,omitempty"`
	Skipped   int64 `msgpack:"s,omitempty"`
	Missed    int64 `msgpack:"x,omitempty"`
	Succeeded int64 `msgpack:"S,omitempty"` // tasks and runs
	Failed    int64 `msgpack:"F,omitempty"` // failed or timed out
	Refused   int64 `msgpack:"r,omitempty"` // of the skipped: those whose task could not be made
	Dropped   int64 `msgpack:"d,omitempty"` // verdicts that went beyond its share of the ledgers
}

// LastFire is the newest time that was fired.
type LastFire struct {
	Nominal int64  `msgpack:"n,omitempty"`
	At      int64  `msgpack:"a,omitempty"` // when it was decided
	Task    job.ID `msgpack:"t"`
	Run     job.ID `msgpack:"r"`
}

// Verdict is what became of a planned time.
type Verdict uint8

// The verdicts. Values are part of the row format: append, never reorder. Those of
// times that wait are not final.
const (
	VerdictQueued  Verdict = 1 // it waits for what was fired before
	VerdictFired   Verdict = 2
	VerdictMerged  Verdict = 3 // another time stands for it
	VerdictSkipped Verdict = 4
	VerdictMissed  Verdict = 5
	VerdictWaiting Verdict = 6 // for upstreams; not final either
)

var verdictNames = [...]string{
	VerdictQueued: "queued", VerdictFired: "fired", VerdictMerged: "merged", VerdictSkipped: "skipped", VerdictMissed: "missed",
	VerdictWaiting: "waiting",
}

// String returns the verdict's API name.
func (v Verdict) String() string {
	if v == 0 || int(v) >= len(verdictNames) {
		return "invalid"
	}
	return verdictNames[v]
}

// ParseVerdict reads an API name.
func ParseVerdict(name string) (Verdict, error) {
	for v := VerdictQueued; v <= VerdictWaiting; v++ {
		if v.String() == name {
			return v, nil
		}
	}
	return 0, job.Invalid("verdict", "must be planned, queued, waiting, fired, merged, skipped or missed", name)
}

// The reasons of verdicts: Fire.Why.
const (
	WhyOverlap   = "overlap"    // what was fired before had not ended
	WhyQueueFull = "queue_full" // as many times waited as may
	WhyNewer     = "newer"      // merged: a newer time stands for it
	WhyOlder     = "older"      // merged: an older one, which waited, does
	WhyDowntime  = "downtime"   // nobody could fire it in time
	WhyWindow    = "misfire_window"
	WhyCap       = "misfire_cap"
	WhyPaused    = "paused"
	WhyEdited    = "edited"   // the schedule was changed before its time was judged
	WhyMaxRuns   = "max_runs" // the schedule had fired as often as it may
	WhyRefused   = "refused"  // its task or run could not be made: see Fire.Error
	WhyUpstream  = "upstream" // what it waits for has not succeeded: see Fire.Error
	WhyFilter    = "filter"   // the filter of its event can't be evaluated: see Fire.Error
	WhyDeleted   = "deleted"  // the schedule was, while the time waited
)

// FireOrigin tells what asked for a fire.
type FireOrigin uint8

// The kinds of counter of schedules; see tableCounters.
const (
	countSchedules byte = 'S'
	countFires     byte = 'F'
	countDones     byte = 'U'
)

// The origins. Values are part of the key format.
const (
	ByPlan     FireOrigin = 0
	ByHand     FireOrigin = 1
	ByEvent    FireOrigin = 2
	ByBackfill FireOrigin = 4
)

var originNames = [...]string{"plan", "manual", "event", "invalid", "backfill"}

// String returns the origin's API name.
func (o FireOrigin) String() string {
	if int(o) >= len(originNames) {
		return "invalid"
	}
	return originNames[o]
}

// Fire is a row of the ledger: what became of one time of a schedule, or of a span
// of planned times that had the same fate.
type Fire struct {
	Namespace string     `msgpack:"n"`
	Schedule  string     `msgpack:"N"`
	Nominal   int64      `msgpack:"t"`           // of a span the first, or what lies before it
	Until     int64      `msgpack:"u,omitempty"` // of a span the last
	Count     int64      `msgpack:"c,omitempty"` // of a span; 0: nobody counted
	Origin    FireOrigin `msgpack:"o,omitempty"`
	Seq       uint64     `msgpack:"s,omitempty"` // tells apart what was not planned

	Verdict Verdict `msgpack:"v"`
	Why     string  `msgpack:"w,omitempty"` // a constant Why*
	Error   string  `msgpack:"e,omitempty"`
	At      int64   `msgpack:"a"`           // when it was decided
	Due     int64   `msgpack:"d,omitempty"` // when it was due: Nominal with jitter
	Late    int64   `msgpack:"l,omitempty"` // ms from Due to its fire
	Into    int64   `msgpack:"i,omitempty"` // of a merged one: the time that stands for it
	Task    job.ID  `msgpack:"T"`
	Run     job.ID  `msgpack:"R"`
	Actor   string  `msgpack:"b,omitempty"` // who fired it by hand, or the event
	CatchUp bool    `msgpack:"m,omitempty"` // a missed time that is made up for

	// Of a time that waits, what it will be fired with beside the schedule's own.
	Payload []byte `msgpack:"p,omitempty"`

	Priority job.Priority `msgpack:"y,omitempty"` // of its task; 0: as the schedule says

	List *ListOutcome `msgpack:"L,omitempty"` // of a schedule that compares a list
}

// Span reports whether the row stands for several times.
func (f *Fire) Span() bool { return f.Until != 0 }

// Number is how many times the row stands for, one where nobody counted.
func (f *Fire) Number() int64 {
	if f.Span() {
		return max(f.Count, 1)
	}
	return 1
}

// ScheduleRef names a schedule.
type ScheduleRef struct {
	Namespace string `msgpack:"n"`
	Name      string `msgpack:"N"`
}

// Ref names the schedule.
func (s *Schedule) Ref() ScheduleRef { return ScheduleRef{s.Namespace, s.Name} }

// Anchor is one of the times of an interval, in Unix milliseconds.
func (s *Schedule) Anchor() int64 {
	if s.Spec.Anchor != 0 {
		return int64(s.Spec.Anchor)
	}
	return s.Created
}

// FireKey is a row's place in the ledger of its schedule.
type FireKey struct {
	Nominal int64      `msgpack:"t"`
	Origin  FireOrigin `msgpack:"o,omitempty"`
	Seq     uint64     `msgpack:"s,omitempty"`
}

// Key is the row's place.
func (f *Fire) Key() FireKey { return FireKey{f.Nominal, f.Origin, f.Seq} }

func (f *Fire) ref() ScheduleRef { return ScheduleRef{f.Namespace, f.Schedule} }

func (k key) scheduleRef(r ScheduleRef) key   { return k.name(r.Namespace).name(r.Name) }
func (k key) schedule(r ScheduleRef) key      { return k.table(tableSchedules).scheduleRef(r) }
func (k key) scheduleState(r ScheduleRef) key { return k.table(tableScheduleStates).scheduleRef(r) }
func (k key) fires(r ScheduleRef) key         { return k.table(tableFires).scheduleRef(r) }
func (k key) fireQueue(r ScheduleRef) key     { return k.table(tableFireQueue).scheduleRef(r) }
func (k key) fireKey(f FireKey) key           { return k.time(f.Nominal).u8(byte(f.Origin)).u64(f.Seq) }
func (k key) fire(f *Fire) key                { return k.fires(f.ref()).newest(f.Key()) }
func (k key) fireAge(f *Fire) key {
	return k.table(tableFireAge).time(f.At).scheduleRef(f.ref()).fireKey(f.Key())
}

func (k key) scheduleDue(at int64, r ScheduleRef) key {
	return k.table(tableScheduleDue).time(at).scheduleRef(r)
}

func (r *keyReader) scheduleRef() ScheduleRef { return ScheduleRef{r.name(), r.name()} }

// newest is fireKey in an order that has the newest time first.
func (k key) newest(f FireKey) key {
	return k.u64(^uint64(max(f.Nominal, 0))).u8(byte(f.Origin)).u64(f.Seq)
}

func (r *keyReader) newest() FireKey {
	return FireKey{Nominal: int64(^r.u64()), Origin: FireOrigin(r.u8()), Seq: r.u64()} //nolint:gosec // written by key.newest
}

func (r *keyReader) fireKey() FireKey {
	return FireKey{Nominal: r.time(), Origin: FireOrigin(r.u8()), Seq: r.u64()}
}
