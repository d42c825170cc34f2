package fsm

import (
	"bytes"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/axd-project/axd/job"
)

// SentEvent is an event that came from outside. It fires the schedules that wait
// for its name, in the entry that brings it as far as maxEventFires goes; what is
// left goes on as a ScheduleAct.
type SentEvent struct {
	Namespace string `msgpack:"n"`
	Name      string `msgpack:"N"`
	ID        job.ID `msgpack:"i"`
	Dedup     string `msgpack:"d,omitempty"` // of who sent it; another one with the same is the same event
	At        int64  `msgpack:"t"`           // Unix ms
	Actor     string `msgpack:"a,omitempty"`
	From      string `msgpack:"f,omitempty"`

	Fired   int `msgpack:"F,omitempty"` // schedules that it fired, or whose time waits for their turn
	Refused int `msgpack:"R,omitempty"` // schedules that it did not fire: their ledgers tell why
	Passed  int `msgpack:"P,omitempty"` // schedules whose filter left it out

	// While it goes on: up to which schedule it has come, and what it carries.
	Open    bool   `msgpack:"o,omitempty"`
	After   string `msgpack:"A,omitempty"`
	Payload []byte `msgpack:"p,omitempty"`
}

// SendEvent records an event and fires what subscribes to it.
type SendEvent struct {
	Namespace string   `msgpack:"n"`
	Name      string   `msgpack:"N"`
	Dedup     string   `msgpack:"d,omitempty"`
	Payload   []byte   `msgpack:"p,omitempty"`
	Judged    []Judged `msgpack:"j,omitempty"` // what the leader found by the filters of the first that subscribe
}

// Judged is what the filter of a schedule says of an event.
type Judged struct {
	Schedule string `msgpack:"s"`
	Version  uint64 `msgpack:"v"` // of the schedule; of another one it says nothing
	Pass     bool   `msgpack:"p,omitempty"`
	Error    string `msgpack:"e,omitempty"` // the filter can't be evaluated
}

// Code implements Command.
func (SendEvent) Code() Code { return CodeSendEvent }

// The limits of events.
const (
	MaxEvents            = 1_000_000            // kept; beyond, no more are taken
	EventRetention int64 = 7 * 24 * 3600 * 1000 // ms
	EventWindow    int64 = 24 * 3600 * 1000     // ms within which a dedup id is known
	MaxDedup             = 256                  // bytes of a dedup id
	// MaxEventFires is how many schedules one entry asks for an event: a fire touches
	// about a dozen rows.
	MaxEventFires = 60
)

// The rows of tableEventAux.
const (
	eventDedup byte = 'd' // namespace, name, dedup id → id (16); of the newest event with it
	eventAge   byte = 'g' // time (8), namespace, name, id → empty; one for each event
)

func (k key) event(namespace, name string) key {
	return k.table(tableEvents).name(namespace).name(name)
}

func (k key) eventDedup(namespace, name, dedup string) key {
	return k.table(tableEventAux).u8(eventDedup).name(namespace).name(name).name(dedup)
}

func (k key) eventAge(e *SentEvent) key {
	return k.table(tableEventAux).u8(eventAge).time(e.At).name(e.Namespace).name(e.Name).id(e.ID)
}

// actRef is the name under which a ScheduleAct goes on with the event.
func (e *SentEvent) actRef() ScheduleRef {
	return ScheduleRef{e.Namespace, e.Name + "/" + e.ID.String()}
}

// subscribers reads the schedules that wait for an event, by name behind after.
func subscribers(r Reader, namespace, event, after string, limit int) (names []string) {
	prefix := key{}.relation(relEvent, namespace, event)
	lo := append(bytes.Clone(prefix), after...)
	if after != "" {
		lo = append(lo, 0, 0)
	}
	r.Ascend(lo, prefixEnd(prefix), func(k, _ []byte) bool {
		names = append(names, string(k[len(prefix):len(k)-1]))
		return len(names) < limit
	})
	return names
}

// ListSubscribers reads up to limit of the schedules that wait for an event, by
// name behind after.
func ListSubscribers(r Reader, namespace, event, after string, limit int) []Schedule {
	var list []Schedule
	for _, name := range subscribers(r, namespace, event, after, limit) {
		if s, _, ok := GetSchedule(r, ScheduleRef{namespace, name}); ok {
			list = append(list, s)
		}
	}
	return list
}

// GetEvent reads one event.
func GetEvent(r Reader, namespace, name string, id job.ID) (SentEvent, bool) {
	return getRow[SentEvent](r, key{}.event(namespace, name).id(inverse(id)))
}

// ListEvents reads a page of events: those of a name, the newest first, or without
// one those of all names, by name.
func ListEvents(r Reader, namespace, name, cursor string, limit int) ([]SentEvent, string, error) {
	prefix := key{}.table(tableEvents).name(namespace)
	if name != "" {
		prefix = prefix.name(name)
	}
	return listRows[SentEvent](r, prefix, cursor, limit)
}

func (c *SendEvent) validate() *job.Error {
	if err := checkNames(c.Namespace, "name", c.Name); err != nil {
		return err
	}
	switch {
	case len(c.Dedup) > MaxDedup || !utf8.ValidString(c.Dedup) || bytes.ContainsFunc([]byte(c.Dedup), unicode.IsControl):
		return job.Invalid("dedup_id", "must be text of at most "+strconv.Itoa(MaxDedup)+" bytes without control characters", c.Dedup)
	case len(c.Payload) > job.MaxPayload:
		return job.Invalid("payload", "must be at most "+strconv.Itoa(job.MaxPayload)+" bytes", strconv.Itoa(len(c.Payload)))
	}
	return nil
}

func (a *apply) sendEvent(c *SendEvent) Result {
	if err := c.validate(); err != nil {
		return rejected(err)
	}
	if c.Dedup != "" {
		a.key = a.key.eventDedup(c.Namespace, c.Name, c.Dedup)
		if b, ok := a.tx.Get(a.key); ok && len(b) == idLen {
			if id := job.ID(b); id.Time()+EventWindow > a.now {
				a.key = a.key.event(c.Namespace, c.Name).id(inverse(id))
				if e, ok := stored[SentEvent](a, a.key); ok {
					return Result{Sent: e}
				}
			}
		}
	}
	counter := key{}.counter(countEvents)
	if a.counter(counter).value >= MaxEvents {
		return rejected(&job.Error{
			Code: job.CodeQuotaExceeded, Field: "name", Value: job.Shorten(c.Name),
			Rule: "is not taken: as many events are kept as may be, " + strconv.Itoa(MaxEvents),
		})
	}
	e := &SentEvent{
		Namespace: c.Namespace, Name: c.Name, ID: job.NewID(a.now, a.at.Index, a.next()), Dedup: c.Dedup, At: a.now,
		Actor: plain(a.actor, MaxActorBytes), From: plain(a.from, MaxActorBytes), Open: true, Payload: c.Payload,
	}
	if e.Dedup != "" {
		a.key = a.key.eventDedup(e.Namespace, e.Name, e.Dedup)
		a.set(a.key, e.ID[:])
	}
	a.key = a.key.eventAge(e)
	a.set(a.key, nil)
	a.addCounter(counter, +1)
	a.fireEvent(e, c.Judged)
	return Result{Changed: true, Sent: e}
}

// fireEvent asks the next of the schedules that subscribe, and keeps the event.
func (a *apply) fireEvent(e *SentEvent, judged []Judged) (more bool) {
	names := subscribers(a.tx, e.Namespace, e.Name, e.After, MaxEventFires+1)
	for i, name := range names {
		if more = i == MaxEventFires || !a.fireByEvent(e, name, judged); more {
			break
		}
		e.After = name
	}
	e.Open = more
	a.key = a.key.scheduleAct(ActEvent, e.actRef())
	if more {
		a.set(a.key, mustEncode(a.codec, &ScheduleAct{Kind: ActEvent, Ref: e.actRef()}))
		a.event(Event{Kind: EventScheduleAct})
	} else {
		if _, ok := a.tx.Get(a.key); ok {
			a.delete(a.key)
		}
		e.After, e.Payload = "", nil
	}
	a.key = a.key.event(e.Namespace, e.Name).id(inverse(e.ID))
	a.set(a.key, mustEncode(a.codec, e))
	return more
}

// fireByEvent fires a schedule; false: the leader is to evaluate its filter first.
func (a *apply) fireByEvent(e *SentEvent, name string, judged []Judged) bool {
	h := a.schedule(ScheduleRef{e.Namespace, name})
	if h.st == nil {
		return true // deleted by this very entry
	}
	spec := a.specOf(h)
	f := &Fire{Nominal: max(e.At, 1), Origin: ByEvent, Seq: a.fireNumber(), Actor: e.label(), Payload: e.Payload}
	if spec.Event.Filter != "" {
		j, ok := judgedFor(judged, name, h.def.Version)
		switch {
		case !ok:
			return false
		case j.Error != "":
			e.Refused++
			f.Verdict, f.Why, f.Error = VerdictSkipped, WhyFilter, cut(j.Error)
			a.putFire(h, f)
			return true
		case !j.Pass:
			e.Passed++
			return true
		}
	}
	if h.st.Paused != nil {
		e.Refused++
		f.Verdict, f.Why = VerdictSkipped, WhyPaused
		a.putFire(h, f)
		return true
	}
	if err := a.fire(h, f); err != nil {
		a.refuseFire(h, f, err)
	}
	if f.Verdict == VerdictFired || f.Verdict == VerdictQueued {
		e.Fired++
	} else {
		e.Refused++
	}
	return true
}

// label is how a ledger names the event.
func (e *SentEvent) label() string {
	id := e.Dedup
	if id == "" {
		id = e.ID.String()
	}
	return "event " + e.Name + " " + id
}

func judgedFor(judged []Judged, schedule string, version uint64) (Judged, bool) {
	for _, j := range judged {
		if j.Schedule == schedule && j.Version == version {
			return j, true
		}
	}
	return Judged{}, false
}

// goOnWithEvent goes on with an event.
func (a *apply) goOnWithEvent(ref ScheduleRef, judged []Judged) (more bool) {
	e, ok := OpenEvent(a.tx, ref)
	if !ok {
		damaged(a.key)
	}
	return a.fireEvent(&e, judged)
}

// OpenEvent reads the event that a ScheduleAct goes on with.
func OpenEvent(r Reader, ref ScheduleRef) (SentEvent, bool) {
	at := len(ref.Name) - 26
	if at < 1 || ref.Name[at-1] != '/' {
		return SentEvent{}, false
	}
	id, err := job.ParseID(ref.Name[at:])
	if err != nil {
		return SentEvent{}, false
	}
	return GetEvent(r, ref.Namespace, ref.Name[:at-1], id)
}

// eventRows is how many rows the deletion of an event touches.
const eventRows = 3

// expireEvents deletes events past their retention, the earliest first. One that goes
// on stays, and so does what is behind it.
func (a *apply) expireEvents(budget int, r *Result) int {
	var found []SentEvent
	table := key{tableEventAux, eventAge}
	before := key{}.table(tableEventAux).u8(eventAge).time(a.now - EventRetention)
	a.tx.Ascend(table, before, func(k, _ []byte) bool {
		if len(found) == budget/eventRows {
			r.More = true
			return false
		}
		kr := readKey(k)
		kr.u8()
		found = append(found, SentEvent{At: kr.time(), Namespace: kr.name(), Name: kr.name(), ID: kr.id()})
		return true
	})
	for i := range found {
		a.key = a.key.event(found[i].Namespace, found[i].Name).id(inverse(found[i].ID))
		e, ok := stored[SentEvent](a, a.key)
		if !ok {
			damaged(a.key)
		}
		if e.Open {
			break
		}
		a.delete(a.key)
		a.key = a.key.eventAge(e)
		a.delete(a.key)
		if e.Dedup != "" {
			a.key = a.key.eventDedup(e.Namespace, e.Name, e.Dedup)
			if b, ok := a.tx.Get(a.key); ok && bytes.Equal(b, e.ID[:]) {
				a.delete(a.key)
			}
		}
		a.addCounter(key{}.counter(countEvents), -1)
		budget -= eventRows
		r.Deleted++
	}
	return budget
}
