package fsm

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/axd-project/axd/job"
)

// walk is a random life of the state machine that follows from its seed alone: entries
// of random commands of every code there is, mostly such as make sense by the state as
// it is. To add a command, add a line to one of the tables of draws.
type walk struct {
	t     *testing.T
	seed  uint64
	rng   *rand.Rand
	tx    *memTx
	m     *Machine
	index uint64
	term  uint64
	now   int64
	log   []logged
	trace xxhash.Digest // of all results and states

	tasks   []Task // as of entry tasksAt
	tasksAt uint64
	old     []AttemptRef // attempts that there were
	tokens  map[TaskRef]job.Token
	ended   map[TaskRef]job.State
	again   bool // dead letters may have begun again since watch looked
	tried   map[Code]int
	done    map[Code]int // not refused
}

// verbDraw makes a command; nil: none of the kind makes sense now.
type verbDraw struct {
	code   Code
	weight int
	make   func(*walk) Command
}

func allDraws() []verbDraw {
	return slices.Concat(taskDraws, workerDraws, deadDraws, definitionDraws, scheduleDraws, runDraws)
}

func newWalk(t *testing.T, seed uint64) *walk {
	w := &walk{
		t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 0)), tx: newMemTx(), m: NewMachine(), term: 1, now: scriptStart,
		tokens: map[TaskRef]job.Token{}, ended: map[TaskRef]job.State{}, tried: map[Code]int{}, done: map[Code]int{},
	}
	w.trace.Reset()
	return w
}

func (w *walk) fatalf(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("entry %d: %s\nrun it again: AXD_MODEL_SEED=%d go test ./fsm -run '^TestWalk$' -v", w.index, fmt.Sprintf(format, args...), w.seed)
}

func (w *walk) chance(percent int) bool { return w.rng.IntN(100) < percent }

func one[T any](w *walk, of ...T) T { return of[w.rng.IntN(len(of))] }

// some draws one that satisfies; false: there is none.
func some[T any](w *walk, of []T, holds func(*T) bool) (T, bool) {
	var fit []T
	for i := range of {
		if holds(&of[i]) {
			fit = append(fit, of[i])
		}
	}
	if len(fit) == 0 {
		var zero T
		return zero, false
	}
	return one(w, fit...), true
}

func every[T any](*T) bool { return true }

// rows reads a table.
func rows[T any](w *walk, table byte) []T {
	var all []T
	c := newCodec()
	w.tx.Ascend([]byte{table}, tableEnd(table), func(k, v []byte) bool {
		var row T
		mustDecode(c, k, v, &row)
		all = append(all, row)
		return true
	})
	return all
}

// allTasks reads the tasks, once for all commands of an entry.
func (w *walk) allTasks() []Task {
	if w.tasksAt != w.index {
		w.tasks, w.tasksAt = rows[Task](w, tableTasks), w.index
	}
	return w.tasks
}

// leads is the term that a leader's command carries, now and then an old one.
func (w *walk) leads() uint64 {
	if w.chance(4) {
		return w.term - 1
	}
	return w.term
}

var (
	walkSteps = []int64{0, 0, 1, 300, 700, 2000, 5000, 60_000, -200}
	walkLeaps = []int64{3_600_000, 26 * 3_600_000, 8 * 24 * 3_600_000, 100 * 24 * 3_600_000}
)

// live applies so many entries.
func (w *walk) live(entries int, draws []verbDraw) {
	total := 0
	for _, d := range draws {
		total += d.weight
	}
	for range entries {
		w.now += one(w, walkSteps...)
		if w.chance(1) {
			w.now += one(w, walkLeaps...)
		}
		if w.chance(5) {
			w.term++
		}
		if w.chance(5) {
			w.m = NewMachine()
		}
		var commands []Command
		for n := 1 + w.rng.IntN(3); len(commands) < n; {
			at := w.rng.IntN(total)
			for _, d := range draws {
				if at -= d.weight; at < 0 {
					if c := d.make(w); c != nil {
						commands = append(commands, c)
					} else {
						n-- // as state is, there is none
					}
					break
				}
			}
		}
		w.entry(commands)
		if w.index%5 == 0 {
			w.watch()
		}
	}
}

// entry applies commands, some of them sent by somebody.
func (w *walk) entry(commands []Command) {
	w.t.Helper()
	e := Entry{At: w.now}
	for i, c := range commands {
		w.again = w.again || c.Code() == CodeDeadLetters || c.Code() == CodeContinueDead
		if w.chance(20) {
			by, err := SentBy(one(w, "ann", "bob\x00", "ops/ci"), one(w, "", "10.0.0.1"), c)
			if err != nil {
				w.fatalf("%v", err)
			}
			commands[i] = by
		}
		b, err := EncodeCommand(commands[i])
		if err != nil {
			w.fatalf("%T: %v", c, err)
		}
		e.Commands = append(e.Commands, b)
	}
	b, err := EncodeEntry(e)
	if err != nil {
		w.fatalf("%v", err)
	}
	w.index++
	meta := Meta{Index: w.index, Term: w.term}
	w.log = append(w.log, logged{meta, b})
	results, events, err := w.m.Apply(w.tx, meta, b)
	if err != nil {
		w.fatalf("%v", err)
	}
	for i, c := range commands {
		w.tally(c, &results[i])
		_, _ = w.trace.Write(EncodeResult(results[i]))
	}
	_, _ = fmt.Fprintf(&w.trace, "%d %d %x", len(events), w.now, ReadInfo(w.tx).Chain)
}

// tally counts what is drawn and what of it does something.
func (w *walk) tally(c Command, r *Result) {
	codes := []Code{c.Code()}
	if by, ok := c.(By); ok {
		codes = append(codes, Code(by.Command[0]))
	}
	for _, code := range codes {
		w.tried[code]++
		if took(r) {
			w.done[code]++
		}
	}
}

// took tells whether a command, or a part of it, was not refused.
func took(r *Result) bool {
	parts := false
	for _, s := range r.Tasks {
		if parts = true; s.Err == nil {
			return true
		}
	}
	for _, a := range r.Assigned {
		if parts = true; a.Err == nil {
			return true
		}
	}
	for _, err := range r.Attempts {
		if parts = true; err == nil {
			return true
		}
	}
	return r.Err == nil && !parts
}

// watch keeps what no single state shows: the tokens of a task rise, and how a task
// has ended stays, unless it begins again.
func (w *walk) watch() {
	w.t.Helper()
	for _, t := range w.allTasks() {
		ref := t.Ref()
		last := w.tokens[ref]
		switch {
		case t.LastToken.Compare(last) < 0:
			w.fatalf("task %s had token %v, now the last is %v", t.ID, last, t.LastToken)
		case t.Token != (job.Token{}) && t.Token != last:
			w.old = append(w.old, AttemptRef{ref, t.Token})
			if t.Token.Compare(last) <= 0 {
				w.fatalf("task %s got token %v after %v", t.ID, t.Token, last)
			}
		}
		w.tokens[ref] = t.LastToken
		if was, ok := w.ended[ref]; ok && t.State.Terminal() && was != t.State && t.Run.IsZero() && !w.again {
			w.fatalf("task %s was %v and is %v", t.ID, was, t.State)
		}
		delete(w.ended, ref)
		if t.State.Terminal() {
			w.ended[ref] = t.State
		}
	}
	w.again = false
}

// check wants every invariant to hold.
func (w *walk) check() {
	w.t.Helper()
	if broken := Check(w.tx, 10); broken != nil {
		w.fatalf("%q", broken)
	}
}

// same wants another state to be this one.
func (w *walk) same(how string, other *memTx) {
	w.t.Helper()
	if got, want := ReadInfo(other).Chain, ReadInfo(w.tx).Chain; got != want {
		w.fatalf("%s: hash chain %x, want %x", how, got, want)
	}
	if got, want := StateHash(other), StateHash(w.tx); got != want {
		w.fatalf("%s: state hash %x, want %x", how, got, want)
	}
}

// replay applies the log from an entry on to a state, with a machine that now and then
// has forgotten everything.
func (w *walk) replay(tx *memTx, from int, forgets int) *memTx {
	m := NewMachine()
	for _, e := range w.log[from:] {
		if w.chance(forgets) {
			m = NewMachine()
		}
		mustApply(w.t, m, tx, e)
	}
	return tx
}

// snapshot writes all rows of a state out, and reads them into a new one.
func snapshot(tx *memTx) *memTx {
	restored := newMemTx()
	tx.Ascend(nil, nil, func(k, v []byte) bool { restored.Set(k, v); return true })
	return restored
}

// flood leaves more dead letters than one command can replay.
func (w *walk) flood() {
	many := Submit{Namespace: "default"}
	for range 150 {
		many.Tasks = append(many.Tasks, job.TaskSpec{Executor: job.Executor{Handler: "h1"}, Policy: job.Policy{QueueTimeout: ms(1)}})
	}
	w.entry([]Command{many})
	w.now += 1000
	late := TimeOut{Term: w.term}
	for _, t := range w.allTasks() {
		if t.State == job.Pending && t.QueueBy != 0 {
			late.Tasks = append(late.Tasks, TaskVersion{t.Ref(), t.Version})
		}
	}
	w.entry([]Command{late})
	w.entry([]Command{DeadLetters{Namespace: "default", Replay: true}})
	w.check()
}

// stroll is a walk with a look at the state every so often, a snapshot on the way, and
// the comparison of all the ways to come to its end.
func stroll(t *testing.T, seed uint64, entries int) *walk {
	w := newWalk(t, seed)
	w.begin()
	draws := allDraws()
	const parts = 12
	var half *memTx
	at := 0
	for part := range parts {
		w.live(entries/parts, draws)
		w.check()
		if part == parts/4 {
			w.flood()
		}
		if part == parts/2 {
			half, at = snapshot(w.tx), len(w.log)
		}
	}
	w.same("from a snapshot", w.replay(half, at, 0))
	w.same("from the beginning", w.replay(newMemTx(), 0, 0))
	w.same("from the beginning with other caches", w.replay(newMemTx(), 0, 30))
	return w
}

// neverAccepted are commands that walks only draw to be refused: none has a task that is
// broadcast, a list that is fetched, a schedule that waits for others, or time to cancel
// an act on dead letters. Tests and models of their own have.
var neverAccepted = []Code{
	CodeBroadcast, CodeContinueBroadcast, CodeEndParts, CodeJudgeJoins, CodeEndJoins, CodeListFetched, CodeCancelDeadAct,
	CodeContinueSchedules, // seldom: few acts on schedules are left open
}

// TestWalk lives through the lives of fixed seeds, or that of AXD_MODEL_SEED, or as many
// random ones as AXD_MODEL_SEEDS says. A seed's life is always the same.
func TestWalk(t *testing.T) {
	seeds := make([]uint64, walkSeeds)
	for i := range seeds {
		seeds[i] = uint64(i + 1)
	}
	single, one := number(t, "AXD_MODEL_SEED")
	if one {
		seeds = []uint64{single}
	} else if many, ok := number(t, "AXD_MODEL_SEEDS"); ok {
		seeds = make([]uint64, many)
		for i := range seeds {
			seeds[i] = rand.Uint64()
		}
	}
	done := map[Code]int{}
	entries := 0
	for i, seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			w := stroll(t, seed, walkEntries)
			for code, n := range w.done {
				done[code] += n
			}
			entries += len(w.log)
			if i == 0 {
				again := stroll(t, seed, walkEntries)
				if a, b := w.trace.Sum64(), again.trace.Sum64(); a != b {
					t.Fatalf("seed %d lived two lives: %x and %x", seed, a, b)
				}
			}
		})
	}
	if one || !walkAll || t.Failed() {
		return
	}
	t.Logf("%d entries", entries)
	for _, code := range knownCodes() {
		if done[code] == 0 && !slices.Contains(neverAccepted, code) {
			t.Errorf("no %T was accepted in any walk: draw it so that it makes sense", newCommand(code))
		}
	}
}

// TestEveryCommandIsDrawn wants a line for each command.
func TestEveryCommandIsDrawn(t *testing.T) {
	drawn := map[Code]bool{CodeBy: true} // see entry
	for _, d := range allDraws() {
		drawn[d.code] = true
	}
	for _, code := range knownCodes() {
		if !drawn[code] {
			t.Errorf("no walk draws a %T, code %d: add a line to a table of draws in fsm/walk_*_test.go", newCommand(code), code)
		}
	}
}

func knownCodes() (codes []Code) {
	for code := range 256 {
		if newCommand(Code(code)) != nil {
			codes = append(codes, Code(code))
		}
	}
	return codes
}

func number(t *testing.T, name string) (uint64, bool) {
	text := os.Getenv(name)
	if text == "" {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s must be a number, is %q", name, text)
	}
	return n, true
}
