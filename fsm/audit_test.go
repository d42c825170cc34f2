package fsm

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/axd-project/axd/job"
)

func auditEntry(t *testing.T, m *Machine, tx Tx, index uint64, at int64, commands ...Command) []Result {
	t.Helper()
	e := Entry{At: at}
	for _, c := range commands {
		b, err := EncodeCommand(c)
		if err != nil {
			t.Fatal(err)
		}
		e.Commands = append(e.Commands, b)
	}
	b, err := EncodeEntry(e)
	if err != nil {
		t.Fatal(err)
	}
	results, _, err := m.Apply(tx, Meta{Index: index, Term: 1}, b)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// TestAuditKeepsNoMoreThanItMay: the oldest records go when there are more than
// MaxAudit, however young they are.
func TestAuditKeepsNoMoreThanItMay(t *testing.T) {
	tx, m := newMemTx(), NewMachine()
	for i := range 10 {
		auditEntry(t, m, tx, uint64(i+1), scriptStart+int64(i), PutJob{Namespace: "default", Name: fmt.Sprintf("j%d", i), Spec: job.Spec{Executor: job.Executor{Handler: "h"}}})
	}
	counter := key{}.counter(countAudit)
	tx.Set(counter, binary.BigEndian.AppendUint64(nil, MaxAudit+3))
	r := auditEntry(t, NewMachine(), tx, 11, scriptStart+10, Expire{EndedBefore: 1})[0]
	page, err := ListAudit(tx, AuditFilter{}, "", 0)
	if err != nil || r.Deleted != 3 || len(page.Records) != 7 || page.Records[6].Names[0] != "j3" || CountAudit(tx) != MaxAudit {
		t.Errorf("deleted %d, left %+v, counted %d, %v", r.Deleted, page.Records, CountAudit(tx), err)
	}
	tx.Set(counter, binary.BigEndian.AppendUint64(nil, 7))
	if broken := Check(tx, 10); broken != nil {
		t.Errorf("%q", broken)
	}
}

// TestAuditOfAnActOnMany: one record names those that the act did something to.
func TestAuditOfAnActOnMany(t *testing.T) {
	tx, m := newMemTx(), NewMachine()
	none := 0
	spec := job.TaskSpec{Executor: job.Executor{Handler: "h"}, Policy: job.Policy{Retry: &job.Retry{MaxRetries: &none}, QueueTimeout: new(job.Duration(1e6))}}
	res := auditEntry(t, m, tx, 1, scriptStart, Submit{Namespace: "default", Tasks: []job.TaskSpec{spec, spec}})[0]
	var dead []job.ID
	late := TimeOut{Term: 1}
	for _, s := range res.Tasks {
		dead = append(dead, s.ID)
		late.Tasks = append(late.Tasks, TaskVersion{TaskRef{"default", s.ID}, s.Task.Version})
	}
	auditEntry(t, m, tx, 2, scriptStart+10, late)
	by, err := SentBy("ann", "", DeadLetters{Namespace: "default", Replay: true, IDs: []job.ID{dead[0], job.NewID(1, 1, 1)}})
	if err != nil {
		t.Fatal(err)
	}
	res = auditEntry(t, m, tx, 3, scriptStart+20, by, DeadLetters{Namespace: "default"})[0]
	if res.Attempts[0] != nil || res.Attempts[1] == nil {
		t.Fatalf("%+v", res)
	}
	page, err := ListAudit(tx, AuditFilter{Kind: "dead_letter"}, "", 0)
	if err != nil || len(page.Records) != 2 {
		t.Fatalf("%+v, %v", page, err)
	}
	if r := page.Records[1]; r.Verb != "replay" || r.Actor != "ann" || len(r.Names) != 1 || r.Names[0] != dead[0].String() {
		t.Errorf("by name: %+v", r)
	}
	if r := page.Records[0]; r.Verb != "discard" || len(r.Names) != 0 || r.Detail != "all, 1 done" {
		t.Errorf("by a filter: %+v", r)
	}
	if broken := Check(tx, 10); broken != nil {
		t.Errorf("%q", broken)
	}
}

// TestTheHotPathIsNotRecorded: submit, assign, started and finished are no acts.
func TestTheHotPathIsNotRecorded(t *testing.T) {
	for _, c := range []Command{&Submit{}, &SubmitNow{}, &Assign{}, &Started{}, &Finished{}, &GiveBack{}, &LoseAttempts{}, &TimeOut{}, &Expire{}, &CallbackTried{}} {
		if _, ok := c.(Acting); ok {
			t.Errorf("%T is recorded", c)
		}
	}
}

// What a list may ask for are the kinds and verbs of all acts.
func TestAuditVerbs(t *testing.T) {
	commands := []Command{
		&PauseSchedule{Resume: true}, &PauseJob{Resume: true}, &DrainWorker{Resume: true}, &DeadLetters{Replay: true}, &Configure{Settings: &job.Settings{}},
	}
	for code := range Code(255) {
		if c := newCommand(code); c != nil {
			commands = append(commands, c)
		}
	}
	seen := map[string]bool{}
	for _, c := range commands {
		act, ok := c.(Acting)
		if !ok || act.Act().Verb == "" {
			continue
		}
		a := act.Act()
		seen[a.Kind+" "+a.Verb] = true
		if !slices.Contains(AuditVerbs[a.Kind], a.Verb) {
			t.Errorf("%T: the act %s %s is not listed", c, a.Verb, a.Kind)
		}
	}
	for kind, verbs := range AuditVerbs {
		for _, verb := range verbs {
			if !seen[kind+" "+verb] {
				t.Errorf("nothing acts so: %s %s", verb, kind)
			}
		}
	}
}

func FuzzPlain(f *testing.F) {
	f.Add("ann\x00", 3)
	f.Add("é\xff\u0085", 2)
	f.Fuzz(func(t *testing.T, s string, most int) {
		most = 1 + most&255
		got := plain(s, most)
		if len(got) > most || strings.ContainsAny(got, "\x00\n") || !utf8.ValidString(got) {
			t.Errorf("%q of at most %d: %q", s, most, got)
		}
	})
}

// A command that this build doesn't know stops it also inside a By: were it refused
// instead, a server that knows it would come to another state.
func TestUnknownCommandInsideAByStops(t *testing.T) {
	by, err := EncodeCommand(By{Actor: "ann", Command: []byte{0xfe, 0x80}})
	if err != nil {
		t.Fatal(err)
	}
	entry, err := EncodeEntry(Entry{At: scriptStart, Commands: [][]byte{by}})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = NewMachine().Apply(newMemTx(), Meta{Index: 1, Term: 1}, entry)
	if err == nil || !strings.Contains(err.Error(), "it needs a newer axd") {
		t.Errorf("%v", err)
	}
}
