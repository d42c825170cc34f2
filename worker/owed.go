package worker

import "github.com/axd-project/axd/rpc"

// owed is a result or a give-back until the leader has acknowledged it.
type owed struct {
	spooled
	hub  *hub          // has what is kept of its output; nil: nothing
	done chan struct{} // closed once it is acknowledged; nil: nobody waits
}

func (t *table) owing(ref rpc.Ref) *owed {
	if !ref.Token.IsZero() {
		return t.owed[attemptOf(ref)]
	}
	for _, o := range t.owed {
		if keyOf(o.Ref) == keyOf(ref) {
			return o
		}
	}
	return nil
}

// unacknowledged returns what is closed when the leader has taken an attempt
// that has ended; nil where nothing is owed for it.
func (t *table) unacknowledged(ref rpc.Ref) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.owing(ref)
	if o == nil {
		return nil
	}
	if o.done == nil {
		o.done = make(chan struct{})
	}
	return o.done
}

func (t *table) owe(e spooled, h *hub) {
	o := &owed{spooled: e, hub: h}
	t.owed[e.key()] = o
	t.owedBytes += len(e.Result)
	t.unsent = append(t.unsent, o)
	if e.GiveBack != "" {
		t.stats.GivenBack++
	} else {
		t.stats.Finished++
	}
	t.signal()
}

// add notes something owed that never had a slot. Where too much is owed
// already it is dropped: the leader finds out when the session begins anew.
func (t *table) add(e spooled) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.owed) >= 2*maxOwed+maxArmed {
		return false
	}
	t.owe(e, nil)
	return true
}

// sendAgain makes all that is owed unsent: a session begins, and the one before
// may have lost an answer.
func (t *table) sendAgain() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unsent = t.unsent[:0]
	for _, o := range t.owed {
		t.unsent = append(t.unsent, o)
	}
}

// take hands entries to the session to send: as many results, or give-backs of one
// reason, as fit into one message. What is of another kind keeps its order.
func (t *table) take() (entries []spooled, more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.unsent) == 0 {
		return nil, false
	}
	reason, limit := t.unsent[0].GiveBack, maxResults
	if reason != "" {
		limit = maxGiveBacks
	}
	entries = make([]spooled, 0, min(len(t.unsent), limit))
	rest, bytes := t.unsent[:0], 0
	for i, o := range t.unsent {
		if o.GiveBack != reason {
			rest = append(rest, o)
			continue
		}
		if bytes += len(o.Result); len(entries) == limit || len(entries) > 0 && bytes > maxResultBytes {
			rest = append(rest, t.unsent[i:]...)
			break
		}
		entries = append(entries, o.spooled)
	}
	clear(t.unsent[len(rest):])
	t.unsent = rest
	return entries, len(rest) > 0
}

// putBack makes entries unsent that the leader has not taken.
func (t *table) putBack(entries []spooled) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range entries {
		if o := t.owed[entries[i].key()]; o != nil {
			t.unsent = append(t.unsent, o)
		}
	}
	t.signal()
}

// acknowledged forgets what the leader has taken.
func (t *table) acknowledged(keys []attemptKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range keys {
		o := t.owed[key]
		if o == nil {
			continue
		}
		delete(t.owed, key)
		t.owedBytes -= len(o.Result)
		if o.hub != nil {
			t.past.keep(o.Ref, o.hub)
		}
		if o.done != nil {
			close(o.done)
		}
		delete(t.recent, t.order[t.place])
		t.recent[key], t.order[t.place] = struct{}{}, key
		t.place = (t.place + 1) % maxRecent
	}
}
