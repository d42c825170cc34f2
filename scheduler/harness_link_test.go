package scheduler

import (
	"testing"

	"github.com/axd-project/axd/fsm"
)

// lastsDays leaves a test to the run without the race detector.
func lastsDays(t *testing.T) {
	t.Helper()
	if !wholeDays {
		t.Skip("virtual days are lived through without the race detector")
	}
}

// Kill implements Session.
func (k *link) Kill(ref fsm.AttemptRef, _ uint32, reason KillReason) {
	if gone(k) { // nothing arrives over a connection that has ended
		return
	}
	k.m.mu.Lock()
	k.m.kills[ref] = reason
	k.m.mu.Unlock()
	k.m.killed(ref, reason)
}

// Revoke implements Session.
func (k *link) Revoke(attempts []Held) {
	if gone(k) {
		return
	}
	m := k.m
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range attempts {
		if t := m.armed[h.AttemptRef]; t != nil && t.Stop() {
			delete(m.armed, h.AttemptRef)
			delete(m.held, h.AttemptRef)
			m.past[h.AttemptRef] = true
			go m.giveBack(h.AttemptRef, "revoked")
		}
	}
}

// lesserNow counts those of less than high priority that hold slots. The lock is held.
func (m *model) lesserNow() (n int) {
	for ref := range m.held {
		if m.armed[ref] == nil && m.lesser[ref] {
			n++
		}
	}
	return n
}

// refuse gives back what finds no slot. The lock is held.
func (m *model) refuse(ref fsm.AttemptRef) {
	delete(m.held, ref)
	m.past[ref] = true
	m.noSlot++
	go m.giveBack(ref, "no free slot")
}
