package scheduler

import (
	"context"
	"time"

	"github.com/axd-project/axd/job"
)

// Contact is what the leader itself knows of whether a worker can be reached.
type Contact struct {
	Silent  time.Duration // since it was heard of last
	Suspect bool          // its session ended, or it has been silent for too long
}

// Contacts tells of every worker whose lease runs, by name. Of one that has not come
// to this leader yet nothing is known until it has been silent for too long.
func (s *Scheduler) Contacts(ctx context.Context) (map[string]Contact, error) {
	answer := make(chan map[string]Contact, 1)
	if !s.inbox.put(func(l *loop) { answer <- l.contacts() }) {
		return nil, job.Errorf(job.CodeNoLeader, "this server does not lead; ask the leader")
	}
	select {
	case c := <-answer:
		return c, nil
	case <-ctx.Done():
		return nil, job.Errorf(job.CodeTimeout, "the leader is busy and did not say in time")
	}
}

func (l *loop) contacts() map[string]Contact {
	out := make(map[string]Contact, len(l.workers))
	mono, after := l.cfg.Mono(), l.suspectAfter()
	for name, w := range l.workers {
		silent, running := l.leases.silent(boot{name, w.boot}, mono)
		if !running {
			continue // it is lost, or about to be: that is state
		}
		suspect := w.suspect || w.parted || w.session != nil && gone(w.session) || silent >= after
		if suspect || w.session != nil {
			out[name] = Contact{Silent: silent, Suspect: suspect}
		}
	}
	return out
}
