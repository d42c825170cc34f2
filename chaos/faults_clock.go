package chaos

import (
	"time"

	"github.com/axd-project/axd/fsm"
)

// moveLimit is within which leadership moves away from a wrong clock, and an alert
// tells of it.
const moveLimit = 30 * time.Second

func clockStep(i *injector, f Fault) func() effect {
	s := i.c.Server(f.On[0])
	before := s.StepClock(f.By)
	return func() effect {
		i.waitFor(func() bool { return s.clockReads() > before })
		did := effect{s.clockReads() - before, "readings of a clock that is off"}
		s.StepClock(0)
		return did
	}
}

// clockWrong puts a clock further off than a leader's may be: another server must
// lead soon, and an alert must tell.
func clockWrong(i *injector, f Fault) func() effect {
	s := i.c.Server(f.On[0])
	if f.Rate != 0 {
		s.TurnClock(f.Rate)
	} else {
		s.SetClock(f.By)
	}
	did := effect{0, "alerts about a wrong clock"}
	moved := i.within(moveLimit, func() bool { l := i.c.Leader(); return l != nil && l != s })
	if !moved {
		i.c.Problem("%s leads still, %v after its clock went wrong", s.Name, moveLimit)
	}
	told := i.within(moveLimit, func() bool { return i.alert(fsm.AlertClockSkew, s.Name) })
	if !told {
		i.c.Problem("no alert tells of the clock of %s, %v after it went wrong", s.Name, 2*moveLimit)
	}
	if moved && told {
		did.n++
	}
	return func() effect { s.SetClock(0); return did }
}

// within waits for something.
func (i *injector) within(limit time.Duration, is func() bool) bool {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(lookAgain) {
		if is() {
			return true
		}
	}
	return is()
}

// alert tells whether an alert is open, as the leader has it.
func (i *injector) alert(kind, subject string) (open bool) {
	if leader := i.c.Leader(); leader != nil {
		leader.View(func(r fsm.Reader) {
			a, _ := fsm.GetAlert(r, kind, subject)
			open = a.State == fsm.AlertOpen
		})
	}
	return open
}
