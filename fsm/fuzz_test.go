package fsm

import (
	"testing"

	"github.com/axd-project/axd/job"
)

func seedCommands(f *testing.F) {
	for _, c := range everyCommand() {
		b, err := EncodeCommand(c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{byte(CodeSubmit), 0xdd, 0xff, 0xff, 0xff, 0xff})
}

// FuzzDecodeCommand wants no panic, and that what is read can be written and
// read again.
func FuzzDecodeCommand(f *testing.F) {
	seedCommands(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := decodeCommand(newCodec(), b)
		if err != nil {
			return
		}
		again, err := EncodeCommand(c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeCommand(newCodec(), again); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzDecodeEntry wants no panic and commands that lie inside the entry.
func FuzzDecodeEntry(f *testing.F) {
	b, _ := EncodeEntry(Entry{At: 7, Commands: [][]byte{{1, 2}, {}, {3}}})
	f.Add(b)
	f.Add([]byte{0x81, 0xa1, 'c', 0xdd, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := DecodeEntry(b)
		size := 0
		for _, c := range e.Commands {
			size += len(c)
		}
		if err == nil && size > len(b) {
			t.Fatalf("%d bytes of commands in %d bytes", size, len(b))
		}
	})
}

func FuzzDecodeResult(f *testing.F) {
	b := EncodeResult(filled[Result]())
	f.Add(b)
	f.Fuzz(func(_ *testing.T, b []byte) { _, _ = DecodeResult(b) })
}

// FuzzApply applies any command to a state with something in each table: no
// panic, no broken invariant, and a refused command writes nothing of its own.
func FuzzApply(f *testing.F) {
	seedCommands(f)
	state, _, index := newState(f)
	list, _ := ListTasks(state, TaskFilter{}, "", 10, scriptStart)
	for _, t := range list.Tasks {
		ref := AttemptRef{t.Ref(), t.Token}
		for _, c := range []Command{
			Started{AttemptRef: ref}, Finished{AttemptRef: ref, Result: AttemptResult{Outcome: job.OutcomeFailed}},
			GiveBack{Attempts: []AttemptRef{ref}}, LoseAttempts{Term: 1, Attempts: []AttemptRef{ref}, Outcome: job.OutcomeLost},
			Cancel{Ref: t.Ref()}, Reschedule{Ref: t.Ref(), Now: true}, Expire{EndedBefore: 1 << 62}, ForgetWorker{Name: "w1"},
			Assign{Term: 1, Items: []AssignItem{{Ref: t.Ref(), Version: t.Version, Worker: "w1", Boot: "b1"}}},
		} {
			if by, err := SentBy("ann", "10.0.0.1", c); err == nil {
				c = by
			}
			b, _ := EncodeCommand(c)
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		entry, err := EncodeEntry(Entry{At: scriptStart, Commands: [][]byte{b}})
		if err != nil {
			t.Fatal(err)
		}
		tx := state.clone()
		results, _, err := NewMachine().Apply(tx, Meta{Index: index + 1, Term: 1}, entry)
		if err != nil {
			return
		}
		if len(results) != 1 {
			t.Fatalf("%d results of one command", len(results))
		}
		if broken := Check(tx, 10); broken != nil {
			t.Fatalf("%q", broken)
		}
		if _, err := DecodeResult(EncodeResult(results[0])); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzCursor(f *testing.F) {
	state, _, _ := newState(f)
	f.Add("default", "scheduled", "mail", "", "AQYB")
	f.Add("default", "success", "", "w1", "AQcA")
	f.Fuzz(func(_ *testing.T, namespace, shown, name, worker, cursor string) {
		filter := TaskFilter{Namespace: namespace, State: job.Shown(shown), Job: name, Worker: worker}
		_, _ = ListTasks(state, filter, cursor, 10, scriptStart)
		_, _, _ = ListJobs(state, namespace, cursor, 10)
		_, _, _ = ListWorkers(state, cursor, 10)
	})
}
