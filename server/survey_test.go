package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/axd-project/axd/fsm"
)

const s = time.Second

// surveyOf makes a survey from the leads of wall clocks, this server's first.
func surveyOf(voters int, walls ...time.Duration) survey {
	v := survey{voters: voters}
	for i, w := range walls {
		v.clocks = append(v.clocks, reading{server: fmt.Sprintf("s%d", i+1), wall: w, vouched: w})
	}
	return v
}

func TestMedianOfClocks(t *testing.T) {
	for _, tc := range []struct {
		survey survey
		want   time.Duration
		sure   bool
	}{
		{surveyOf(1, 5*s), 5 * s, true},
		{surveyOf(2, 5*s), 5 * s, false},
		{surveyOf(2, 5*s, 3600*s), 5 * s, true}, // of two the leader's own
		{surveyOf(2, 5*s, -3600*s), 5 * s, true},
		{surveyOf(3, 0, 3600*s), 0, false},
		{surveyOf(3, 0, 3600*s, 3601*s), 3600 * s, true}, // the leader is the odd one out
		{surveyOf(3, 0, 1, 3600*s), 1, true},
		{surveyOf(5, 0, -5*s, 7*s, 9*s), 0, true},
	} {
		if got, sure := tc.survey.median(); got != tc.want || sure != tc.sure {
			t.Errorf("median of %+v is %s, sure %v; want %s, %v", tc.survey.clocks, got, sure, tc.want, tc.sure)
		}
	}
}

// TestVouchedAsTheStateReckonsIt holds the leader's arithmetic to apply's.
func TestVouchedAsTheStateReckonsIt(t *testing.T) {
	for _, v := range []survey{
		surveyOf(1, 5*s), surveyOf(2, 5*s), surveyOf(2, 5*s, 3*s), surveyOf(3, 9*s, 2*s), surveyOf(3, 9*s, 2*s, 5*s),
		surveyOf(5, 9*s, 2*s, 5*s), surveyOf(5, 1*s, 2*s, 3*s, 4*s),
	} {
		lead, ok := v.vouched()
		at, stateOK := v.attestation().Vouched()
		if ok != stateOK || ok && at != lead.Milliseconds() {
			t.Errorf("%+v: the leader says %s, %v, the state %d, %v", v.clocks, lead, ok, at, stateOK)
		}
	}
}

func TestRoundTripExplainsADistance(t *testing.T) {
	const own, trip = 100 * s, 2 * time.Millisecond
	for lead, want := range map[time.Duration]time.Duration{
		own: own, own + 900*time.Microsecond: own, own - time.Millisecond: own,
		own + s: own + s - 1001*time.Microsecond, own - s: own - s + 1001*time.Microsecond,
	} {
		if got := explained(lead, own, trip); got != want {
			t.Errorf("a lead of %s becomes %s, want %s", lead, got, want)
		}
	}
}

// TestAStoppedWallClockDoesNotHoldTheClusterUp: what was attested goes on by the
// monotonic clock.
func TestAStoppedWallClockDoesNotHoldTheClusterUp(t *testing.T) {
	h, c := newHands()
	srv := &Server{clock: c}
	wall := h.wall.UnixMilli()
	srv.vouch.seen(wall, c.lead(wall))
	stopped := h.wall.Add(-50 * 365 * 24 * time.Hour)
	h.pass(10 * time.Minute)
	h.wall = stopped
	if got := srv.clockReply(); got.WallUS != stopped.UnixMicro() || got.VouchedUS != 1000*wall+600_000_000 {
		t.Errorf("the server says %d and vouches for %d", got.WallUS, got.VouchedUS)
	}
	srv.vouch.seen(wall+1000, c.lead(wall+1000)) // an attestation that was long on its way
	if got := srv.clockReply().VouchedUS; got != 1000*wall+600_000_000 {
		t.Errorf("the server vouches for %d", got)
	}
}

// TestStampsStayWithinWhatIsVouchedFor: the leader proposes nothing that apply
// would refuse.
func TestStampsStayWithinWhatIsVouchedFor(t *testing.T) {
	var v vouch
	now := int64(1_800_000_000_000)
	v.seen(now, 0)
	if !v.allows(now+fsm.MaxForward) || v.allows(now+fsm.MaxForward+1) {
		t.Error("what is allowed is not a minute beyond what is attested")
	}
	if v.needed(now+attestAfter) || !v.needed(now+attestAfter+1) {
		t.Error("an attestation is not sent along after ten seconds")
	}
	month := now + 30*24*3600_000
	v.surveyed(&fsm.Attestation{Voters: 3, Clocks: []fsm.ClockReading{{Server: "s1", At: month}}})
	if v.allows(month) {
		t.Error("one of three vouches, and it is allowed")
	}
	v.surveyed(&fsm.Attestation{Voters: 3, Clocks: []fsm.ClockReading{{Server: "s1", At: month}, {Server: "s2", At: month}}})
	if !v.allows(month) {
		t.Error("two of three vouch, and it is refused")
	}
}

func TestWhoMustNotLead(t *testing.T) {
	never := func(time.Duration) bool { return false }
	old := func(wall time.Duration) bool { return wall < 0 }
	const h = time.Hour
	for _, tc := range []struct {
		name        string
		survey      survey
		absurd      func(time.Duration) bool
		hold, known bool
	}{
		{"no configuration yet", surveyOf(0, 0), never, false, false},
		{"alone", surveyOf(1, -h), old, false, true},
		{"two that differ", surveyOf(2, 0, h), never, false, true},
		{"two, this one absurd", surveyOf(2, -h, 0), old, false, true},
		{"nobody answers", surveyOf(3, 0), never, false, false},
		{"all agree", surveyOf(3, 0, 0, 100*time.Millisecond), never, false, true},
		{"ahead of two", surveyOf(3, h, 0, 0), never, true, true},
		{"behind two", surveyOf(3, 0, h, h), never, true, true},
		{"right, another is off", surveyOf(3, 0, h, 0), never, false, true},
		{"all absurd, and agree", surveyOf(3, -h, -h, -h), old, false, true},
		{"none agree, in the middle", surveyOf(3, 0, h, -h), never, false, true},
		{"none agree, not in the middle", surveyOf(3, h, 0, -h), never, true, true},
		{"of two of three, this one absurd", surveyOf(3, -h, 0), old, true, true},
		{"of two of three, the other absurd", surveyOf(3, 0, -h), old, false, true},
		{"of two of three, both absurd", surveyOf(3, -2*h, -h), old, false, false},
		{"two of three differ, neither absurd", surveyOf(3, 0, h), old, false, false},
		{"two of three agree", surveyOf(3, 0, 100*time.Millisecond), old, false, true},
	} {
		hold, known := tc.survey.mayNotLead(500*time.Millisecond, tc.absurd)
		if hold != tc.hold || known != tc.known {
			t.Errorf("%s: must not lead %v, known %v; want %v, %v", tc.name, hold, known, tc.hold, tc.known)
		}
	}
	if to := surveyOf(3, h, 2*h, 90*time.Minute).nearest(); to != "s3" {
		t.Errorf("with none agreeing leadership goes to %s, not the one in the middle", to)
	}
}
