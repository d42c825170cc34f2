package chaos

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/store"
)

// withWorkers is a state that knows two workers, of which the second drains since 2 s.
func withWorkers(t *testing.T) fsm.Reader {
	m, state := fsm.NewMachine(), store.NewMemory()
	for i, c := range []fsm.Command{
		fsm.RegisterWorker{Term: 1, Name: "w1", Boot: "b"}, fsm.RegisterWorker{Term: 1, Name: "w2", Boot: "b"}, fsm.DrainWorker{Name: "w2"},
	} {
		command, err := fsm.EncodeCommand(c)
		if err != nil {
			t.Fatal(err)
		}
		data, err := fsm.EncodeEntry(fsm.Entry{At: at(2000).UnixMilli(), Commands: [][]byte{command}})
		if err != nil {
			t.Fatal(err)
		}
		b := state.Batch()
		if _, _, err := m.Apply(b, fsm.Meta{Index: uint64(i + 1), Term: 1}, data); err != nil {
			t.Fatal(err)
		}
		b.Commit()
	}
	v := state.View()
	t.Cleanup(v.Close)
	return v
}

// story tells of a broadcast and its parts, a change after the other.
type story struct {
	view  fsm.Reader
	tasks map[string]fsm.Task
}

func newStory(view fsm.Reader) *story {
	whole := fsm.Task{ID: job.NewID(1, 1, 0), State: job.Pending, Extra: &fsm.Extra{Broadcast: &fsm.Parts{}}}
	return &story{view: view, tasks: map[string]fsm.Task{"": whole}}
}

// becomes is what makes something of the part for a worker, or of the broadcast itself.
func (s *story) becomes(worker string, state job.State, more ...func(*fsm.Task)) change {
	was, is := s.tasks[worker], s.tasks[worker]
	if is.ID.IsZero() {
		is.ID, is.Extra = job.NewID(1, 2, uint32(len(s.tasks))), &fsm.Extra{Parent: s.tasks[""].ID, Bound: worker}
	}
	is.State = state
	for _, m := range more {
		m(&is)
	}
	s.tasks[worker] = is
	return change{index: 7, at: at(9000).UnixMilli(), wrote: at(9000), view: s.view, was: was, is: is}
}

// decided has the broadcast go to workers.
func (s *story) decided(ms int64, workers ...string) []change {
	entry := []change{s.becomes("", job.Blocked, func(t *fsm.Task) { t.Started = at(ms).UnixMilli() })}
	for _, w := range workers {
		entry = append(entry, s.becomes(w, job.Pending))
	}
	return entry
}

// together has parts end, and the broadcast with them.
func (s *story) together(whole job.State, parts map[string]job.State, more ...func(*fsm.Task)) []change {
	entry := []change{s.becomes("", whole, more...)}
	for w, state := range parts {
		entry = append(entry, s.becomes(w, state))
	}
	return entry
}

func TestChecksFindBrokenBroadcasts(t *testing.T) {
	v := withWorkers(t)
	ends := func(w1, w2 job.State) map[string]job.State { return map[string]job.State{"w1": w1, "w2": w2} }
	asked := func(t *fsm.Task) { t.CancelRequested = true }
	both := func(s *story) [][]change { return [][]change{s.decided(1, "w1", "w2")} }
	replayed := func(s *story) [][]change { // after it has failed at w1
		return append(both(s), s.together(job.Failed, ends(job.Failed, job.Success)), []change{s.becomes("", job.Pending)})
	}
	for name, tt := range map[string]struct {
		tell func(s *story) [][]change
		want string
	}{
		"all succeed": {func(s *story) [][]change {
			return append(both(s), s.together(job.Success, ends(job.Success, job.Success)))
		}, ""},
		"one fails": {func(s *story) [][]change {
			return append(both(s), []change{s.becomes("w1", job.Failed)}, s.together(job.Failed, ends(job.Failed, job.Success)))
		}, ""},
		"one takes too long": {func(s *story) [][]change {
			return append(both(s), s.together(job.Failed, ends(job.TimedOut, job.Cancelled)))
		}, ""},
		"a part is cancelled": {func(s *story) [][]change {
			return append(both(s), s.together(job.Cancelled, ends(job.Success, job.Cancelled)))
		}, ""},
		"it is cancelled beside a failure": {func(s *story) [][]change {
			return append(both(s), s.together(job.Cancelled, ends(job.Failed, job.Cancelled), asked))
		}, ""},
		"it is cancelled too late": {func(s *story) [][]change {
			return append(both(s), s.together(job.Success, ends(job.Success, job.Success), asked))
		}, ""},
		"it is cancelled before": {func(s *story) [][]change { return [][]change{{s.becomes("", job.Cancelled, asked)}} }, ""},
		"it waits for too long": {func(s *story) [][]change {
			return [][]change{{s.becomes("", job.TimedOut, func(t *fsm.Task) { t.Job = hastyJob })}}
		}, ""},
		"it ends without parts": {func(s *story) [][]change { return [][]change{{s.becomes("", job.Success)}} }, "as success, whose parts are []"},
		"it fails although all are well": {func(s *story) [][]change {
			return append(both(s), s.together(job.Failed, ends(job.Success, job.Success)))
		}, "as failed, whose parts are"},
		"it succeeds although one is not": {func(s *story) [][]change {
			return append(both(s), s.together(job.Success, ends(job.Success, job.Cancelled)))
		}, "as success, whose parts are"},
		"it ends before the last": {func(s *story) [][]change {
			return append(both(s), s.together(job.Failed, ends(job.Failed, job.Running)))
		}, "as failed, whose parts are"},
		"it does not end with the last": {func(s *story) [][]change {
			return append(both(s), s.together(job.Blocked, ends(job.Success, job.Success)))
		}, "blocked, whose parts are"},
		"a worker without part": {func(s *story) [][]change { return [][]change{s.decided(1, "w2")} }, "gives worker w1 no part"},
		"who drains":            {func(s *story) [][]change { return [][]change{s.decided(1, "w1")} }, ""},
		"who drains gets one long after": {func(s *story) [][]change {
			entry := s.decided(1, "w1", "w2")
			entry[0].at += commitTime.Milliseconds()
			return [][]change{entry}
		}, "takes no work since"},
		"nobody knows who gets one": {func(s *story) [][]change { return [][]change{s.decided(1, "w1", "w3")} }, "takes no work since"},
		"a route that leaves one out": {func(s *story) [][]change {
			entry := s.decided(1, "w2")
			entry[0].is.Policy.Route = &job.Route{Require: []string{otherThan("w1")}}
			return [][]change{entry}
		}, ""},
		"who is left out gets one": {func(s *story) [][]change {
			entry := s.decided(1, "w1")
			entry[0].is.Policy.Route = &job.Route{Require: []string{otherThan("w1")}}
			return [][]change{entry}
		}, "whose route excludes it"},
		"two for a worker": {func(s *story) [][]change {
			again := s.becomes("w1", job.Pending)
			again.is.ID = job.NewID(3, 3, 3)
			return append(both(s), []change{again})
		}, "whose part is"},
		"a replay where it has failed": {func(s *story) [][]change {
			return append(replayed(s), s.decided(2, "w1"), s.together(job.Success, map[string]job.State{"w1": job.Success}))
		}, ""},
		"a replay while who has succeeded is away": {func(s *story) [][]change {
			first, later := replayed(s), s.decided(2, "w1")
			later[0].at += commitTime.Milliseconds()
			return append(first, later)
		}, ""},
		"a replay where it has succeeded": {func(s *story) [][]change {
			return append(replayed(s), s.decided(2, "w1", "w2"))
		}, "again, which had succeeded"},
		"a replay that leaves one out": {func(s *story) [][]change {
			return append(replayed(s), s.decided(2))
		}, "gives worker w1 no part"},
	} {
		c := newCheck(History{Plan: Plan{Workers: 3}, Troubles: []Trouble{{From: at(-90_000), Until: at(-60_000)}}}, Limits{})
		w := newPartWatch(c)
		for _, entry := range tt.tell(newStory(v)) {
			slices.Reverse(entry) // in an entry the order says nothing
			w.see(entry)
		}
		if found := strings.Join(c.found, "\n"); !strings.Contains(found, tt.want) || tt.want == "" && found != "" {
			t.Errorf("a broadcast of which %s: found %q", name, found)
		}
	}
}

// Where something was wrong a worker may have been away.
func TestAWorkerBesideAFaultNeedsNoPart(t *testing.T) {
	c := newCheck(History{Plan: Plan{Workers: 2}, Troubles: []Trouble{{WorkerCut, at(0), at(8000)}}}, Limits{})
	newPartWatch(c).see(newStory(withWorkers(t)).decided(1, "w2"))
	if len(c.found) > 0 {
		t.Error(c.found)
	}
}

// What a replay runs again is its broadcast's, else nobody may.
func TestChecksKnowPartsThatRunAgain(t *testing.T) {
	for _, revived := range []bool{true, false} {
		s := newStory(nil)
		s.becomes("w1", job.Failed)
		again := s.becomes("w1", job.Pending, func(t *fsm.Task) { t.Version = 5 })
		again.codes = []fsm.Code{fsm.CodeBroadcast}
		c := newCheck(History{}, Limits{})
		c.revived[s.tasks[""].ID.String()] = revived
		(&stepWatch{c}).see([]change{again})
		if found := len(c.found) > 0; found == revived {
			t.Errorf("its broadcast was replayed: %v; found %q", revived, c.found)
		}
	}
}

// everywhere is a broadcast that was due at 1000 and has run at one worker.
func everywhere() (h History, whole, part string) {
	h, part = one()
	b := fsm.Task{Namespace: job.DefaultNamespace, ID: job.NewID(1, 2, 4), State: job.Success, Due: at(1000).UnixMilli(), Extra: &fsm.Extra{Broadcast: &fsm.Parts{}}}
	whole = b.ID.String()
	for _, d := range h.Dumps {
		p := d.Tasks[part]
		p.Job, p.IdempotencyKey, p.Extra = plainJob, "", &fsm.Extra{Parent: b.ID, Bound: "w1"}
		d.Tasks[part], d.Tasks[whole] = p, b
		d.Counts[job.Success]++
	}
	h.Attempts[0].Job = plainJob
	for i := range h.Calls {
		h.Calls[i].Task = whole
	}
	return h, whole, part
}

func TestChecksFindBrokenParts(t *testing.T) {
	change := func(h *History, id string, how func(*fsm.Task)) {
		for _, d := range h.Dumps {
			t := d.Tasks[id]
			d.Counts[t.State]--
			how(&t)
			d.Counts[t.State]++
			d.Tasks[id] = t
		}
	}
	for want, break_ := range map[string]func(h *History, whole, part string){
		"":              func(*History, string, string) {},
		"ran elsewhere": func(h *History, _, _ string) { h.Attempts[0].Worker = "w2" },
		"ran it itself": func(h *History, whole, _ string) {
			h.Attempts = append(h.Attempts, Attempt{Task: whole, Start: at(1200)})
		},
		"nobody has asked for it": func(h *History, whole, _ string) {
			change(h, whole, func(t *fsm.Task) { t.CancelRequested = true })
		},
		"although its cancel was acknowledged": func(h *History, whole, _ string) {
			h.Calls = append(h.Calls, Call{Verb: Cancel, Task: whole, Begun: at(1050), Ended: at(1060), State: "blocked"})
			change(h, whole, func(t *fsm.Task) { t.State, t.Dead = job.Failed, true })
		},
		"before its delay": func(h *History, _, _ string) { h.Attempts[0].Start, h.Attempts[0].Due = at(990), at(990) },
		"after it was cancelled": func(h *History, whole, _ string) {
			h.Calls = append(h.Calls, Call{Verb: Cancel, Task: whole, Begun: at(10), Ended: at(11), State: "cancelled"})
		},
		"although it was moved": func(h *History, whole, _ string) {
			h.Calls = append(h.Calls, Call{Verb: Reschedule, Task: whole, Begun: at(10), Ended: at(11), State: "scheduled", Due: at(5000)})
		},
		"started after it was cancelled": func(h *History, _, part string) {
			h.Calls = append(h.Calls, Call{Verb: Cancel, Task: part, Begun: at(10), Ended: at(11), State: "cancelled"})
		},
		"is a part of a broadcast and a dead": func(h *History, _, part string) {
			change(h, part, func(t *fsm.Task) { t.State, t.Dead = job.Failed, true })
		},
		"is no dead letter": func(h *History, whole, _ string) { change(h, whole, func(t *fsm.Task) { t.State = job.Failed }) },
	} {
		h, whole, part := everywhere()
		break_(&h, whole, part)
		if found := strings.Join(Check(h, Limits{}), "\n"); !strings.Contains(found, want) || want == "" && found != "" {
			t.Errorf("a broadcast of which something is %q gave %q", want, found)
		}
	}
}

// A replay of its broadcast runs a part again that was cancelled.
func TestAReplayRunsWhatWasCancelled(t *testing.T) {
	for name, tt := range map[string]struct {
		due     int64
		revived bool
		found   bool
	}{
		"again":                   {1000, true, false},
		"by its time from before": {5, true, true},
		"without a replay":        {1000, false, true},
	} {
		h, _, part := everywhere()
		h.Calls = append(h.Calls, Call{Verb: Cancel, Task: part, Begun: at(10), Ended: at(11), State: "cancelled"})
		h.Attempts[0].Due = at(tt.due)
		c := newCheck(h, Limits{})
		c.revived[part] = tt.revived
		if c.cancels(); len(c.found) > 0 != tt.found {
			t.Errorf("it runs %s: found %q", name, c.found)
		}
	}
}

// What a part owes is judged by the record of ends.
func TestChecksFindPartsThatAreTold(t *testing.T) {
	for want, break_ := range map[string]func(h *History, p *fsm.Task){
		"": func(*History, *fsm.Task) {},
		"has 1 callbacks": func(h *History, p *fsm.Task) {
			h.Dumps[0].Callbacks = []fsm.Callback{{Task: p.ID, State: fsm.CallbackDelivered}}
		},
		"has 1 compensations": func(h *History, p *fsm.Task) {
			h.Dumps[0].Tasks["amends"] = fsm.Task{Compensates: p.ID, State: job.Success}
		},
	} {
		h, _, part := everywhere()
		p := h.Dumps[0].Tasks[part]
		p.Job, p.State, p.Policy.CallbackURL = doomedJob, job.Failed, sinkURL
		h.Dumps[0].Tasks[part] = p
		break_(&h, &p)
		c := newCheck(h, Limits{})
		c.ends[part] = []end{{state: job.Failed}}
		c.deadLetters()
		c.callbacks()
		if found := strings.Join(c.found, "\n"); !strings.Contains(found, want) || want == "" && found != "" {
			t.Errorf("a part of which something is %q gave %q", want, found)
		}
	}
}

// A part is late by when its broadcast was due, and where its own worker had a slot.
func TestChecksFindBroadcastsThatAreLate(t *testing.T) {
	const wait = 2 * time.Second
	for name, tt := range map[string]struct {
		taken string // all slots of this worker are
		late  bool
	}{
		"with slots":                 {"", true},
		"with all slots taken":       {"w1", false},
		"with another's slots taken": {"w2", true},
	} {
		h, whole, part := everywhere()
		h.Plan, h.Troubles = Plan{Workers: 3}, []Trouble{{From: at(-120_000), Until: at(-60_000)}}
		b := h.Dumps[0].Tasks[whole]
		b.Due = at(1000).Add(-wait).UnixMilli()
		h.Dumps[0].Tasks[whole] = b
		for range workerSlots {
			if tt.taken != "" {
				h.Attempts = append(h.Attempts, Attempt{Worker: tt.taken, Start: at(-90_000), End: at(90_000)})
			}
		}
		a := h.Attempts[0]
		for range leastJudged {
			h.Attempts = append(h.Attempts, Attempt{Task: part, Number: 1, Job: plainJob, Worker: a.Worker, Due: a.Due, Start: a.Start, End: a.End})
		}
		c := newCheck(h, Limits{})
		c.late()
		if late := strings.Contains(strings.Join(c.found, "\n"), "started late, by up to"); late != tt.late {
			t.Errorf("%s: found %q", name, c.found)
		}
	}
}
