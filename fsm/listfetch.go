package fsm

import (
	"strconv"

	"github.com/axd-project/axd/job"
)

// ListFetch is what a fire of a schedule with a reconcile_url owes: the list of keys
// that a caller believes in is to be fetched and compared. It is kept until that has
// happened, or is given up; what came of it is kept with the fire. Times are Unix
// milliseconds by the cluster's clock.
type ListFetch struct {
	Namespace string  `msgpack:"n"`
	Schedule  string  `msgpack:"N"`
	ID        job.ID  `msgpack:"i"`
	Fire      FireKey `msgpack:"f"`
	Version   uint64  `msgpack:"v"` // +1 with each write
	URL       string  `msgpack:"u"`
	Secret    string  `msgpack:"k,omitempty"` // that requests are signed with
	Replay    bool    `msgpack:"r,omitempty"` // see job.ScheduleSpec.ReconcileReplay
	Created   int64   `msgpack:"c"`           // what has failed since then it doesn't replay
	Due       int64   `msgpack:"d"`           // of the next try
	Tries     int     `msgpack:"t,omitempty"`
}

// ListState is how far a ListFetch has come.
type ListState uint8

// The states. The last two are final: the row is gone then.
const (
	ListOwed     ListState = 1
	ListCompared ListState = 2 // fetched and compared
	ListFailed   ListState = 3 // given up
)

var listStates = []string{"", "owed", "done", "failed"}

// String returns the API name.
func (s ListState) String() string { return listStates[min(int(s), len(listStates)-1)] }

// ListOutcome is what came of a ListFetch, kept with its fire.
type ListOutcome struct {
	ID        job.ID       `msgpack:"i"` // of the ListFetch
	State     ListState    `msgpack:"s"`
	Tries     int          `msgpack:"t,omitempty"`
	NextTry   int64        `msgpack:"n,omitempty"` // while owed
	Ended     int64        `msgpack:"e,omitempty"`
	Status    int          `msgpack:"h,omitempty"` // HTTP status of the last answer
	Error     string       `msgpack:"E,omitempty"` // of the last try
	Counts    ListCounts   `msgpack:"c"`
	Different []Difference `msgpack:"d,omitempty"` // the first of them, at most MaxDifferences
}

// ListCounts counts the keys of a list.
type ListCounts struct {
	Same      int `msgpack:"s,omitempty"`
	Differs   int `msgpack:"d,omitempty"`
	Missing   int `msgpack:"m,omitempty"`
	Submitted int `msgpack:"S,omitempty"` // of the missing ones
	Replayed  int `msgpack:"r,omitempty"` // of those that differ
	Wrong     int `msgpack:"e,omitempty"` // could not be compared, submitted or replayed
}

// Difference is a key whose task is not as the caller believed.
type Difference struct {
	Key       string `msgpack:"k"`
	Believed  string `msgpack:"b,omitempty"`
	Verdict   string `msgpack:"v,omitempty"` // differs or missing; empty: see Error
	Task      string `msgpack:"t,omitempty"`
	State     string `msgpack:"s,omitempty"`
	Submitted bool   `msgpack:"S,omitempty"`
	Replayed  bool   `msgpack:"r,omitempty"`
	Error     string `msgpack:"e,omitempty"`
}

// The limits of what is kept of a comparison.
const (
	MaxDifferences     = 10
	maxDifferenceError = 200 // bytes
)

// CodeListFetched is the code of ListFetched.
const CodeListFetched Code = 116

// ListFetched records what came of fetching a list. The leader sends it, so this
// carries its term and the version of the ListFetch that it saw.
type ListFetched struct {
	Term    uint64  `msgpack:"t"`
	Ref     TaskRef `msgpack:"r"` // of the ListFetch
	Version uint64  `msgpack:"v"`
	OK      bool    `msgpack:"o,omitempty"` // it was fetched and compared
	Status  int     `msgpack:"s,omitempty"`
	Error   string  `msgpack:"e,omitempty"` // cut to MaxErrorBytes

	Counts    ListCounts   `msgpack:"c"`
	Different []Difference `msgpack:"d,omitempty"` // at most MaxDifferences
}

// Code implements Command.
func (ListFetched) Code() Code { return CodeListFetched }

// Ref names it.
func (l *ListFetch) Ref() TaskRef { return TaskRef{l.Namespace, l.ID} }

// Target is what it shares a limit with.
func (l *ListFetch) Target() string { return job.CallbackTarget(l.URL) }

func (l *ListFetch) schedule() ScheduleRef { return ScheduleRef{l.Namespace, l.Schedule} }

func (k key) listFetch(r TaskRef) key { return k.table(tableListFetches).ref(r) }

func (k key) listFetchDue(l *ListFetch) key {
	return k.table(tableListFetchDue).name(l.Target()).time(l.Due).id(l.ID).name(l.Namespace)
}

// GetListFetch reads one that is owed.
func GetListFetch(r Reader, ref TaskRef) (ListFetch, bool) {
	return getRow[ListFetch](r, key{}.listFetch(ref))
}

// ListFetchTargets is CallbackTargets for lists.
func ListFetchTargets(r Reader, after string, limit int) []OwedTarget {
	return owedTargets(r, tableListFetchDue, after, limit)
}

// DueListFetches is DueCallbacks for lists.
func DueListFetches(r Reader, target string, now int64, limit int) (list []ListFetch, next int64) {
	refs, next := dueTo(r, tableListFetchDue, target, now, limit, func(kr *keyReader) TaskRef {
		id := kr.id()
		return TaskRef{Namespace: kr.name(), ID: id}
	})
	for _, ref := range refs {
		if l, ok := GetListFetch(r, ref); ok {
			list = append(list, l)
		}
	}
	return list, next
}

// beginList is beginFire for a schedule that compares a list.
func (a *apply) beginList(h *heldSchedule, f *Fire) *job.Error {
	if f.Origin == ByBackfill {
		return job.Conflict("schedule", "compares a list (reconcile_url), which has no past times", h.ref.Name)
	}
	spec := a.specOf(h)
	l := &ListFetch{
		Namespace: h.ref.Namespace, Schedule: h.ref.Name, ID: job.NewID(a.now, a.at.Index, a.next()), Fire: f.Key(),
		URL: spec.ReconcileURL, Secret: spec.ReconcileSecret, Replay: spec.ReconcileReplay, Created: a.now, Due: a.now,
	}
	a.putListFetch(l)
	f.Verdict, f.Why, f.Late = VerdictFired, "", max(a.now-f.Due, 0)
	f.List = &ListOutcome{ID: l.ID, State: ListOwed, NextTry: l.Due}
	a.fireBegan(h, f, l.ID)
	return nil
}

func (a *apply) putListFetch(l *ListFetch) {
	l.Version++
	a.key = a.key.listFetch(l.Ref())
	a.set(a.key, mustEncode(a.codec, l))
	a.key = a.key.listFetchDue(l)
	a.set(a.key, nil)
	a.event(Event{Kind: EventListOwed, List: l})
}

// listFetched records a try. What failed is tried again, as long as
// job.ReconcileRetry says.
func (a *apply) listFetched(c *ListFetched) Result {
	if err := a.checkTerm(c.Term); err != nil {
		return rejected(err)
	}
	a.key = a.key.listFetch(c.Ref)
	old, ok := stored[ListFetch](a, a.key)
	switch {
	case !ok:
		return rejected(job.NotFound("list", c.Ref.ID.String()))
	case old.Version != c.Version:
		return rejected(stale("version", "is not the list's, "+strconv.FormatUint(old.Version, 10), strconv.FormatUint(c.Version, 10)))
	case len(c.Different) > MaxDifferences:
		return rejected(job.Invalid("different", "must be at most "+strconv.Itoa(MaxDifferences), strconv.Itoa(len(c.Different))))
	}
	a.key = a.key.listFetchDue(old)
	a.delete(a.key)
	l := *old
	l.Tries++
	out := &ListOutcome{
		ID: l.ID, State: ListOwed, Tries: l.Tries, Status: c.Status, Error: cut(c.Error), Counts: c.Counts, Different: c.Different,
	}
	for i := range out.Different {
		d := &out.Different[i]
		d.Key, d.Error = plain(d.Key, job.MaxIdempotencyKey), plain(d.Error, maxDifferenceError)
	}
	switch {
	case c.OK:
		out.State = ListCompared
	case l.Tries > job.ReconcileRetry.Max():
		out.State = ListFailed
	default:
		l.Due = a.now + job.ReconcileRetry.Delay(l.Tries, draw(l.ID, uint32(l.Version))).Milliseconds() //nolint:gosec // any number does
		out.NextTry = l.Due
		a.putListFetch(&l)
		a.keepOutcome(&l, out)
		return Result{Changed: true}
	}
	out.Ended = a.now
	a.key = a.key.listFetch(c.Ref)
	a.delete(a.key)
	a.keepOutcome(&l, out)
	a.fireMoved(l.schedule(), l.ID, true, out.State == ListCompared, out.State == ListFailed)
	return Result{Changed: true}
}

// keepOutcome notes with the fire what came of its list so far. The fire may be gone.
func (a *apply) keepOutcome(l *ListFetch, out *ListOutcome) {
	k := key{}.fires(l.schedule()).newest(l.Fire)
	f, ok := stored[Fire](a, k)
	if !ok || f.List == nil || f.List.ID != l.ID {
		return
	}
	now := *f
	now.List = out
	a.set(k, mustEncode(a.codec, &now))
}

// listFetch checks a list that is owed, and counts it under its schedule.
func (c *checker) listFetch(k, v []byte) {
	l, ok := record[ListFetch](c, k, v)
	if !ok {
		return
	}
	c.want(string(k) == string(key{}.listFetch(l.Ref())), "list %s: under the key %x", l.ID, k)
	c.want(c.has(key{}.listFetchDue(&l)), "list %s: owed without a due row", l.ID)
	c.want(l.Tries <= job.ReconcileRetry.Max(), "list %s: %d tries", l.ID, l.Tries)
	c.firedActive(l.schedule(), l.ID)
	b, ok := c.r.Get(key{}.fires(l.schedule()).newest(l.Fire))
	if !ok {
		return
	}
	if f, ok := record[Fire](c, k, append([]byte{}, b...)); ok {
		c.want(f.List != nil && f.List.ID == l.ID && f.List.State == ListOwed, "list %s: owed, and its fire says %+v", l.ID, f.List)
	}
}

func (c *checker) listFetchDue(k, _ []byte) {
	kr := readKey(k)
	target, due, id := kr.name(), kr.time(), kr.id()
	ref := TaskRef{Namespace: kr.name(), ID: id}
	c.want(kr.done(), "list due row %x: can't be read", k)
	l, ok := GetListFetch(c.r, ref)
	c.want(ok && l.Due == due && l.Target() == target, "list due row of %s to %s at %d: it is to %s, due %d", id, target, due, l.Target(), l.Due)
}
