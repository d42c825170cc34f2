package server

import (
	"testing"
	"time"
)

// hands are the clocks of a host, turned by the test.
type hands struct {
	wall time.Time
	mono time.Duration
}

func newHands() (*hands, *clock) {
	h := &hands{wall: time.UnixMilli(1_700_000_000_000), mono: 5 * time.Hour}
	return h, &clock{wall: func() time.Time { return h.wall }, mono: func() time.Duration { return h.mono }}
}

// pass lets time pass on both clocks.
func (h *hands) pass(d time.Duration) {
	h.wall = h.wall.Add(d)
	h.mono += d
}

func TestClockFollowsTheWallWhileNotLeading(t *testing.T) {
	h, c := newHands()
	h.wall = h.wall.Add(-time.Hour)
	if got := c.Now(); got != h.wall.UnixMilli() {
		t.Errorf("Now is %d, want the wall's %d", got, h.wall.UnixMilli())
	}
}

func TestAnchoredClockIgnoresStepsOfTheWall(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, -time.Second, time.Second, time.Hour} {
		h, c := newHands()
		c.anchor(250 * time.Millisecond)
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
	for _, off := range []time.Duration{-3 * time.Second, -200 * time.Millisecond, 900 * time.Millisecond} {
		h, c := newHands()
		c.anchor(0)
		c.Now()
		if by, stepped := c.correct(off); by != off || stepped {
			t.Fatalf("a correction by %s gave %s, stepped %v; want it slewed", off, by, stepped)
		}
		last := c.Now()
		for range 70_000 {
			h.pass(time.Millisecond)
			now := c.Now()
			if now < last {
				t.Fatalf("the clock went back by %d ms", last-now)
			}
			if now > last+3 {
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
	c.anchor(0)
	if _, stepped := c.correct(90 * time.Second); !stepped {
		t.Fatal("a correction by 90 s was not stepped")
	}
	if got, want := c.Now(), h.wall.Add(90*time.Second).UnixMilli(); got != want {
		t.Errorf("the clock is %d, want %d", got, want)
	}
}

func TestMedianOfOffsets(t *testing.T) {
	const s = time.Second
	for _, tc := range []struct {
		in   []time.Duration
		want time.Duration
	}{
		{[]time.Duration{0}, 0},
		{[]time.Duration{0, 3600 * s}, 0}, // of two the leader's own
		{[]time.Duration{0, -3600 * s}, 0},
		{[]time.Duration{0, 3600 * s, 3601 * s}, 3600 * s}, // the leader is the odd one out
		{[]time.Duration{0, 1, 3600 * s}, 1},
		{[]time.Duration{0, -5 * s, 7 * s, 9 * s}, 0},
	} {
		if got := median(tc.in); got != tc.want {
			t.Errorf("median of %v is %s, want %s", tc.in, got, tc.want)
		}
	}
}
