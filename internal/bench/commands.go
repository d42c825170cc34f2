package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

// Commands measures lateness by what real commands write: the time at which a
// shell's date ran, so that fork, exec and the shell are in it.
type Commands struct {
	Rate float64 // commands due a second
	Time time.Duration
}

// DefaultCommands is a load that leaves two cores room for what it measures.
var DefaultCommands = Commands{Rate: 50, Time: 20 * time.Second}

// Name implements Scenario.
func (Commands) Name() string { return "commands" }

func (Commands) needs() needs { return needs{commands: true} }

func (s Commands) run(ctx context.Context, e *env, r *Result) error {
	total := int(s.Rate * s.Time.Seconds())
	dir := filepath.Join(e.dir, "written")
	if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // commands of other users may have to write here
		return err
	}
	name := "bench-" + e.unique + "-commands"
	_, err := e.admin.PutJob(ctx, name, job.Spec{Executor: job.Executor{Exec: &job.Exec{
		Command: []string{"sh", "-c", `date +%s%N >>"$0/$AXD_TASK_ID"`, dir},
	}}})
	if err != nil {
		return err
	}
	e.say("commands: running %d shell commands over %s", total, s.Time)
	begin := time.Now().Add(e.opts.Lead).Truncate(time.Millisecond)
	batch := make([]client.SubmitRequest, total)
	dues := make([]int64, total)
	for n := range batch {
		due := begin.Add(time.Duration(float64(n) / s.Rate * float64(time.Second))).Truncate(time.Millisecond)
		batch[n], dues[n] = at(client.SubmitRequest{Job: name}, due), due.UnixMilli()
	}
	ids, err := e.accepted(ctx, batch)
	if err != nil {
		return err
	}
	if err := pause(ctx, time.Until(begin)); err != nil {
		return err
	}
	before := e.spent()
	p := &phase{e: e, job: name, total: total}
	unsuccessful, err := p.ended(ctx, total)
	if err != nil {
		return err
	}
	e.cores(r, before)
	written, err := readWritten(dir, ids, dues)
	if err != nil {
		return err
	}
	r.set("tasks", float64(total))
	r.set("rate", s.Rate)
	r.set("seconds", s.Time.Seconds())
	r.set("unsuccessful", float64(unsuccessful))
	v := written.judge(total)
	v.late.spread(r, "")
	v.late.spread(r, "lateness_")
	v.report(r)
	return nil
}

// accepted submits tasks in batches and returns their ids.
func (e *env) accepted(ctx context.Context, tasks []client.SubmitRequest) ([]string, error) {
	var ids []string
	for len(tasks) > 0 {
		n := min(aheadBatch, len(tasks))
		results, err := e.admin.SubmitBatch(ctx, tasks[:n])
		if err != nil {
			return nil, err
		}
		for _, one := range results {
			if one.Error != nil {
				return nil, fmt.Errorf("a task was refused: %s: %s", one.Error.Code, one.Error.Detail)
			}
			ids = append(ids, one.ID)
		}
		tasks = tasks[n:]
	}
	return ids, nil
}

// readWritten collects what the commands wrote, a line of nanoseconds for each
// start.
func readWritten(dir string, ids []string, dues []int64) (*starts, error) {
	s := &starts{}
	s.grow(len(ids))
	for n, id := range ids {
		data, err := os.ReadFile(filepath.Join(dir, id))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(data)) {
			at, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
			if err != nil {
				return nil, fmt.Errorf("what the command of task %s wrote: %w", id, err)
			}
			s.add(n, at, dues[n])
		}
	}
	return s, nil
}

func (Commands) judge(r *Result) { r.sound() }
