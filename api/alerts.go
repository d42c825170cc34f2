package api

import (
	"net/http"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

func showAlert(t fsm.Alert) client.Alert {
	return client.Alert{
		Kind: t.Kind, Subject: t.Subject, State: t.State.String(), Text: t.Text, Count: t.Count,
		First: at(t.First), Last: at(t.Last), Changed: at(t.Changed), AcknowledgedBy: t.Actor,
	}
}

// listAlerts answers with the latest changes; there are few enough alerts for
// one page.
func (a *api) listAlerts(r *request) error {
	var state fsm.AlertState
	if s := r.values.Get("state"); r.values.Has("state") {
		var known bool
		if state, known = fsm.ParseAlertState(s); !known {
			return job.Invalid("state", "must be open, acknowledged or resolved", s)
		}
	}
	out := client.AlertList{Alerts: []client.Alert{}}
	return a.page(r, &out, func(v fsm.Reader, limit int) error {
		alerts := fsm.ListAlerts(v, state)
		for _, t := range alerts[:min(limit, len(alerts))] {
			out.Alerts = append(out.Alerts, showAlert(t))
		}
		return nil
	})
}

func (a *api) ackAlert(r *request) error {
	in := client.AckRequest{}
	if err := decode(r.body, &in); err != nil {
		return err
	}
	kind, subject := r.name("kind"), r.name("subject")
	if _, err := a.propose(r.ctx, fsm.EndAlert{Kind: kind, Subject: subject, Actor: in.Actor}); err != nil {
		return err
	}
	var out client.Alert
	err := a.backend.Read(r.ctx, false, func(v fsm.Reader) error {
		t, ok := fsm.GetAlert(v, kind, subject)
		if !ok {
			return job.NotFound("alert", kind+"/"+subject) // expired meanwhile
		}
		out = showAlert(t)
		return nil
	})
	if err != nil {
		return err
	}
	return write(r, http.StatusOK, out)
}

// alertSummary is what an operator should see wherever the cluster is shown.
func alertSummary(v fsm.Reader) (out client.AlertSummary) {
	open := fsm.ListAlerts(v, fsm.AlertOpen)
	out.Open = len(open)
	if len(open) > 0 {
		newest := showAlert(open[0])
		out.Newest = &newest
	}
	return out
}
