package trial

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/axd-project/axd/client"
)

// How soon leadership has to leave a server whose clock is wrong.
const clockBound = 30 * time.Second

// clockSkew is how far the cluster's clock may be ahead of true time while a server's is
// wrong: what servers allow each other, which is more than what a leader at double speed
// gains between two looks at the others' clocks, and as much again for a machine so busy
// that they are slow to answer.
const clockSkew = 2 * 500 * time.Millisecond

func clockScenarios() []Scenario {
	turned := func(name, summary, how, text string) Scenario {
		return Scenario{
			Name: name, Group: "clocks", Clocks: true, Summary: summary, skew: clockSkew,
			play: func(ctx context.Context, st *stage) error { return turnedClock(ctx, st, how, text) },
		}
	}
	return []Scenario{
		turned("clock-ahead", "the leader's wall clock is an hour ahead", "wall 1h", "is an hour ahead"),
		turned("clock-behind", "the leader's wall clock is an hour behind", "wall -1h", "is an hour behind"),
		turned("clock-forward", "the leader's wall clock steps forward by a minute", "wall 60s", "steps forward by 60 s"),
		turned("clock-back", "the leader's wall clock steps back by a minute", "wall -60s", "steps back by 60 s"),
		turned("clock-frozen", "all clocks of the leader stand still", "frozen", "stands still"),
		turned("clock-half", "all clocks of the leader run at half speed", "rate 0.5", "runs at half speed"),
		turned("clock-double", "all clocks of the leader run at double speed", "rate 2", "runs at double speed"),
	}
}

// turnedClock turns the leader's clock, wants another to lead and an alert, and
// turns it right again.
func turnedClock(ctx context.Context, st *stage, how, text string) error {
	return st.rounds(ctx, func(ctx context.Context) error {
		leader, err := st.leader(ctx)
		if err != nil {
			return err
		}
		f := st.fault(clockBound, "the clock of the leader %s %s", leader.Name(), text)
		path := filepath.Join(st.clocks, strconv.Itoa(leader.PID()))
		if err := os.WriteFile(path, []byte(how+"\n"), 0o600); err != nil {
			return err
		}
		noticed := false
		for end := time.Now().Add(st.speed.scale(clockBound)); time.Now().Before(end) && !noticed; {
			if err := st.rest(ctx, lookEvery); err != nil {
				return err
			}
			is := st.Leadership(ctx)
			noticed = is.Leader != "" && is.Leader != leader.Name()
		}
		if noticed {
			f.acted("leadership left %s after %s", leader.Name(), time.Since(f.get().From).Round(10*time.Millisecond))
		} else {
			f.acted("%s leads still", leader.Name())
			st.violated("server %s leads although its clock %s", leader.Name(), text)
		}
		if err := st.alerted(ctx, leader.Name()); err != nil {
			return err
		}
		if err := st.recovered(ctx, f); err != nil {
			return err
		}
		if err := st.rest(ctx, 3*time.Second); err != nil {
			return err
		}
		// What a rate has gained stays gained, and of three clocks only one may be
		// wrong: the next life of the server has a right one.
		if err := leader.Stop(st.speed.scale(stopTime)); err != nil {
			return &brokenError{err}
		}
		defer f.end(false)
		return st.restart(ctx, leader)
	})
}

// alerted wants an alert of a server's clock.
func (st *stage) alerted(ctx context.Context, name string) error {
	kinds := []string{"clock_skew", "clock_step", "clock_absurd", "suspend"}
	for end := time.Now().Add(st.speed.scale(clockBound)); time.Now().Before(end); {
		list, err := st.operator().Alerts(ctx, "", 1000)
		if err == nil && slices.ContainsFunc(list.Alerts, func(a client.Alert) bool {
			return a.Subject == name && slices.Contains(kinds, a.Kind)
		}) {
			return nil
		}
		if err := st.rest(ctx, lookEvery); err != nil {
			return err
		}
	}
	st.violated("no alert tells of the clock of server %s", name)
	return nil
}
