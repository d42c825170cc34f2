package server

import (
	"strings"
	"testing"
	"time"

	"github.com/axd-project/axd/fsm"
)

// hands are the clocks of a host, turned by the test.
type hands struct {
	wall time.Time
	mono time.Duration
	// awake is mono without suspends.
	awake time.Duration
}

func newHands() (*hands, *clock) {
	h := &hands{wall: time.UnixMilli(1_700_000_000_000), mono: 5 * time.Hour}
	h.awake = h.mono
	return h, newClock(Host{
		Wall:  func() time.Time { return h.wall },
		Mono:  func() time.Duration { return h.mono },
		Awake: func() time.Duration { return h.awake },
	})
}

// pass lets time pass on both clocks.
func (h *hands) pass(d time.Duration) {
	h.wall = h.wall.Add(d)
	h.mono += d
	h.awake += d
}

func TestClockFollowsTheWallUntilOthersAreHeard(t *testing.T) {
	h, c := newHands()
	h.wall = h.wall.Add(-time.Hour)
	if got := c.Now(); got != h.wall.UnixMilli() {
		t.Errorf("Now is %d, want the wall's %d", got, h.wall.UnixMilli())
	}
}

func TestClockFollowsTheOthersWhileNotLeading(t *testing.T) {
	h, c := newHands()
	right := h.wall
	c.hear(c.wallLead())
	h.wall = h.wall.Add(time.Hour)
	h.pass(time.Minute)
	if got, want := c.Now(), right.Add(time.Minute).UnixMilli(); got != want {
		t.Errorf("Now is %d, want %d", got, want)
	}
}

func TestAnchoredClockIgnoresStepsOfTheWall(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, -time.Second, time.Second, time.Hour} {
		h, c := newHands()
		c.anchor(c.wallLead() + 250*time.Millisecond)
		start := c.Now()
		if want := h.wall.UnixMilli() + 250; start != want {
			t.Fatalf("anchored at %d, want %d", start, want)
		}
		h.wall = h.wall.Add(step)
		for range 1000 {
			h.pass(7 * time.Millisecond)
		}
		if got := c.Now() - start; got != 7000 {
			t.Errorf("after a step of %s and 7 s the clock advanced %d ms, want 7000", step, got)
		}
	}
}

func TestClockIsSlewedTowardsTheMedianAndNeverGoesBack(t *testing.T) {
	for _, off := range []time.Duration{-200 * time.Millisecond, -10 * time.Millisecond, 900 * time.Millisecond} {
		h, c := newHands()
		c.anchor(c.wallLead())
		c.Now()
		if by := c.correct(c.wallLead() + off); by != off {
			t.Fatalf("a correction by %s gave %s", off, by)
		}
		last := c.Now()
		for range 100_000 {
			h.pass(5 * time.Millisecond)
			now := c.Now()
			if now < last {
				t.Fatalf("the clock went back by %d ms", last-now)
			}
			if now > last+6 || now < last+4 {
				t.Fatalf("the clock jumped by %d ms while slewing", now-last)
			}
			last = now
		}
		if want := h.wall.Add(off).UnixMilli(); last != want {
			t.Errorf("after slewing by %s the clock is %d ms off", off, last-want)
		}
	}
}

func TestForwardCorrectionOverASecondSteps(t *testing.T) {
	h, c := newHands()
	c.anchor(c.wallLead())
	if by := c.correct(c.wallLead() + 90*time.Second); by != 90*time.Second {
		t.Fatalf("a correction by 90 s gave %s", by)
	}
	if got, want := c.Now(), h.wall.Add(90*time.Second).UnixMilli(); got != want {
		t.Errorf("the clock is %d, want %d", got, want)
	}
}

func TestClockIsReadInMicroseconds(t *testing.T) {
	h, c := newHands()
	c.anchor(c.wallLead() + 1700*time.Microsecond)
	h.pass(250 * time.Microsecond)
	want := h.wall.UnixMicro() + 1700
	if got := c.told(); got != want {
		t.Errorf("told is %d, want %d", got, want)
	}
	if got := c.Now(); got != want/1000 {
		t.Errorf("Now is %d, want %d, rounded down", got, want/1000)
	}
}

func TestClockThatRanAwayIsSetBack(t *testing.T) {
	h, c := newHands()
	right := c.wallLead()
	c.anchor(right)
	h.pass(time.Hour)
	h.mono += 20 * time.Second // ahead, but not so far that entries would be refused
	if by := c.setBack(c.wallLead(), clockRunaway); by != 0 {
		t.Errorf("set back by %s", by)
	}
	h.mono += time.Hour
	if by := c.setBack(c.wallLead(), clockRunaway); by != -time.Hour-20*time.Second {
		t.Errorf("set back by %s", by)
	}
	if got := c.Now(); got != h.wall.UnixMilli() {
		t.Errorf("the clock is %d ms off", got-h.wall.UnixMilli())
	}
}

func TestNothingIsStampedAfterASuspend(t *testing.T) {
	h, c := newHands()
	if c.stamp() != 0 {
		t.Error("stamped before the clock was agreed")
	}
	c.anchor(c.wallLead())
	if c.stamp() != h.wall.UnixMilli() {
		t.Error("no stamp though the clock was agreed")
	}
	h.wall, h.mono = h.wall.Add(time.Minute), h.mono+time.Minute // and not awake
	if c.stamp() != 0 {
		t.Error("stamped after a suspend that nobody looked into")
	}
	if got := c.Now(); got != h.wall.UnixMilli() {
		t.Errorf("the clock lost %d ms in the suspend", h.wall.UnixMilli()-got)
	}
	c.woken()
	if c.stamp() != h.wall.UnixMilli() {
		t.Error("no stamp though the suspend was looked into")
	}
}

// Workers start what is armed by what they are told of the time. A leader that has
// just been deposed may answer a heartbeat yet, when its clock is its own wall's
// again; and a machine that slept may be wrong on how long.
func TestWorkersAreToldOnlyATimeThatIsAgreed(t *testing.T) {
	h, c := newHands()
	if got := c.told(); got != 0 {
		t.Errorf("before the clock was agreed workers are told %d", got)
	}
	c.anchor(c.wallLead())
	right := h.wall.UnixMicro()
	if got := c.told(); got != right {
		t.Errorf("workers are told %d, want %d", got, right)
	}
	h.mono += 40 * time.Second
	if got := c.told(); got != 0 {
		t.Errorf("after a suspend that nobody looked into workers are told %d", got)
	}
	c.woken()
	c.setBack(c.wallLead(), clockRunaway)
	if got := c.told(); got != right {
		t.Errorf("after it was looked into workers are told %d, want %d", got, right)
	}
	h.wall = h.wall.Add(time.Hour)
	c.release()
	if got := c.told(); got != 0 {
		t.Errorf("after the term workers are told %d", got)
	}
}

// A leader whose boot clock jumped is slewed back, for hours; meanwhile an alert tells.
func TestAClockThatIsAheadIsTold(t *testing.T) {
	h, c := newHands()
	c.anchor(c.wallLead())
	s := &Server{clock: c}
	s.cfg.MaxClockSkew = 500 * time.Millisecond
	ahead := func() pendingAlert {
		lead := c.wallLead()
		s.steer(survey{voters: 3, clocks: []reading{{"s1", lead, lead, 0}, {"s2", lead, lead, 0}}}) // the third doesn't answer
		return s.alerts.pending[alertKey{fsm.AlertClockSkew, clusterSubject}]
	}
	h.mono += 400 * time.Millisecond
	if a := ahead(); a.on {
		t.Errorf("within the limit: %+v", a)
	}
	h.mono += 10 * time.Second
	if a := ahead(); !a.on || !a.condition || !strings.Contains(a.text, "10.4s ahead") {
		t.Errorf("beyond it: %+v", a)
	}
}
