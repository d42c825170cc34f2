package fsm

import (
	"fmt"
	"testing"

	"github.com/axd-project/axd/job"
)

// buryMany makes n dead letters with the errors e0 and e1 by turns.
func buryMany(e *scriptEnv, n int) {
	e.apply([]Command{RegisterWorker{Term: 1, Name: "w1", Boot: "b1", Slots: 1}})
	s := Submit{Namespace: "default"}
	for range n {
		s.Tasks = append(s.Tasks, job.TaskSpec{Executor: job.Executor{Handler: "h"}, Policy: job.Policy{Retry: &job.Retry{MaxRetries: new(0)}}})
	}
	e.apply([]Command{s})
	page, _ := ListTasks(e.tx, TaskFilter{Namespace: "default"}, "", MaxPage, e.now)
	assign := Assign{Term: 1}
	for _, t := range page.Tasks {
		assign.Items = append(assign.Items, AssignItem{Ref: t.Ref(), Version: t.Version, Worker: "w1", Boot: "b1"})
	}
	e.apply([]Command{assign})
	var ends []Command
	for i, t := range page.Tasks {
		t, _ = GetTask(e.tx, t.Ref())
		ends = append(ends, Finished{
			AttemptRef: AttemptRef{t.Ref(), t.Token},
			Result:     AttemptResult{Outcome: job.OutcomeFailed, Error: fmt.Sprintf("e%d", i%2)},
		})
	}
	e.apply(ends)
}

// An act on more dead letters than one entry may touch goes on from state, by
// whoever leads, and comes to its end.
func TestDeadActGoesOn(t *testing.T) {
	e := newScriptEnv()
	buryMany(e, 250)
	at := e.index
	e.apply([]Command{DeadLetters{Namespace: "default", Replay: true, Filter: DeadFilter{Error: "e1"}}})
	entries := 1
	for len(ListDeadActs(e.tx)) > 0 {
		if entries++; entries > 10 {
			t.Fatal("the act does not end")
		}
		e.m = NewMachine() // another server
		e.apply([]Command{ContinueDead{ID: ListDeadActs(e.tx)[0].ID}})
	}
	if n := CountTasks(e.tx, "")[job.Pending]; n != 125 || CountDead(e.tx, "", "") != 125 || entries != 2 {
		t.Errorf("%d pending, %d dead letters after %d entries (%d)", n, CountDead(e.tx, "", ""), entries, e.index-at)
	}
	if broken := Check(e.tx, 10); broken != nil {
		t.Error(broken)
	}
	// One that dies again after the act began is left alone by it.
	page, _ := ListTasks(e.tx, TaskFilter{Namespace: "default", State: job.ShownWaiting}, "", 1, e.now)
	e.now += 5
	task := page.Tasks[0]
	e.apply([]Command{Assign{Term: 1, Items: []AssignItem{{Ref: task.Ref(), Version: task.Version, Worker: "w1", Boot: "b1"}}}})
	act := DeadAct{ID: job.NewID(1, 2, 3), Namespace: "default", Filter: DeadFilter{To: e.now}}
	e.tx.Set(key{}.deadAct(act.ID), mustEncode(newCodec(), &act))
	task, _ = GetTask(e.tx, task.Ref())
	e.apply([]Command{Finished{AttemptRef: AttemptRef{task.Ref(), task.Token}, Result: AttemptResult{Outcome: job.OutcomeFailed, Error: "e1"}}})
	for range 3 {
		e.apply([]Command{ContinueDead{ID: act.ID}})
	}
	if task, _ = GetTask(e.tx, task.Ref()); !task.Dead || CountDead(e.tx, "", "") != 1 {
		t.Errorf("the newest is dead: %v, of %d", task.Dead, CountDead(e.tx, "", ""))
	}
}

// resultsOf applies an entry of commands.
func resultsOf(t *testing.T, e *scriptEnv, commands ...Command) []Result {
	t.Helper()
	e.index++
	return auditEntry(t, e.m, e.tx, e.index, e.now, commands...)
}

// An act tells how far it has come, also once it has ended or was cancelled.
func TestDeadActTellsItsProgress(t *testing.T) {
	e := newScriptEnv()
	buryMany(e, 250)
	begin := func(replay bool) DeadAct {
		r := resultsOf(t, e, DeadLetters{Namespace: "default", Replay: replay, Matched: 250})
		if !r[0].More || r[0].DeadAct == nil {
			t.Fatalf("it does not go on: %+v", r[0])
		}
		act, ok := GetDeadAct(e.tx, "default", r[0].DeadAct.ID)
		if !ok || act.Ended != 0 || act.Began != e.now || act.Left() != 250-int64(act.Done) || act.Done == 0 {
			t.Fatalf("%+v", act)
		}
		return act
	}
	act := begin(true)
	if _, ok := GetDeadAct(e.tx, "other", act.ID); ok {
		t.Error("another namespace sees it")
	}
	r := resultsOf(t, e, CancelDeadAct{Namespace: "other", ID: act.ID}, CancelDeadAct{Namespace: "default", ID: act.ID})
	if r[0].Err == nil || r[0].Err.Code != job.CodeNotFound || r[1].Err != nil || !r[1].DeadAct.Cancelled {
		t.Errorf("cancelled: %+v", r)
	}
	left := CountDead(e.tx, "", "")
	r = resultsOf(t, e, ContinueDead{ID: act.ID}, CancelDeadAct{Namespace: "default", ID: act.ID})
	if r[0].Err == nil || r[1].Err == nil || r[1].Err.Code != job.CodeConflict || CountDead(e.tx, "", "") != left {
		t.Errorf("a cancelled act goes on: %+v", r)
	}
	second := begin(false)
	for len(ListDeadActs(e.tx)) > 0 {
		e.apply([]Command{ContinueDead{ID: second.ID}})
	}
	acts := DeadActs(e.tx, "default")
	if len(acts) != 2 || acts[0].ID != second.ID || acts[0].Ended == 0 || acts[0].Left() != 0 || acts[0].Done != int(left) || acts[1].Left() == 0 {
		t.Errorf("%+v", acts)
	}
	// Of those that have ended the oldest go.
	for range maxDeadActsEnded + 5 {
		id := job.NewID(e.now, e.index, 7)
		e.tx.Set(key{}.deadAct(id), mustEncode(newCodec(), &DeadAct{ID: id, Namespace: "default"}))
		e.apply([]Command{CancelDeadAct{Namespace: "default", ID: id}})
	}
	if acts := DeadActs(e.tx, "default"); len(acts) != maxDeadActsEnded || acts[len(acts)-1].ID == act.ID {
		t.Errorf("%d are kept", len(acts))
	}
	if broken := Check(e.tx, 10); broken != nil {
		t.Error(broken)
	}
}

// Who replays what failed before a time leaves alone what has failed since.
func TestDeadLettersFromBefore(t *testing.T) {
	e := newScriptEnv()
	e.now += 1000
	buryMany(e, 1)
	page, _ := ListDead(e.tx, "default", DeadFilter{}, "", 1)
	one := page.Tasks[0]
	for _, before := range []int64{one.Ended, one.Ended + 1} {
		r := resultsOf(t, e, DeadLetters{Namespace: "default", Replay: true, IDs: []job.ID{one.ID}, Before: before})
		if done := r[0].Attempts[0] == nil; done != (one.Ended < before) {
			t.Errorf("ended at %d, before %d: %v", one.Ended, before, r[0].Attempts[0])
		}
	}
}

func TestDeadLettersAreChecked(t *testing.T) {
	e := newScriptEnv()
	r := e.apply([]Command{DeadLetters{Namespace: "default", IDs: make([]job.ID, MaxDeadIDs+1)}, DeadLetters{Namespace: "-"}, ContinueDead{}})
	want := "invalid: ids: must be at most 100 (got \"101\")\n"
	if len(r) < len(want) || r[:len(want)] != want {
		t.Errorf("got %s", r)
	}
}
