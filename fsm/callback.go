package fsm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/axd-project/axd/job"
)

// CallbackState is how far a callback has come.
type CallbackState uint8

// The states of a callback. Values are part of the row format: append only.
const (
	CallbackOwed      CallbackState = 1
	CallbackDelivered CallbackState = 2 // taken by its target, or its job was run
	CallbackDead      CallbackState = 3 // given up
)

var callbackStates = []string{CallbackOwed: "owed", CallbackDelivered: "delivered", CallbackDead: "dead"}

// String gives the state's name in the API.
func (s CallbackState) String() string {
	if s < CallbackOwed || s > CallbackDead {
		return fmt.Sprintf("CallbackState(%d)", uint8(s))
	}
	return callbackStates[s]
}

// ParseCallbackState reads what String gives.
func ParseCallbackState(s string) (CallbackState, bool) {
	i := slices.Index(callbackStates[CallbackOwed:], s)
	return CallbackState(i) + CallbackOwed, i >= 0 //nolint:gosec // an index of three
}

// CallbackRef names a callback: the task, and the version that the task's end had,
// since a task that is replayed ends more than once.
type CallbackRef struct {
	Task TaskRef `msgpack:"t"`
	N    uint64  `msgpack:"n"`
}

// String is the id of the callback's delivery, the same however often it is sent.
func (r CallbackRef) String() string {
	return r.Task.ID.String() + "-" + strconv.FormatUint(r.N, 10)
}

// ParseCallbackID reads what String gives.
func ParseCallbackID(namespace, s string) (CallbackRef, error) {
	task, number, _ := strings.Cut(s, "-")
	id, err := job.ParseID(task)
	n, wrong := strconv.ParseUint(number, 10, 64)
	if err != nil || wrong != nil || n == 0 {
		return CallbackRef{}, job.Invalid("id", "must be a task's id, - and a number, as 'axd callback list' shows", s)
	}
	return CallbackRef{TaskRef{namespace, id}, n}, nil
}

// Callback is what is owed to the outside for the end of a task, until it is
// delivered or given up, and then for its retention. Times are Unix milliseconds
// by the cluster's clock.
type Callback struct {
	Namespace string        `msgpack:"n"`
	Task      job.ID        `msgpack:"i"`
	N         uint64        `msgpack:"N"`
	Version   uint64        `msgpack:"v"` // +1 with each write
	State     CallbackState `msgpack:"s"`
	URL       string        `msgpack:"u,omitempty"`
	Job       string        `msgpack:"j,omitempty"` // to run instead
	Secret    string        `msgpack:"k,omitempty"` // that requests are signed with
	Started   job.ID        `msgpack:"S"`           // the task that runs it; zero: none
	Created   int64         `msgpack:"c"`
	Due       int64         `msgpack:"d,omitempty"` // of the next try, while owed
	Settled   int64         `msgpack:"e,omitempty"` // delivered or dead
	Tried     int64         `msgpack:"T,omitempty"` // last
	Tries     int           `msgpack:"t,omitempty"` // since it was owed, or asked for again
	Status    int           `msgpack:"h,omitempty"` // HTTP status of the last answer
	Error     string        `msgpack:"E,omitempty"` // of the last try
	End       CallbackEnd   `msgpack:"r"`
}

// CallbackEnd is the end of the task that a callback tells of.
type CallbackEnd struct {
	Job      string    `msgpack:"j,omitempty"`
	State    job.State `msgpack:"s"`
	Attempt  uint32    `msgpack:"a,omitempty"`
	ExitCode *int      `msgpack:"x,omitempty"`
	Error    string    `msgpack:"E,omitempty"`
	Created  int64     `msgpack:"c"`
	Due      int64     `msgpack:"d"`
	Started  int64     `msgpack:"S,omitempty"`
	Ended    int64     `msgpack:"e"`
}

// Ref names the callback.
func (c *Callback) Ref() CallbackRef {
	return CallbackRef{TaskRef{c.Namespace, c.Task}, c.N}
}

// Target is what the callback shares a limit with; empty for a job.
func (c *Callback) Target() string {
	if c.URL == "" {
		return ""
	}
	return job.CallbackTarget(c.URL)
}

// CallbackBody is what a callback tells, as JSON. What the last attempt left is
// read from its record, which may be gone where the callback was owed for long.
func CallbackBody(r Reader, c *Callback) []byte {
	e := &c.End
	body := job.CallbackBody{
		ID: c.Ref().String(), Task: c.Task.String(), Namespace: c.Namespace, Job: e.Job, State: e.State.String(),
		Attempts: int(e.Attempt), ExitCode: e.ExitCode, Error: e.Error,
		ExecuteTime: time.UnixMilli(e.Due).UTC(), CreatedAt: time.UnixMilli(e.Created).UTC(),
		FinishedAt: time.UnixMilli(e.Ended).UTC(),
	}
	if e.Started != 0 {
		body.StartedAt = new(time.UnixMilli(e.Started).UTC())
	}
	if e.Attempt > 0 {
		if at, ok := GetAttempt(r, c.Ref().Task, e.Attempt); ok {
			body.Outcome = at.Outcome.String()
			body.Output = outputJSON(at.Result.Output)
		}
	}
	b, err := json.Marshal(&body)
	if err != nil {
		panic(fmt.Sprintf("fsm: a callback's body can't be encoded: %v", err)) // its output is valid JSON
	}
	return b
}

// outputJSON is an output as JSON, or where it is none, as a JSON string.
func outputJSON(b []byte) json.RawMessage {
	if len(b) == 0 || json.Valid(b) {
		return b
	}
	s, _ := json.Marshal(strings.ToValidUTF8(string(b), "\uFFFD")) // a string always has a JSON form
	return s
}

// GetCallback reads one callback.
func GetCallback(r Reader, ref CallbackRef) (Callback, bool) {
	return getRow[Callback](r, key{}.callback(ref))
}

// ListCallbacks reads a page of at most limit callbacks of a namespace, and of a
// state unless that is 0, by task. A cursor that isn't one is an error.
func ListCallbacks(r Reader, namespace string, state CallbackState, cursor string, limit int) (list []Callback, next string, err error) {
	if state == 0 {
		return listRows[Callback](r, key{tableCallbacks}.name(namespace), cursor, limit)
	}
	prefix := key{}.callbackState(namespace, state)
	refs, next, err := listKeys(r, prefix, cursor, limit)
	for _, k := range refs {
		kr := readKey(k)
		kr.name()
		kr.u8()
		ref := CallbackRef{TaskRef{namespace, kr.id()}, kr.u64()}
		if c, ok := GetCallback(r, ref); ok {
			list = append(list, c)
		}
	}
	return list, next, err
}

// TaskCallbacks reads the kept callbacks of a task, oldest first; a task that was
// never replayed has one at most.
func TaskCallbacks(r Reader, ref TaskRef) []Callback {
	list, _, _ := listRows[Callback](r, key{tableCallbacks}.ref(ref), "", MaxPage)
	return list
}

// OwedTarget is a target that something is owed to.
type OwedTarget struct {
	Name string
	Due  int64 // of the earliest
}

// CallbackTargets reads up to limit targets behind after that something is owed
// to, by name. It jumps from one to the next, however much is owed to each.
func CallbackTargets(r Reader, after string, limit int) []OwedTarget {
	return owedTargets(r, tableCallbackDue, after, limit)
}

// owedTargets reads the targets of a table whose keys begin with target and due.
func owedTargets(r Reader, table byte, after string, limit int) []OwedTarget {
	var targets []OwedTarget
	lo := key{table}
	if after != "" {
		lo = prefixEnd(lo.name(after))
	}
	for len(targets) < limit {
		var found OwedTarget
		ok := false
		r.Ascend(lo, tableEnd(table), func(k, _ []byte) bool {
			kr := readKey(k)
			found, ok = OwedTarget{Name: kr.name(), Due: kr.time()}, true
			return false
		})
		if !ok {
			break
		}
		targets = append(targets, found)
		lo = prefixEnd(key{table}.name(found.Name))
	}
	return targets
}

// DueCallbacks reads up to limit callbacks owed to a target that are due by now,
// the earliest first. next is when the first one that it left out is due; 0: none
// is left.
func DueCallbacks(r Reader, target string, now int64, limit int) (list []Callback, next int64) {
	refs, next := dueTo(r, tableCallbackDue, target, now, limit, (*keyReader).callbackRest)
	for _, ref := range refs {
		if c, ok := GetCallback(r, ref); ok {
			list = append(list, c)
		}
	}
	return list, next
}

// CallbacksBefore counts the callbacks owed to the same target that are due before
// one, at most limit; more: there are others.
func CallbacksBefore(r Reader, c *Callback, limit int) (n int, more bool) {
	r.Ascend(key{tableCallbackDue}.name(c.Target()), key{}.callbackDue(c), func(_, _ []byte) bool {
		more = n == limit
		if !more {
			n++
		}
		return !more
	})
	return n, more
}

// dueTo reads what a table as those of owedTargets names behind target and due.
func dueTo[T any](r Reader, table byte, target string, now int64, limit int, rest func(*keyReader) T) (refs []T, next int64) {
	prefix := key{table}.name(target)
	r.Ascend(prefix, prefixEnd(prefix), func(k, _ []byte) bool {
		kr := readKey(k)
		kr.name()
		due := kr.time()
		if len(refs) == limit || due > now {
			next = due
			return false
		}
		refs = append(refs, rest(kr))
		return true
	})
	return refs, next
}

// listKeys reads a page of the keys that begin with prefix.
func listKeys(r Reader, prefix key, cursor string, limit int) (keys []key, next string, err error) {
	limit = pageLimit(limit)
	span, err := keyRange{lo: prefix, hi: prefixEnd(prefix)}.from(cursor)
	if err != nil {
		return nil, "", err
	}
	r.Ascend(span.lo, span.hi, func(k, _ []byte) bool {
		if len(keys) == limit {
			next = encodeCursor(keys[limit-1])
			return false
		}
		keys = append(keys, append(key{}, k...))
		return true
	})
	return keys, next, nil
}

func (k key) callback(r CallbackRef) key {
	return k.table(tableCallbacks).ref(r.Task).u64(r.N)
}

func (k key) callbackDue(c *Callback) key {
	return k.table(tableCallbackDue).name(c.Target()).time(c.Due).id(c.Task).u64(c.N).name(c.Namespace)
}

func (k key) callbackState(namespace string, s CallbackState) key {
	return k.table(tableCallbackState).name(namespace).u8(byte(s))
}

func (k key) callbackAge(c *Callback) key {
	return k.table(tableCallbackAge).time(c.Settled).id(c.Task).u64(c.N).name(c.Namespace)
}

// callbackRest reads a callback's name at the end of a key.
func (r *keyReader) callbackRest() CallbackRef {
	ref := CallbackRef{Task: TaskRef{ID: r.id()}, N: r.u64()}
	ref.Task.Namespace = r.name()
	return ref
}

// wantsCallback returns what the end of a task is owed to: a URL or a job; none
// where nobody asked. Requests to the URL are signed with the secret, if there is one.
func (a *apply) wantsCallback(t *Task) (url, run, secret string) {
	own := &t.Policy
	if t.Job == "" {
		if own.CallbackURL == "" && own.CallbackJob == "" || !own.WantsCallback(t.State) {
			return "", "", ""
		}
		return own.CallbackURL, own.CallbackJob, own.CallbackSecret
	}
	j, ok := a.job(t.Namespace, t.Job)
	if !ok {
		return "", "", ""
	}
	base := &j.Spec.Policy
	if cmp.Or(own.CallbackURL, own.CallbackJob, base.CallbackURL, base.CallbackJob) == "" {
		return "", "", ""
	}
	merged := base.Merge(*own)
	if !merged.WantsCallback(t.State) {
		return "", "", ""
	}
	return merged.CallbackURL, merged.CallbackJob, merged.CallbackSecret
}
