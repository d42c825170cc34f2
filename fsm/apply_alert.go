package fsm

import (
	"strings"

	"github.com/axd-project/axd/job"
)

func (a *apply) putAlert(c *PutAlert) Result {
	if err := validateAlert(c.Kind, c.Subject); err != nil {
		return rejected(err)
	}
	a.raiseAlert(c.Kind, c.Subject, c.Text)
	return Result{Changed: true}
}

// raiseAlert opens an alert, or counts it once more.
func (a *apply) raiseAlert(kind, subject, text string) {
	t, ok := a.alert(kind, subject)
	if !ok {
		a.makeRoomForAlert()
		t = Alert{Kind: kind, Subject: subject, First: a.now, Changed: -1}
	}
	t.State, t.Text, t.Last, t.Actor = AlertOpen, cut(text), a.now, ""
	t.Count++
	a.setAlert(t)
}

// resolveAlert ends an alert whose cause is gone, if there is one.
func (a *apply) resolveAlert(kind, subject string) {
	if t, ok := a.alert(kind, subject); ok && t.State != AlertResolved {
		t.State = AlertResolved
		a.setAlert(t)
	}
}

func (a *apply) endAlert(c *EndAlert) Result {
	if err := validateAlert(c.Kind, c.Subject); err != nil {
		return rejected(err)
	}
	t, ok := a.alert(c.Kind, c.Subject)
	if !ok {
		return rejected(job.NotFound("alert", c.Kind+"/"+c.Subject))
	}
	to := AlertAcknowledged
	if c.Resolved {
		to = AlertResolved
	}
	if t.State >= to {
		return Result{}
	}
	t.State = to
	if !c.Resolved {
		t.Actor = c.Actor
	}
	a.setAlert(t)
	return Result{Changed: true}
}

func validateAlert(kind, subject string) *job.Error {
	if err := job.ValidateName("kind", kind); err != nil {
		return err
	}
	for part := range strings.SplitSeq(subject, "/") { // a schedule's has its namespace before it
		if err := job.ValidateName("subject", part); err != nil {
			return err
		}
	}
	return nil
}

func (a *apply) alert(kind, subject string) (t Alert, ok bool) {
	k := key{}.alert(kind, subject)
	b, ok := a.tx.Get(k)
	if ok {
		mustDecode(a.codec, k, b, &t)
	}
	return t, ok
}

// setAlert writes an alert and moves its row by age.
func (a *apply) setAlert(t Alert) {
	if t.Changed >= 0 {
		a.key = a.key.alertAge(t.Changed, t.Kind, t.Subject)
		a.delete(a.key)
	}
	t.Changed = a.now
	a.key = a.key.alertAge(t.Changed, t.Kind, t.Subject)
	a.set(a.key, nil)
	a.value = appendAlert(a.value[:0], &t)
	a.key = a.key.alert(t.Kind, t.Subject)
	a.set(a.key, a.value)
}

// makeRoomForAlert deletes the alert that changed first if there are as many as
// may be.
func (a *apply) makeRoomForAlert() {
	n := 0
	a.tx.Ascend(key{tableAlertAge}, tableEnd(tableAlertAge), func(_, _ []byte) bool {
		n++
		return true
	})
	if n >= maxAlerts {
		a.deleteAlerts(tableEnd(tableAlertAge), n-maxAlerts+1)
	}
}

// deleteAlerts deletes the alerts whose rows by age lie before a key, at most so
// many, and returns their number.
func (a *apply) deleteAlerts(before []byte, most int) int {
	type old struct {
		at            int64
		kind, subject string
	}
	var found []old
	a.tx.Ascend(key{tableAlertAge}, before, func(k, _ []byte) bool {
		if len(found) == most {
			return false
		}
		kr := readKey(k)
		found = append(found, old{kr.time(), kr.name(), kr.name()})
		return true
	})
	for _, o := range found {
		a.key = a.key.alertAge(o.at, o.kind, o.subject)
		a.delete(a.key)
		a.key = a.key.alert(o.kind, o.subject)
		a.delete(a.key)
	}
	return len(found)
}
