package fsm

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/axd-project/axd/job"
)

// DeadAct is an act on many dead letters that goes on, entry by entry, until it
// has come to their end. It is kept in state, so it outlives every leader; once it
// has ended, so that its outcome can be told.
type DeadAct struct {
	ID        job.ID     `msgpack:"i"`
	Namespace string     `msgpack:"n"`
	Replay    bool       `msgpack:"r,omitempty"` // else discard
	Filter    DeadFilter `msgpack:"f"`           // To is at the latest when it began: what dies again is left alone
	At        []byte     `msgpack:"a,omitempty"` // the last row that it looked at
	Done      int        `msgpack:"d,omitempty"`
	Refused   int        `msgpack:"x,omitempty"`

	Matched   int64  `msgpack:"m,omitempty"` // as counted just before it began
	AtLeast   bool   `msgpack:"l,omitempty"` // counting stopped there
	Began     int64  `msgpack:"b,omitempty"` // Unix ms
	Ended     int64  `msgpack:"e,omitempty"` // 0: it goes on
	Cancelled bool   `msgpack:"c,omitempty"` // before it had come to the end
	Actor     string `msgpack:"A,omitempty"`
}

// The limits of acts on dead letters.
const (
	maxDeadActs      = 16  // that go on at a time
	maxDeadActsEnded = 100 // that are kept, of all namespaces
)

// CodeCancelDeadAct is the code of CancelDeadAct.
const CodeCancelDeadAct Code = 117

// CancelDeadAct ends an act that goes on; what it has done stays done.
type CancelDeadAct struct {
	Namespace string `msgpack:"n"`
	ID        job.ID `msgpack:"i"`
}

// Code implements Command.
func (CancelDeadAct) Code() Code { return CodeCancelDeadAct }

// Act implements Acting.
func (c CancelDeadAct) Act() Act {
	return Act{Verb: "cancel_act", Kind: "dead_letter", Namespace: c.Namespace, Detail: c.ID.String()}
}

// newDeadCommand is newCommand for the commands about dead letters.
func newDeadCommand(code Code) Command {
	switch code {
	case CodeDeadLetters:
		return &DeadLetters{}
	case CodeContinueDead:
		return &ContinueDead{}
	case CodeCancelDeadAct:
		return &CancelDeadAct{}
	}
	return nil
}

func (k key) deadActEnded(act *DeadAct) key {
	return k.table(tableDeadActsEnded).time(act.Ended).id(act.ID)
}

// Left is how many of those that it matched it has yet to look at, as far as they were
// counted.
func (act *DeadAct) Left() int64 {
	if act.Ended != 0 && !act.Cancelled {
		return 0
	}
	return max(act.Matched-int64(act.Done)-int64(act.Refused), 0)
}

// ListDeadActs reads the acts that go on; there are few.
func ListDeadActs(r Reader) []DeadAct {
	acts, _, _ := listRows[DeadAct](r, key{tableDeadActs}, "", maxDeadActs)
	return acts
}

// DeadActs reads the acts of a namespace that go on, and those that have ended lately,
// the newest first.
func DeadActs(r Reader, namespace string) []DeadAct {
	ended, _, _ := listRows[DeadAct](r, key{tableDeadActsEnded}, "", maxDeadActsEnded)
	all := append(ListDeadActs(r), ended...)
	all = slices.DeleteFunc(all, func(act DeadAct) bool { return act.Namespace != namespace })
	slices.SortFunc(all, func(x, y DeadAct) int { return bytes.Compare(y.ID[:], x.ID[:]) })
	return all
}

// GetDeadAct reads one of DeadActs.
func GetDeadAct(r Reader, namespace string, id job.ID) (DeadAct, bool) {
	acts := DeadActs(r, namespace)
	if i := slices.IndexFunc(acts, func(act DeadAct) bool { return act.ID == id }); i >= 0 {
		return acts[i], true
	}
	return DeadAct{}, false
}

// beginDead begins an act on those that match.
func (a *apply) beginDead(c *DeadLetters) Result {
	act := DeadAct{
		ID: job.NewID(a.now, a.at.Index, a.next()), Namespace: c.Namespace, Replay: c.Replay, Filter: c.Filter, Began: a.now,
		Matched: max(c.Matched, 0), AtLeast: c.AtLeast, Actor: plain(a.actor, MaxActorBytes),
	}
	if to := act.Filter.To; to == 0 || to > a.now+1 {
		act.Filter.To = a.now + 1
	}
	if len(ListDeadActs(a.tx)) >= maxDeadActs {
		return rejected(job.Conflict("dead-letters", strconv.Itoa(maxDeadActs)+" acts go on: wait for one to end", c.Namespace))
	}
	return a.goOn(&act)
}

// continueDead goes on with an act; the leader asks for it.
func (a *apply) continueDead(c *ContinueDead) Result {
	a.key = a.key.deadAct(c.ID)
	act, ok := stored[DeadAct](a, a.key)
	if !ok {
		return rejected(job.NotFound("act", c.ID.String()))
	}
	return a.goOn(act)
}

// goOn does a part of an act. What is left is kept, and the leader goes on with it.
func (a *apply) goOn(act *DeadAct) Result {
	span, prefix := deadSpan(act.Namespace, &act.Filter)
	if act.At != nil {
		span.lo = append(act.At, 0)
	}
	keys := deadKeys(a.tx, span, maxFanOut)
	budget := maxFanOut - 1
	before, more := *act, len(keys) == maxFanOut
	for _, k := range keys {
		if budget < maxDeadRows {
			more = true
			break
		}
		act.At = k
		t, err := a.dead(TaskRef{Namespace: act.Namespace, ID: job.ID(k[prefix+8:])})
		if err != nil {
			panic("fsm: the state is damaged: " + err.Error())
		}
		if !strings.Contains(t.Error, act.Filter.Error) {
			continue
		}
		budget -= maxDeadRows
		if a.actOnDead(t, act.Replay) != nil {
			act.Refused++
		} else {
			act.Done++
		}
	}
	switch {
	case more:
		a.key = a.key.deadAct(act.ID)
		a.set(a.key, mustEncode(a.codec, act))
	case before.At != nil:
		a.endDeadAct(act)
	}
	return Result{
		Changed: more || act.Done > before.Done, Deleted: act.Done - before.Done, Refused: act.Refused - before.Refused, More: more, DeadAct: act,
	}
}

// endDeadAct moves an act to those that have ended, of which the oldest go.
func (a *apply) endDeadAct(act *DeadAct) {
	a.key = a.key.deadAct(act.ID)
	a.delete(a.key)
	act.Ended, act.At = a.now, nil
	kept := deadKeys(a.tx, keyRange{lo: []byte{tableDeadActsEnded}, hi: tableEnd(tableDeadActsEnded)}, maxDeadActsEnded)
	if len(kept) == maxDeadActsEnded {
		a.delete(kept[0])
	}
	a.key = a.key.deadActEnded(act)
	a.set(a.key, mustEncode(a.codec, act))
}

func (a *apply) cancelDeadAct(c *CancelDeadAct) Result {
	a.key = a.key.deadAct(c.ID)
	act, ok := stored[DeadAct](a, a.key)
	if !ok || act.Namespace != c.Namespace {
		if _, ended := GetDeadAct(a.tx, c.Namespace, c.ID); ended {
			return rejected(job.Conflict("act", "has ended", c.ID.String()))
		}
		return rejected(job.NotFound("act", c.ID.String()))
	}
	act.Cancelled = true
	a.endDeadAct(act)
	return Result{Changed: true, DeadAct: act}
}

func (c *checker) deadAct(k, v []byte) {
	if act, ok := record[DeadAct](c, k, v); ok {
		c.want(string(k) == string(key{}.deadAct(act.ID)) && act.Ended == 0, "act %s on dead letters: under the key %x, ended %d", act.ID, k, act.Ended)
	}
}

func (c *checker) deadActEnded(k, v []byte) {
	if act, ok := record[DeadAct](c, k, v); ok {
		c.want(string(k) == string(key{}.deadActEnded(&act)) && act.Ended != 0, "act %s on dead letters that has ended: under the key %x", act.ID, k)
		c.want(!c.has(key{}.deadAct(act.ID)), "act %s on dead letters: has ended and goes on", act.ID)
	}
}
