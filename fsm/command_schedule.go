package fsm

import "github.com/axd-project/axd/job"

// PutSchedule creates a schedule or gives it a new version; an equal spec changes
// nothing. A change never fires what lies in the past.
type PutSchedule struct {
	Namespace string           `msgpack:"n"`
	Name      string           `msgpack:"N"`
	Spec      job.ScheduleSpec `msgpack:"s"`
	FileSet   string           `msgpack:"f,omitempty"` // empty: stays as it is
	Actor     string           `msgpack:"a,omitempty"`
}

// DeleteSchedule removes a schedule. What it fired goes on; its ledger stays until
// its retention ends.
type DeleteSchedule struct {
	Namespace string `msgpack:"n"`
	Name      string `msgpack:"N"`
	Actor     string `msgpack:"a,omitempty"`
}

// PauseSchedule stops a schedule's times, or with Resume lets them go on. Times
// that pass in between are skipped. By hand it fires all the same.
type PauseSchedule struct {
	Namespace string `msgpack:"n"`
	Name      string `msgpack:"N"`
	Resume    bool   `msgpack:"r,omitempty"`
	Reason    string `msgpack:"y,omitempty"` // at most MaxErrorBytes
	Actor     string `msgpack:"a,omitempty"`
}

// TriggerSchedule fires a schedule by hand, at once. The rule for overlaps holds:
// where it would skip the time, the command is refused.
type TriggerSchedule struct {
	Namespace string     `msgpack:"n"`
	Name      string     `msgpack:"N"`
	Payload   []byte     `msgpack:"p,omitempty"` // in place of the schedule's
	Params    job.Values `msgpack:"v,omitempty"` // over the schedule's
	Actor     string     `msgpack:"a,omitempty"`
}

// FireSchedules fires planned times. The leader decides it, so it carries its term
// and, of each schedule, the generation and cursor that it saw.
type FireSchedules struct {
	Term  uint64     `msgpack:"t"`
	Items []FireItem `msgpack:"i"`
}

// FireItem is what the leader has to say of one schedule: the fate of the times
// after its cursor, in order, and which one is next.
type FireItem struct {
	Ref        ScheduleRef `msgpack:"r"`
	Generation uint64      `msgpack:"g"`
	Cursor     int64       `msgpack:"c"`
	Times      []FireTime  `msgpack:"t,omitempty"`
	Upto       int64       `msgpack:"u,omitempty"` // the cursor from then on, where it is after the last of Times
	Next       int64       `msgpack:"n,omitempty"` // 0: none
	NextAt     int64       `msgpack:"a,omitempty"`
	MissedTo   int64       `msgpack:"m,omitempty"` // up to here they are missed, and not all are among Times
	Broken     string      `msgpack:"b,omitempty"` // the schedule's times can't be told
}

// FireTime is one planned time that is to be fired, if the rule for overlaps and
// the budget allow, or a span of times that are not.
type FireTime struct {
	Nominal int64   `msgpack:"t"`
	Due     int64   `msgpack:"d,omitempty"` // Nominal with jitter
	CatchUp bool    `msgpack:"m,omitempty"` // missed, and made up for
	Until   int64   `msgpack:"u,omitempty"` // of a span: its last time
	Count   int64   `msgpack:"c,omitempty"` // of a span
	Verdict Verdict `msgpack:"v,omitempty"` // of a span
	Why     string  `msgpack:"w,omitempty"` // of a span
	Into    int64   `msgpack:"i,omitempty"` // of a span that was merged

	Join *FireJoin `msgpack:"j,omitempty"` // of a single time of a schedule with upstreams
}

// ContinueSchedules goes on with a ScheduleAct.
type ContinueSchedules struct {
	Kind ScheduleActKind `msgpack:"k"`
	Ref  ScheduleRef     `msgpack:"r"`
	// Judged is what the leader found by the filters of the next that subscribe to the
	// event of an ActEvent.
	Judged []Judged `msgpack:"j,omitempty"`
}

// The limits of what the leader proposes for one schedule.
const (
	MaxFireTimes = 100          // in one FireItem
	MaxFireItems = job.MaxBatch // in one FireSchedules
)

// newScheduleCommand is newCommand for the commands of this file.
func newScheduleCommand(code Code) Command {
	switch code {
	case CodePutSchedule:
		return &PutSchedule{}
	case CodeDeleteSchedule:
		return &DeleteSchedule{}
	case CodePauseSchedule:
		return &PauseSchedule{}
	case CodeTriggerSchedule:
		return &TriggerSchedule{}
	case CodeFireSchedules:
		return &FireSchedules{}
	case CodeContinueSchedules:
		return &ContinueSchedules{}
	case CodeListFetched:
		return &ListFetched{}
	}
	return nil
}

// scheduleCommand is command for those of this file.
func (a *apply) scheduleCommand(c Command) (Result, bool) {
	switch c := c.(type) {
	case *PutSchedule:
		return a.putSchedule(c), true
	case *DeleteSchedule:
		return a.deleteSchedule(c), true
	case *PauseSchedule:
		return a.pauseSchedule(c), true
	case *TriggerSchedule:
		return a.triggerSchedule(c), true
	case *FireSchedules:
		return a.fireSchedules(c), true
	case *ContinueSchedules:
		return a.continueSchedules(c), true
	case *ListFetched:
		return a.listFetched(c), true
	}
	return Result{}, false
}
