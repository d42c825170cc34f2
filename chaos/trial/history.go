package trial

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"

	"github.com/axd-project/axd/chaos"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/raftnode"
	"github.com/axd-project/axd/store"
)

// history is all that is judged.
type history struct {
	chaos.History
	started    []string // runs that were acknowledged
	deliveries []Delivery
	callbacks  map[string]fsm.Callback // by task, on the first server
	fires      map[string][]fsm.Fire   // by schedule, on the first server, the oldest first
	every      map[string]time.Duration
	hooks      map[string]bool // tasks that asked for a callback
}

// history gathers what was recorded, and reads the disks of the stopped servers.
func (st *stage) history() (*history, error) {
	h := &history{deliveries: st.sink.list(), every: map[string]time.Duration{everyName: everyTime, cronName: 2 * time.Second}}
	st.load.mu.Lock()
	h.Calls, h.started, h.hooks = st.load.calls, st.load.runs, st.load.hooks
	st.load.mu.Unlock()
	var err error
	if h.Attempts, err = st.attempts.list(); err != nil {
		return h, err
	}
	h.Logs = map[string]map[uint64]*raft.Log{}
	for i, s := range st.Servers {
		if err := h.read(s.Name(), s.DataDir, i == 0); err != nil {
			return h, fmt.Errorf("read the disk of server %s: %w", s.Name(), err)
		}
	}
	if st.load.own != nil {
		h.every = nil
		h.believe()
	}
	return h, nil
}

// read takes one server's disk in.
func (h *history) read(name, dir string, first bool) error {
	_, err := store.Inspect(vfs.Default, filepath.Join(dir, "state"), func(v store.View) error {
		if err := fsm.CheckFormat(v); err != nil {
			return err
		}
		d, err := chaos.NewDump(name, v)
		if err != nil {
			return err
		}
		h.Dumps = append(h.Dumps, d)
		if first {
			return h.readRest(v)
		}
		return nil
	})
	if err != nil {
		return err
	}
	entries := map[uint64]*raft.Log{}
	err = raftnode.Entries(dir, name, func(e *raft.Log) error {
		entries[e.Index] = e
		return nil
	})
	h.Logs[name] = entries
	return err
}

// readRest reads callbacks and the ledgers of schedules.
func (h *history) readRest(v fsm.Reader) error {
	h.callbacks, h.fires = map[string]fsm.Callback{}, map[string][]fsm.Fire{}
	for cursor := ""; ; {
		list, next, err := fsm.ListCallbacks(v, job.DefaultNamespace, 0, cursor, fsm.MaxPage)
		if err != nil {
			return err
		}
		for _, c := range list {
			h.callbacks[c.Task.String()] = c
		}
		if cursor = next; cursor == "" {
			break
		}
	}
	schedules, _, err := fsm.ListSchedules(v, job.DefaultNamespace, "", fsm.MaxPage)
	if err != nil {
		return err
	}
	for _, s := range schedules {
		for cursor := ""; ; {
			list, next, err := fsm.ListFires(v, fsm.ScheduleRef{Namespace: s.Namespace, Name: s.Name}, fsm.FireFilter{}, cursor, fsm.MaxPage)
			if err != nil {
				return err
			}
			h.fires[s.Name] = append(h.fires[s.Name], list...)
			if cursor = next; cursor == "" {
				break
			}
		}
	}
	return nil
}

// believe takes the attempts of tasks whose commands say nothing from the first
// server's state: of a caller's own jobs nobody else knows.
func (h *history) believe() {
	if len(h.Dumps) == 0 {
		return
	}
	seen := map[string]bool{}
	for _, a := range h.Attempts {
		seen[a.Task] = true
	}
	for id, list := range h.Dumps[0].Attempts {
		for _, a := range list {
			if a.Started == 0 || seen[id] {
				continue
			}
			at := chaos.Attempt{
				Task: id, Number: int(a.Number), Token: a.Token, Worker: a.Worker,
				Start: time.UnixMilli(a.Started), OK: a.Outcome == job.OutcomeSuccess,
			}
			if a.Ended != 0 {
				at.End = time.UnixMilli(a.Ended)
			}
			h.Attempts = append(h.Attempts, at)
		}
	}
}

// write writes what was recorded, a JSON object a line.
func (h *history) write(w io.Writer) error {
	enc := json.NewEncoder(w)
	line := func(kind string, what any) error { return enc.Encode(map[string]any{kind: what}) }
	for _, c := range h.Calls {
		if err := line("call", c); err != nil {
			return err
		}
	}
	for _, a := range h.Attempts {
		if err := line("attempt", a); err != nil {
			return err
		}
	}
	for _, d := range h.deliveries {
		if err := line("callback", d); err != nil {
			return err
		}
	}
	return nil
}
