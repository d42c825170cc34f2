package server

import (
	"context"
	"sync"
	"time"

	"github.com/axd-project/axd/fsm"
)

const (
	maxPendingAlerts = 64          // alerts that wait to be committed
	alertRetry       = time.Second // after one could not be
	clusterSubject   = "cluster"   // of alerts about no single server
)

// alerts holds what is to be told until it is committed, the newest of each kind
// and subject.
type alerts struct {
	mu      sync.Mutex
	pending map[alertKey]pendingAlert
	wake    chan struct{}
}

type alertKey struct{ kind, subject string }

type pendingAlert struct {
	text      string
	condition bool // raised and resolved as it comes and goes, unlike an event
	on        bool
}

// raise tells of an event: it counts each time, and stays until somebody
// acknowledges it.
func (s *Server) raise(kind, subject, text string) {
	s.log.Warn("alert: "+text, "kind", kind, "subject", subject)
	s.alerts.add(alertKey{kind, subject}, pendingAlert{text: text, on: true})
}

// condition tells whether something holds, as often as one likes: the alert is
// raised when it begins and resolved when it ends.
func (s *Server) condition(kind, subject string, on bool, text string) {
	s.alerts.add(alertKey{kind, subject}, pendingAlert{text: text, condition: true, on: on})
}

func (a *alerts) signal() chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.wake == nil {
		a.wake = make(chan struct{}, 1)
	}
	return a.wake
}

// add replaces what is pending of the same kind and subject. When too many
// wait, a new one is dropped: raise has logged it, and conditions come again.
func (a *alerts) add(k alertKey, p pendingAlert) {
	wake := a.signal()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pending == nil {
		a.pending = map[alertKey]pendingAlert{}
	}
	if _, ok := a.pending[k]; !ok && len(a.pending) >= maxPendingAlerts {
		return
	}
	a.pending[k] = p
	select {
	case wake <- struct{}{}:
	default:
	}
}

func (a *alerts) take() map[alertKey]pendingAlert {
	a.mu.Lock()
	defer a.mu.Unlock()
	taken := a.pending
	a.pending = nil
	return taken
}

// putBack keeps what could not be committed, unless something newer waits.
func (a *alerts) putBack(k alertKey, p pendingAlert) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pending == nil {
		a.pending = map[alertKey]pendingAlert{}
	}
	if _, ok := a.pending[k]; !ok {
		a.pending[k] = p
	}
}

// sendAlerts commits what was raised, until ctx ends. Without a leader it waits
// for one.
func (s *Server) sendAlerts(ctx context.Context) {
	wake := s.alerts.signal()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wake:
		}
		failed := false
		for k, p := range s.alerts.take() {
			if err := s.sendAlert(ctx, k, p); err != nil {
				s.log.Debug("an alert could not be committed yet", "kind", k.kind, "subject", k.subject, "error", err)
				s.alerts.putBack(k, p)
				failed = true
			}
		}
		if !failed {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(alertRetry):
		}
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

// sendAlert commits what an alert changes. Of a condition only beginning and end
// do.
func (s *Server) sendAlert(ctx context.Context, k alertKey, p pendingAlert) error {
	if p.condition {
		v := s.node.View()
		have, ok := fsm.GetAlert(v, k.kind, k.subject)
		v.Close()
		if p.on == (ok && have.State != fsm.AlertResolved) {
			return nil
		}
		if p.on {
			s.log.Warn("alert: "+p.text, "kind", k.kind, "subject", k.subject)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	var c fsm.Command = fsm.PutAlert{Kind: k.kind, Subject: k.subject, Text: p.text}
	if !p.on {
		c = fsm.EndAlert{Kind: k.kind, Subject: k.subject, Resolved: true}
	}
	_, err := s.Propose(ctx, c)
	return err
}
