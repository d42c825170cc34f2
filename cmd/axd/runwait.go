package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

// runWait are the flags of commands that can stay until a run has ended.
type runWait struct{ wait, follow bool }

func (w *runWait) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&w.wait, "wait", false, "wait until the run has ended; exit code 1 unless it is a success")
	cmd.Flags().BoolVar(&w.follow, "follow", false, "wait, and tell of each step that begins or ends")
}

func (w *runWait) any() bool { return w.wait || w.follow }

// followPause is the least pause between two looks at the steps of a run.
const followPause = 500 * time.Millisecond

// until stays until the run has ended, shows it, and returns its end as an error.
func (w *runWait) until(ctx context.Context, cl *client.Client, cmd *cobra.Command, out outputFlag, run client.Run) error {
	if !w.any() {
		return nil
	}
	stderr := cmd.ErrOrStderr()
	var err error
	if w.follow {
		err = followRun(ctx, cl, stderr, run.ID)
	} else {
		line := progressLine{w: stderr, on: isTerminal(stderr)}
		_, err = cl.WaitRun(ctx, run.ID, func(r client.Run) { line.show(r) })
		line.clear()
	}
	if err != nil {
		if ctx.Err() != nil {
			_, _ = fmt.Fprintf(stderr, "axd: the run goes on; see 'axd run show %s'\n", run.ID)
		}
		return err
	}
	detail, err := cl.RunSteps(ctx, run.ID)
	if err != nil {
		return err
	}
	to := cmd.OutOrStdout()
	if out == "table" {
		to = stderr // standard output holds the ID alone, for scripts
	}
	if err := out.print(to, detail, func(t *table) { runTable(t, &detail, time.Now()) }); err != nil {
		return err
	}
	if detail.State != job.RunSuccess.String() {
		return &runError{code: exitFailed, err: fmt.Errorf("run %s: %s", run.ID, endOf(&detail))}
	}
	return nil
}

// endOf tells how a run ended that is no success: who stopped it, or its first
// step that failed.
func endOf(d *client.RunDetail) string {
	if d.Error != "" {
		return d.State + ": " + d.Error
	}
	for i := range d.Steps {
		s := &d.Steps[i]
		if (s.State == job.Failed.String() || s.State == job.TimedOut.String()) && !s.AllowFailure {
			text := d.State + ": step " + s.Name + " ended " + s.State
			if s.LastError != "" {
				text += ": " + s.LastError
			}
			return text
		}
	}
	return d.State
}

// followRun writes a line for each step whose state has changed.
func followRun(ctx context.Context, cl *client.Client, w io.Writer, id string) error {
	shown := map[string]string{}
	for {
		begin := time.Now()
		d, err := cl.RunSteps(ctx, id)
		if err != nil {
			return err
		}
		now := time.Now()
		for i := range d.Steps {
			s := &d.Steps[i]
			state := s.State
			if s.Attempt > 1 && !client.Ended(state) {
				state += " (attempt " + fmt.Sprint(s.Attempt) + ")"
			}
			if shown[s.Name] == state || shown[s.Name] == "" && s.State == job.Blocked.String() {
				continue
			}
			shown[s.Name] = state
			text := clock(&now, now) + "  " + s.Name + "  " + state
			if s.Duration != nil {
				text += " after " + short(s.Duration.Std())
			}
			if s.LastError != "" {
				text += ": " + s.LastError
			}
			_, _ = fmt.Fprintln(w, printable(text))
		}
		if client.RunEnded(d.State) {
			return nil
		}
		if !sleep(ctx, lookAgain(followPause, time.Since(begin))) {
			return ctx.Err()
		}
	}
}

// progressLine is a line on a terminal that is written over itself.
type progressLine struct {
	w     io.Writer
	on    bool
	width int
}

func (p *progressLine) show(r client.Run) {
	text := fmt.Sprintf("%s: %s steps ended", runState(&r), progress(&r))
	if n := r.Tasks[job.Pending.String()]; n > 0 {
		text += fmt.Sprintf(", %d at work", n)
	}
	if n := r.Tasks[job.Failed.String()] + r.Tasks[job.TimedOut.String()]; n > 0 {
		text += fmt.Sprintf(", %d failed", n)
	}
	p.say(text)
}

func (p *progressLine) say(text string) {
	if !p.on {
		return
	}
	pad := max(0, p.width-len(text))
	p.width = len(text)
	_, _ = fmt.Fprint(p.w, "\r"+text+strings.Repeat(" ", pad))
}

func (p *progressLine) clear() {
	if p.width > 0 {
		_, _ = fmt.Fprint(p.w, "\r"+strings.Repeat(" ", p.width)+"\r")
	}
}

// isTerminal reports whether a person looks at what is written there.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}
