package server

import (
	"testing"
	"time"

	"github.com/axd-project/axd/fsm"
)

const limit = 500 * time.Millisecond

// TestWhereATermsClockBegins: the state's clock is gone on from only where the
// wall clocks don't know better.
func TestWhereATermsClockBegins(t *testing.T) {
	lost := surveyOf(3, -9000*s, -9000*s, -9000*s) // their dates, while what was attested goes on
	for i := range lost.clocks {
		lost.clocks[i].vouched = 5 * s
	}
	behind := surveyOf(3, 0, -9000*s)
	behind.clocks[1].vouched = -8 * s
	for _, tc := range []struct {
		name       string
		survey     survey
		seen, want time.Duration
		ok         bool
	}{
		{"all agree", surveyOf(3, 0, 0, 0), -s, 0, true},
		{"the state is ahead", surveyOf(3, 0, 0, 0), 3 * s, 0, true},
		{"of two that answer", surveyOf(3, 0, 100*time.Millisecond), 3 * s, 0, true},
		{"a new leader ahead as well", surveyOf(3, 5*s, 0, 0), 3 * s, 0, true},
		{"one that is behind", surveyOf(3, -5*s, 0, 0), 3 * s, 0, true},
		{"of five, two ahead", surveyOf(5, 0, 0, 0, 9*s, 9*s), 3 * s, 0, true},
		{"none agree", surveyOf(3, 0, 9*s, -9*s), 3 * s, 3 * s, true},
		{"dates are lost", lost, 8 * s, 8 * s, true},
		{"one date is lost, one server is down", behind, 3 * s, 3 * s, true},
		{"two servers", surveyOf(2, 0, 0), 3 * s, 3 * s, true},
		{"one", surveyOf(1, 0), 3 * s, 3 * s, true},
		{"too few answer", surveyOf(3, 0), 3 * s, 0, false},
	} {
		got, ok := tc.survey.beginning(tc.seen, limit)
		if got != tc.want || ok != tc.ok {
			t.Errorf("%s: begins at %s, %v; want %s, %v", tc.name, got, ok, tc.want, tc.ok)
		}
	}
}

func TestWhatALeadersClockHasGained(t *testing.T) {
	at := func(v survey, at, trip time.Duration) survey {
		v.at = at
		v.clocks[1].trip = trip
		return v
	}
	const ms = time.Millisecond
	before := at(surveyOf(3, 0, 0, 100*ms), 10*s, ms)
	for _, tc := range []struct {
		name  string
		after survey
		want  time.Duration
	}{
		{"nothing", at(surveyOf(3, 0, 0, 100*ms), 11*s, ms), 0},
		{"half a second", at(surveyOf(3, 0, -500*ms, -400*ms), 11*s, ms), 398 * ms},
		{"less than the answers took", at(surveyOf(3, 0, -500*ms, -400*ms), 11*s, 399*ms), 0},
		{"it was behind the others, and is so still", at(surveyOf(3, 0, -100*ms, 100*ms), 11*s, ms), 0},
		{"only one other says so", at(surveyOf(3, 0, -900*ms, 100*ms), 11*s, ms), 0},
		{"it has lost", at(surveyOf(3, 0, 500*ms, 600*ms), 11*s, ms), 0},
		{"too long ago", at(surveyOf(3, 0, -500*ms, -400*ms), 15*s, ms), 0},
		{"of other servers", at(surveyOf(3, 0, -500*ms), 11*s, ms), 0},
	} {
		if got := tc.after.gained(before); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
	if got := before.gained(survey{}); got != 0 {
		t.Errorf("on nothing: %s", got)
	}
}

// TestHowFarAheadTheClockMayBe: a leader that three clocks can overrule is held to
// half of what they are allowed, one whose clocks were seen to gain to nothing.
func TestHowFarAheadTheClockMayBe(t *testing.T) {
	const ms = time.Millisecond
	slow := surveyOf(3, 0, 0, 0)
	slow.clocks[2].trip = 90 * ms
	lost := surveyOf(3, -9000*s, -9000*s, -9000*s)
	for i := range lost.clocks {
		lost.clocks[i].vouched = 0
	}
	for _, tc := range []struct {
		name         string
		survey       survey
		limit        time.Duration
		than, gained time.Duration
		sure         bool
	}{
		{"all agree", surveyOf(3, 0, 0, 0), limit, 250 * ms, 0, true},
		{"an answer was long on its way", slow, limit, 340 * ms, 0, true},
		{"a narrow limit", surveyOf(3, 0, 0, 0), 10 * ms, rateMargin, 0, true},
		{"it has gained", surveyOf(3, 0, -250*ms, -250*ms), limit, 0, 250 * ms, true},
		{"a little", surveyOf(3, 0, -40*ms, -40*ms), limit, 250 * ms, 0, true},
		{"two answer", surveyOf(3, 0, -250*ms), limit, clockRunaway, 0, false},
		{"two servers", surveyOf(2, 0, -250*ms), limit, clockRunaway, 0, false},
		{"dates are lost", lost, limit, clockRunaway, 0, false},
	} {
		than, gained, sure := tc.survey.allowance(surveyOf(3, 0, 0, 0), tc.limit)
		if than != tc.than || gained != tc.gained || sure != tc.sure {
			t.Errorf("%s: %s, gained %s, sure %v; want %s, %s, %v", tc.name, than, gained, sure, tc.than, tc.gained, tc.sure)
		}
	}
}

// TestAHaltedClockTellsNothing: a leader that is found wrong must not go on by its
// clock until another leads.
func TestAHaltedClockTellsNothing(t *testing.T) {
	_, c := newHands()
	c.anchor(c.wallLead())
	c.halt(true)
	if c.told() != 0 || c.stamp() != 0 {
		t.Error("a halted clock is told, or stamped with")
	}
	c.halt(false)
	if c.told() == 0 || c.stamp() == 0 {
		t.Error("a clock that goes on is not told")
	}
	c.halt(true)
	c.release()
	c.anchor(c.wallLead())
	if c.told() == 0 {
		t.Error("the clock of the next term is halted")
	}
}

// TestARightClockIsNotAbsurd though a leader whose clocks ran fast has carried the
// state ahead: what tells is what a majority attested.
func TestARightClockIsNotAbsurd(t *testing.T) {
	h, c := newHands()
	h.wall = clockFloor.Add(time.Hour)
	right := c.wallLead()
	info := fsm.Info{Clock: h.wall.UnixMilli() + 3000, Attested: h.wall.UnixMilli()}
	if c.absurd(right, info, limit) {
		t.Error("a clock that is right is called absurd")
	}
	if !c.absurd(right-s, info, limit) {
		t.Error("one behind what was attested is not")
	}
	if !c.absurd(right-2*time.Hour, fsm.Info{}, limit) {
		t.Error("one that was never set is not")
	}
}
