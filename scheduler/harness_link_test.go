package scheduler

import "github.com/axd-project/axd/fsm"

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
