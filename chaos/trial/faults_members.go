package trial

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/axd-project/axd/client"
)

// joinBound is how long a change of members may keep writes from being accepted.
const joinBound = 30 * time.Second

func memberScenarios() []Scenario {
	const group = "members"
	return []Scenario{
		{Name: "replace-server", Group: group, Short: true, Summary: "a server is removed for good and a new one joins", play: replaceServer},
		{Name: "lost-disk", Group: group, Summary: "a server dies with its data and comes back empty under its name", play: lostDisk},
		{Name: "transfer", Group: group, Summary: "leadership is handed over every two seconds", play: transfer},
	}
}

// operator is a client that asks until it is answered.
func (st *stage) operator() *client.Client { return st.load.clients[0] }

func replaceServer(ctx context.Context, st *stage) error {
	round := 0
	return st.rounds(ctx, func(ctx context.Context) error {
		if round++; round == servers { // callers know the first three servers, and need one of them
			return st.rest(ctx, max(0, time.Until(st.until)))
		}
		leader, old, err := st.follower(ctx)
		if err != nil {
			return err
		}
		if round == 2 {
			old = leader
		}
		name := fmt.Sprintf("s%d", servers+round)
		f := st.fault(joinBound, "%s is removed, %s joins", old.Name(), name)
		fresh, err := st.Grow(name)
		if err != nil {
			return err
		}
		if err := st.wire(fresh); err != nil {
			return err
		}
		st.watch.add(fresh)
		if err := st.restart(ctx, fresh); err != nil {
			return err
		}
		if err := st.votes(ctx, fresh.Name()); err != nil {
			return err
		}
		if err := st.operator().RemoveServer(ctx, old.Name(), false); err != nil {
			return fmt.Errorf("remove %s: %w", old.Name(), err)
		}
		select {
		case <-old.Done():
			f.acted("%s joined with a vote; %s ended with code %d", name, old.Name(), old.ExitCode())
		case <-time.After(st.speed.scale(formTime)):
			st.violated("server %s was removed and lives on", old.Name())
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		st.Servers = slices.DeleteFunc(st.Servers, func(s *server) bool { return s == old })
		f.end(false)
		return st.recovered(ctx, f)
	})
}

// votes waits until a server is a member with a vote.
func (st *stage) votes(ctx context.Context, name string) error {
	wait, cancel := context.WithTimeoutCause(ctx, st.speed.scale(formTime), errors.New("server "+name+" gets no vote"))
	defer cancel()
	for {
		got, err := st.operator().Cluster(wait)
		if err == nil && slices.ContainsFunc(got.Servers, func(s client.Server) bool { return s.Name == name && s.Voter }) {
			return nil
		}
		if err := st.rest(wait, lookEvery); err != nil {
			return promised(ctx, err)
		}
	}
}

func lostDisk(ctx context.Context, st *stage) error {
	return st.rounds(ctx, func(ctx context.Context) error {
		_, s, err := st.follower(ctx)
		if err != nil {
			return err
		}
		f := st.fault(electBound, "%s dies with its data", s.Name())
		if err := st.kill(f, s); err != nil {
			return err
		}
		if err := os.RemoveAll(s.DataDir); err != nil {
			return err
		}
		if err := st.recovered(ctx, f); err != nil {
			return err
		}
		if err := st.restart(ctx, s); err != nil {
			return err
		}
		f.end(false)
		return st.votes(ctx, s.Name())
	})
}

func transfer(ctx context.Context, st *stage) error {
	return st.rounds(ctx, func(ctx context.Context) error {
		f := st.fault(electBound, "leadership is handed over again and again, for 8s")
		moved := 0
		for end := time.Now().Add(8 * time.Second); time.Now().Before(end); {
			if _, err := st.operator().TransferLeadership(ctx, ""); err == nil {
				moved++
			}
			if err := st.rest(ctx, 2*time.Second); err != nil {
				return err
			}
		}
		if moved > 0 {
			f.acted("it was handed over %d times", moved)
		}
		f.end(false)
		return st.recovered(ctx, f)
	})
}
