package fsm

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/axd-project/axd/job"
)

// Join is how far the upstreams of a schedule have come in one period. It is there
// as long as a time of that period waits for them.
type Join struct {
	Namespace string     `msgpack:"n"`
	Schedule  string     `msgpack:"N"`
	Start     int64      `msgpack:"s"` // of the period, Unix ms, inclusive
	End       int64      `msgpack:"e"` // exclusive
	Parts     []JoinPart `msgpack:"p"` // in the order of the schedule's After
	Waiting   int        `msgpack:"w"` // times that wait
}

// JoinPart is how far one upstream has come.
type JoinPart struct {
	Kind    byte   `msgpack:"k"` // relJob, relWorkflow or relSchedule
	Name    string `msgpack:"n"`
	Need    int    `msgpack:"N"`           // times of the period that must have succeeded; below 0: that can't be told
	Got     int    `msgpack:"g,omitempty"` // have, at most Need
	Planned bool   `msgpack:"p,omitempty"` // only planned times count
}

// FireJoin says of a planned time of a schedule with upstreams what it waits for.
// The leader tells, since the state machine knows no time zones.
type FireJoin struct {
	Start int64      `msgpack:"s"` // of the period, Unix ms, inclusive
	End   int64      `msgpack:"e"` // exclusive
	Until int64      `msgpack:"u"` // how long the time waits
	Needs []JoinNeed `msgpack:"n"` // one for each upstream
}

// JoinNeed is how many times of a period an upstream must have succeeded at.
type JoinNeed struct {
	N          int     `msgpack:"n"` // below 0: its times can't be told, or are too many
	Planned    bool    `msgpack:"p,omitempty"`
	Generation uint64  `msgpack:"g,omitempty"` // of an upstream schedule, as the leader saw it
	Seen       []int64 `msgpack:"s,omitempty"` // times at which it had succeeded before anything waited for it
}

// JudgeJoins tells anew what the times of a schedule wait for, since that or one of
// its upstreams has changed. The leader decides it.
type JudgeJoins struct {
	Term       uint64       `msgpack:"t"`
	Ref        ScheduleRef  `msgpack:"r"`
	Generation uint64       `msgpack:"g"`
	Joins      []JoinJudged `msgpack:"j"` // all that there are
}

// JoinJudged is what is waited for in one period.
type JoinJudged struct {
	End   int64      `msgpack:"e"`
	Needs []JoinNeed `msgpack:"n"`
}

// EndJoins gives times up that have waited for upstreams as long as they may. The
// leader decides it.
type EndJoins struct {
	Term  uint64     `msgpack:"t"`
	Items []JoinWait `msgpack:"i"` // at most MaxJoinEnds
}

// Code implements Command.
func (EndJoins) Code() Code { return CodeEndJoins }

// Code implements Command.
func (JudgeJoins) Code() Code { return CodeJudgeJoins }

// JoinWait is a time that waits for upstreams.
type JoinWait struct {
	Until   int64       `msgpack:"u"` // 0: it is no time, the leader is to judge the schedule's joins
	Ref     ScheduleRef `msgpack:"r"`
	End     int64       `msgpack:"e"` // of its period
	Nominal int64       `msgpack:"t"`
}

// The limits of what waits for upstreams.
const (
	MaxJoinWaits    = 150       // times of a schedule that wait
	MaxJoinEnds     = 100       // of one EndJoins
	MaxJoinNeed     = 1500      // times of one upstream in a period
	MaxJoinSeen     = 100       // successes before that one command brings
	MaxDependents   = 64        // schedules that wait for one upstream
	MaxDependencies = 100_000   // of all schedules together
	maxJoinFires    = 40        // times that one success fires in its own entry
	MaxDone         = 1_000_000 // successes kept; beyond, the oldest go before their time

	// DoneRetention is how long a success counts for a period, in ms.
	DoneRetention int64 = 400 * 24 * 3600 * 1000
	maxOldDone          = 100 // that one Expire deletes; each has two rows
	// maxPeriod is longer than any period, in ms.
	maxPeriod int64 = 367 * 24 * 3600 * 1000
)

// The rows of tableJoins.
const (
	joinPeriod byte = 'j' // namespace, schedule, end (8) → Join
	joinWait   byte = 'w' // namespace, schedule, end (8), nominal time (8) → until (8)
)

func (k key) joins(ref ScheduleRef) key { return k.table(tableJoins).u8(joinPeriod).scheduleRef(ref) }

func (k key) joinWaits(ref ScheduleRef) key {
	return k.table(tableJoins).u8(joinWait).scheduleRef(ref)
}

func (k key) joinDue(w JoinWait) key {
	return k.table(tableJoinDue).time(w.Until).scheduleRef(w.Ref).time(w.End).time(w.Nominal)
}

func (j *Join) ref() ScheduleRef { return ScheduleRef{j.Namespace, j.Schedule} }

// Lacks tells whether the upstream has not come as far as it must.
func (p *JoinPart) Lacks() bool { return p.Need < 0 || p.Got < p.Need }

// Upstream names what the part is about.
func (p *JoinPart) Upstream() job.Upstream {
	switch p.Kind {
	case relJob:
		return job.Upstream{Job: p.Name}
	case relWorkflow:
		return job.Upstream{Workflow: p.Name}
	}
	return job.Upstream{Schedule: p.Name}
}

// Complete tells whether nothing is waited for any more.
func (j *Join) Complete() bool {
	return !slices.ContainsFunc(j.Parts, func(p JoinPart) bool { return p.Lacks() })
}

// empty tells whether no upstream has a time in the period.
func (j *Join) empty() bool {
	return !slices.ContainsFunc(j.Parts, func(p JoinPart) bool { return p.Need != 0 })
}

// Lacks says in words what is waited for.
func (j *Join) Lacks() string {
	var said []string
	for i := range j.Parts {
		p := &j.Parts[i]
		if !p.Lacks() {
			continue
		}
		s := relNames[p.Kind] + " " + p.Name
		switch {
		case p.Need < 0:
			s += ", whose times can't be told or are more than " + strconv.Itoa(MaxJoinNeed)
		case p.Planned:
			s += " (" + strconv.Itoa(p.Got) + " of " + strconv.Itoa(p.Need) + ")"
		}
		said = append(said, s)
	}
	return strings.Join(said, ", ")
}

// ListJoins reads what the times of a schedule wait for, the earliest period first.
func ListJoins(r Reader, ref ScheduleRef) []Join {
	joins, _, _ := listRows[Join](r, key{}.joins(ref), "", MaxJoinWaits)
	return joins
}

// FindJoin reads what a time waits for.
func FindJoin(r Reader, ref ScheduleRef, nominal int64) (j Join, ok bool) {
	prefix := key{}.joins(ref)
	r.Ascend(key(bytes.Clone(prefix)).time(nominal+1), prefixEnd(prefix), func(k, v []byte) bool {
		if err := decode(v, &j); err != nil {
			damaged(k)
		}
		ok = j.Start <= nominal
		return false
	})
	return j, ok
}

// ListJoinWaits reads up to limit times of a schedule that wait for upstreams, the
// earliest period first; of a Join, those of its period.
func ListJoinWaits(r Reader, ref ScheduleRef, j *Join, limit int) []JoinWait {
	var waits []JoinWait
	begin := key{}.joinWaits(ref)
	prefix := begin
	if j != nil {
		prefix = key(bytes.Clone(begin)).time(j.End)
	}
	r.Ascend(prefix, prefixEnd(prefix), func(k, v []byte) bool {
		kr, kv := keyReader{rest: k[len(begin):]}, keyReader{rest: v}
		waits = append(waits, JoinWait{Until: kv.time(), Ref: ref, End: kr.time(), Nominal: kr.time()})
		return len(waits) < limit
	})
	return waits
}

// ScanJoinDue reads up to limit times that have waited long enough by now, the
// longest first, and before them the schedules whose joins are to be judged.
func ScanJoinDue(r Reader, now int64, limit int) []JoinWait {
	var list []JoinWait
	r.Ascend(key{tableJoinDue}, key{}.table(tableJoinDue).time(now+1), func(k, _ []byte) bool {
		list = append(list, readJoinDue(k))
		return len(list) < limit
	})
	return list
}

func readJoinDue(k []byte) JoinWait {
	kr := readKey(k)
	return JoinWait{Until: kr.time(), Ref: kr.scheduleRef(), End: kr.time(), Nominal: kr.time()}
}
