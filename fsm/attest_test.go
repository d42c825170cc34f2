package fsm

import (
	"strconv"
	"testing"

	"github.com/axd-project/axd/job"
)

const hour int64 = 3600_000

// stamped applies an entry with one command at a time, and returns its result.
func (l *stampLog) stamped(t *testing.T, at int64, attest *Attestation) Result {
	t.Helper()
	c, _ := EncodeCommand(PutAlert{Kind: AlertClockStep, Subject: "s" + strconv.FormatUint(l.index, 10)})
	b, err := EncodeEntry(Entry{At: at, Attest: attest, Commands: [][]byte{c}})
	if err != nil {
		t.Fatal(err)
	}
	l.index++
	results, _, err := l.m.Apply(l.tx, Meta{Index: l.index}, b)
	if err != nil {
		t.Fatal(err)
	}
	return results[0]
}

type stampLog struct {
	tx    *memTx
	m     *Machine
	index uint64
}

func newStampLog() *stampLog { return &stampLog{tx: newMemTx(), m: NewMachine()} }

func (l *stampLog) clock() int64 { return ReadInfo(l.tx).Clock }

// says makes an attestation of three voters; a 0 is one that did not answer.
func says(voters int, at ...int64) *Attestation {
	a := &Attestation{Voters: voters}
	for i, v := range at {
		if v != 0 {
			a.Clocks = append(a.Clocks, ClockReading{Server: "s" + strconv.Itoa(i), At: v})
		}
	}
	return a
}

func TestVouchedByAMajority(t *testing.T) {
	for _, tc := range []struct {
		attest *Attestation
		want   int64
		ok     bool
	}{
		{nil, 0, false},
		{&Attestation{}, 0, false},
		{says(1, 7), 7, true},
		{says(2, 7), 0, false},
		{says(2, 7, 5), 5, true},
		{says(3, 7, 5), 5, true},
		{says(3, 5, 9, 7), 7, true},
		{says(3, 0, 9, 0), 0, false},
		{says(5, 1, 2, 3, 4), 2, true},
		{says(1, job.MaxTime+1), job.MaxTime, true},
		{&Attestation{Voters: 3, Clocks: []ClockReading{{"s1", 9}, {"s1", 9}, {"s1", 8}}}, 0, false},
		{&Attestation{Voters: 3, Clocks: []ClockReading{{"s1", 5}, {"s1", 9}, {"s2", 8}}}, 5, true},
	} {
		if got, ok := tc.attest.Vouched(); got != tc.want || ok != tc.ok {
			t.Errorf("%+v: vouched %d, %v; want %d, %v", tc.attest, got, ok, tc.want, tc.ok)
		}
	}
}

// TestLeaderAheadIsRefused has a leader whose clock runs away: nothing of what
// it stamps gets into the state, at once or by small steps.
func TestLeaderAheadIsRefused(t *testing.T) {
	l, now := newStampLog(), scriptStart
	if r := l.stamped(t, now, says(3, now, now)); r.Err != nil {
		t.Fatal(r.Err)
	}
	if r := l.stamped(t, now+hour, nil); r.Err == nil || r.Err.Code != job.CodeNoLeader {
		t.Errorf("an hour ahead: %v", r.Err)
	}
	if r := l.stamped(t, now+hour, says(3, now+hour, now)); r.Err == nil {
		t.Error("an hour ahead, vouched for by one of three, was taken")
	}
	if _, ok := GetAlert(l.tx, AlertClockStep, "s1"); ok || l.clock() != now {
		t.Errorf("the refused entry left something; the clock is %d", l.clock()-now)
	}
	refused := false
	for at := now; at < now+hour; at += 1000 {
		r := l.stamped(t, at, says(3, at, now, now))
		refused = refused || r.Err != nil
	}
	if !refused || l.clock() > now+MaxForward {
		t.Errorf("by small steps the leader moved the clock by %d ms", l.clock()-now)
	}
	if r := l.stamped(t, now+500, nil); r.Err != nil {
		t.Errorf("the next leader, whose clock is right: %v", r.Err)
	}
	if bad := Check(l.tx, 10); len(bad) > 0 {
		t.Error(bad)
	}
}

// TestIdleClusterGoesOn has entries after a month without any.
func TestIdleClusterGoesOn(t *testing.T) {
	for name, voters := range map[string]int{"one server": 1, "two": 2, "two of three": 3} {
		l, now := newStampLog(), scriptStart
		attest := func(at int64) *Attestation {
			if voters == 1 {
				return says(1, at)
			}
			return says(voters, at, at)
		}
		for range 3 {
			if r := l.stamped(t, now, attest(now)); r.Err != nil {
				t.Errorf("%s: %v", name, r.Err)
			}
			if r := l.stamped(t, now+30_000, nil); r.Err != nil {
				t.Errorf("%s, half a minute later: %v", name, r.Err)
			}
			l.m = NewMachine() // the state remembers, not the machine
			now += 30 * 24 * hour
		}
		if want := now - 30*24*hour + 30_000; l.clock() != want {
			t.Errorf("%s: the clock is %d ms off", name, l.clock()-want)
		}
	}
}

func TestAlertsAreBounded(t *testing.T) {
	l := newStampLog()
	for i := range int64(maxAlerts + 50) {
		if r := l.stamped(t, scriptStart+i, nil); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	alerts := ListAlerts(l.tx, 0)
	if len(alerts) != maxAlerts || alerts[0].Subject != "s1049" || alerts[maxAlerts-1].Subject != "s50" {
		t.Errorf("%d alerts, from %s to %s", len(alerts), alerts[0].Subject, alerts[len(alerts)-1].Subject)
	}
	if bad := Check(l.tx, 10); len(bad) > 0 {
		t.Error(bad)
	}
	c, _ := EncodeCommand(Expire{})
	b, _ := EncodeEntry(Entry{At: alerts[0].Changed, Commands: [][]byte{c}}) // moves the low marks
	mustApply(t, l.m, l.tx, logged{Meta{Index: l.index + 1}, b})
	oldest := alerts[maxAlerts-1].Changed
	if Expirable(l.tx, 0, oldest+AlertRetention) {
		t.Error("alerts that may stay are called expirable")
	}
	if !Expirable(l.tx, 0, oldest+AlertRetention+1) {
		t.Error("an alert past its retention is not called expirable")
	}
}
