package chaos

import (
	"errors"

	"github.com/hashicorp/raft"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// History is all that the checks look at: what the outside saw, and what the
// servers hold in the end.
type History struct {
	Calls    []Call
	Attempts []Attempt
	Dumps    []Dump
	Runs     []string // of workflows, that were acknowledged
	// Logs are the entries that each server has kept or compacted, by index. Where
	// it took a snapshot instead, there is a gap.
	Logs map[string]map[uint64]*raft.Log
}

// Dump is one server's state.
type Dump struct {
	Server   string
	Applied  uint64
	Hash     uint64
	Broken   []string // invariants
	Tasks    map[string]fsm.Task
	Attempts map[string][]fsm.Attempt
	Counts   map[job.State]int64
	Runs     map[string]RunDump
}

const maxBroken = 10 // invariants told of one state

// NewDump reads a whole state.
func NewDump(server string, r fsm.Reader) (Dump, error) {
	d := Dump{
		Server: server, Applied: fsm.ReadInfo(r).Applied, Hash: fsm.StateHash(r), Broken: fsm.Check(r, maxBroken),
		Tasks: map[string]fsm.Task{}, Attempts: map[string][]fsm.Attempt{}, Counts: fsm.CountTasks(r, ""),
	}
	for cursor := ""; ; {
		page, err := fsm.ListTasks(r, fsm.TaskFilter{Namespace: job.DefaultNamespace}, cursor, 0, 0)
		if err != nil {
			return d, err
		}
		for _, t := range page.Tasks {
			d.Tasks[t.ID.String()] = t
			d.Attempts[t.ID.String()] = fsm.ListAttempts(r, t.Ref())
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	var err error
	d.Runs, err = dumpRuns(r)
	return d, err
}

// dumps reads every server's state.
func (c *Cluster) dumps() ([]Dump, error) {
	var out []Dump
	for _, s := range c.Servers {
		var err error
		up := s.View(func(r fsm.Reader) {
			var d Dump
			d, err = NewDump(s.Name, r)
			out = append(out, d)
		})
		if !up {
			err = errors.New("server " + s.Name + " is down")
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (c *Cluster) history() (History, error) {
	dumps, err := c.dumps()
	h := History{Calls: c.Ledger.Calls(), Attempts: c.Ledger.Attempts(), Runs: c.Ledger.Runs(), Dumps: dumps, Logs: map[string]map[uint64]*raft.Log{}}
	for _, s := range c.Servers {
		h.Logs[s.Name] = s.Disk().History()
	}
	return h, err
}
