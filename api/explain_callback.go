package api

import (
	"fmt"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// maxCallbacksAhead bounds the callbacks that are counted before one.
const maxCallbacksAhead = 1000

// explainCallback tells of a task that has ended why nobody was told of it yet.
func explainCallback(q *explaining) {
	if !q.task.State.Terminal() || q.task.Callback == 0 {
		return
	}
	c, ok := fsm.GetCallback(q.v, fsm.CallbackRef{Task: q.task.Ref(), N: q.task.Callback})
	if !ok {
		return
	}
	r := job.Reason{Callback: c.Ref().String(), Tries: c.Tries, Status: c.Status, Since: c.Created}
	switch c.State {
	case fsm.CallbackOwed:
		q.owes = true
		q.callbackOwed(&r, &c)
	case fsm.CallbackDead:
		r.Code, r.Since = job.ReasonCallbackDead, c.Settled
		r.Next = "Mend its target, then 'axd callback redeliver " + r.Callback + "'."
		if c.Job != "" {
			r.Text = "Its callback is dead: job " + c.Job + " could not be run with the result: " + c.Error + "."
			break
		}
		r.Text = fmt.Sprintf("Its callback to %s is dead, given up after %s, the last at %s: %s.", c.Target(), tried(c.Tries), job.FormatTime(c.Tried), c.Error)
	default:
		return
	}
	q.add(r)
}

func (q *explaining) callbackOwed(r *job.Reason, c *fsm.Callback) {
	r.Code = job.ReasonCallbackOwed
	r.Text = "Its callback to " + c.Target()
	r.Next = "See 'axd callback show " + r.Callback + "'."
	if c.Tries > 0 {
		r.Text += fmt.Sprintf(" was not taken in %s, the last at %s: %s.", tried(c.Tries), job.FormatTime(c.Tried), c.Error)
	} else {
		r.Text += " has not been sent yet."
	}
	if c.Due > q.now {
		r.Until = c.Due
		r.Text += " The next comes at " + job.FormatTime(c.Due) + "."
		r.Next = "Mend its target, and wait, or send it at once: 'axd callback redeliver " + r.Callback + "'."
		return
	}
	if r.Ahead, r.AtLeast = fsm.CallbacksBefore(q.v, c, maxCallbacksAhead); r.Ahead == 0 {
		r.Text += " A try is due: it is on its way, or will be in a moment."
		return
	}
	most := fmt.Sprint(r.Ahead)
	if r.AtLeast {
		most = "at least " + most
	}
	r.Text += " A try is due, behind " + most + " other callbacks to the same target, which answers slowly or takes none."
}

// tried writes a number of tries.
func tried(n int) string {
	if n == 1 {
		return "1 try"
	}
	return fmt.Sprintf("%d tries", n)
}
