package scheduler

// Revoke implements Session.
func (k *link) Revoke(attempts []Held) {
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
