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

func TestDeadLettersAreChecked(t *testing.T) {
	e := newScriptEnv()
	r := e.apply([]Command{DeadLetters{Namespace: "default", IDs: make([]job.ID, MaxDeadIDs+1)}, DeadLetters{Namespace: "-"}, ContinueDead{}})
	want := "invalid: ids: must be at most 100 (got \"101\")\n"
	if len(r) < len(want) || r[:len(want)] != want {
		t.Errorf("got %s", r)
	}
}
