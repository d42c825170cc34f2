package api

import (
	"fmt"
	"strings"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// shownParts is how many parts of a broadcast are shown with it.
const shownParts = 100

// showExtra adds what few tasks have.
func showExtra(out *client.Task, t *fsm.Task) {
	if ref, part := t.Parent(); part {
		out.Parent, out.BoundTo = ref.ID.String(), t.Bound()
	}
	if t.IsBroadcast() {
		b := t.Extra.Broadcast
		out.Broadcast = &client.Broadcast{
			Workers: int(b.Total), Succeeded: int(b.Succeeded), Failed: int(b.Failed), Cancelled: int(b.Cancelled), Open: int(b.Total - b.Ended()),
		}
	}
}

func showPart(t *fsm.Task, now int64) client.Part {
	return client.Part{ID: t.ID.String(), Worker: t.Bound(), State: string(job.Show(t.State, t.Due, t.Retry, now)), LastError: t.Error}
}

// explainBroadcast tells what a broadcast waits for, and how it ended.
func explainBroadcast(q *explaining) {
	t := &q.task
	if !t.IsBroadcast() || t.State != job.Blocked {
		return
	}
	b := t.Extra.Broadcast
	var open []string
	for _, part := range fsm.ListParts(q.v, t, shownParts) {
		if part.State.Terminal() {
			continue
		}
		if len(open) == shownSteps {
			open = append(open, "and others")
			break
		}
		open = append(open, fmt.Sprintf("%s at %s (%s)", part.ID, part.Bound(), job.Show(part.State, part.Due, part.Retry, q.now)))
	}
	r := job.Reason{
		Code: job.ReasonInParts, Since: t.Started, Workers: int(b.Total),
		Text: fmt.Sprintf("It is a broadcast to %d workers: %d succeeded, %d failed, %d were cancelled. It waits for %s.",
			b.Total, b.Succeeded, b.Failed, b.Cancelled, strings.Join(open, ", ")),
		Next: "See 'axd task list --parent $ID', and explain one of those.",
	}
	if t.CancelRequested {
		r.Code, r.Text = job.ReasonCancelRequested, upper(t.Error)+". "+r.Text
	}
	q.add(r)
}

// endOfBroadcast tells how a broadcast ended; false: it is none, or it never began.
func (q *explaining) endOfBroadcast(r *job.Reason) bool {
	t := &q.task
	if !t.IsBroadcast() || t.Extra.Broadcast.Total == 0 || t.State == job.Cancelled {
		return false
	}
	b := t.Extra.Broadcast
	r.Code, r.Workers = job.ReasonEnded, int(b.Total)
	r.Text = fmt.Sprintf("It was a broadcast to %d workers: %d succeeded, %d failed, %d were cancelled.", b.Total, b.Succeeded, b.Failed, b.Cancelled)
	r.Next = "See 'axd task list --parent $ID'."
	if t.State == job.Success {
		r.Code = job.ReasonSucceeded
	} else if t.Dead {
		r.Next += " It is a dead letter: 'axd deadletter replay $ID' runs it again where it did not succeed."
	}
	return true
}
