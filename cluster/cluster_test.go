package cluster

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"
)

func TestMembersAreSeenAsTheySayTheyAre(t *testing.T) {
	inWorld(t, func(w *world) {
		all := w.servers()
		worker := w.start(RoleWorker, "w1", 9, func(c *Config) {
			c.Self.Slots, c.Self.Labels = 8, map[string]string{"zone": "a"}
		})
		w.within(5*time.Second, "the worker is seen", func() bool { return sees(all[2], RoleWorker, "w1", Alive) })
		m, _ := all[2].Member(RoleWorker, "w1")
		if m.Slots != 8 || m.Labels["zone"] != "a" || m.Boot != "boot4" || m.Version != "v1" || m.Gossip != "10.0.0.1:9" || m.LabelsCut {
			t.Errorf("%+v", m)
		}
		if got := worker.Self(); got.Gossip != "10.0.0.1:9" || got.Liveness != Alive {
			t.Errorf("self %+v", got)
		}
		var names []string
		for _, m := range worker.Members() {
			names = append(names, string(m.Role)+m.Name)
		}
		if got := strings.Join(names, " "); got != "servers1 servers2 servers3 workerw1" {
			t.Errorf("members %s", got)
		}

		changed := all[0].Changed()
		<-changed // a new channel yields at once
		worker.Update(func(m *Member) { m.Slots, m.Name = 2, "other"; m.Labels["zone"] = "b" })
		<-changed
		w.within(5*time.Second, "the change is seen", func() bool {
			m, _ := all[0].Member(RoleWorker, "w1")
			return m.Slots == 2 && m.Labels["zone"] == "b"
		})
	})
}

func TestKilledMemberIsSuspectThenDead(t *testing.T) {
	inWorld(t, func(w *world) {
		all := w.servers()
		time.Sleep(time.Minute)
		_ = all[1].Close()
		for _, c := range []*Cluster{all[0], all[2]} {
			w.within(6*time.Second, "suspect", func() bool { return sees(c, RoleServer, "s2", Suspect) })
		}
		for _, c := range []*Cluster{all[0], all[2]} {
			w.within(20*time.Second, "dead", func() bool { return sees(c, RoleServer, "s2", Dead) })
		}
		time.Sleep(5 * time.Minute) // long after memberlist forgot it
		if !sees(all[0], RoleServer, "s2", Dead) {
			t.Error("the dead are not listed")
		}
	})
}

// Who asks when a member was last there is told when something came from it, not
// when they asked.
func TestSeenIsTheLastSignOfLife(t *testing.T) {
	inWorld(t, func(w *world) {
		all := w.servers()
		worker := w.start(RoleWorker, "w1", 9, nil)
		w.within(5*time.Second, "the worker is seen", func() bool { return sees(all[0], RoleWorker, "w1", Alive) })
		w.during(time.Minute, "seen too long ago, or in the future", func() bool {
			m, _ := all[0].Member(RoleWorker, "w1")
			return time.Since(m.Seen) > 5*time.Second || m.Seen.After(time.Now())
		})
		_ = worker.Close()
		died := time.Now()
		for _, opinion := range []Liveness{Suspect, Dead} {
			w.within(20*time.Second, string(opinion), func() bool { return sees(all[0], RoleWorker, "w1", opinion) })
			if m, _ := all[0].Member(RoleWorker, "w1"); m.Seen.After(died) || died.Sub(m.Seen) > 5*time.Second {
				t.Errorf("%s: it died at %v and was last seen at %v", opinion, died, m.Seen)
			}
		}
	})
}

func TestHealthyMembersAreNeverSuspect(t *testing.T) {
	inWorld(t, func(w *world) {
		all := w.servers()
		for i := range 10 {
			w.start(RoleWorker, fmt.Sprintf("w%d", i), 10+i, nil)
		}
		time.Sleep(10 * time.Second)
		w.during(time.Minute, "somebody is not alive", func() bool {
			for _, m := range all[0].Members() {
				if m.Liveness != Alive {
					return true
				}
			}
			return len(all[0].Members()) != 13
		})
	})
}

func TestLeavingMemberHasLeft(t *testing.T) {
	inWorld(t, func(w *world) {
		all := w.servers()
		worker := w.start(RoleWorker, "w1", 9, nil)
		for _, c := range all {
			w.within(5*time.Second, "seen", func() bool { return sees(c, RoleWorker, "w1", Alive) })
		}
		start := time.Now()
		if err := worker.Leave(w.t.Context()); err != nil || time.Since(start) > leaveTimeout {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		for _, c := range all {
			if !sees(c, RoleWorker, "w1", Left) {
				t.Error("not seen as left")
			}
		}
		w.during(time.Minute, "it stays so", func() bool { return !sees(all[0], RoleWorker, "w1", Left) })
		if err := errors.Join(worker.Leave(w.t.Context()), worker.Close()); err != nil {
			t.Error(err)
		}
	})
}

func TestQuickRestartIsANewBoot(t *testing.T) {
	for _, port := range []int{9, 10} { // same address, and another
		inWorld(t, func(w *world) {
			all := w.servers()
			first := w.start(RoleWorker, "w1", 9, nil)
			w.within(5*time.Second, "seen", func() bool { return sees(all[0], RoleWorker, "w1", Alive) })
			_ = first.Close()
			second := w.start(RoleWorker, "w1", port, nil)
			w.within(2*time.Second, "the new boot is seen", func() bool {
				m, _ := all[0].Member(RoleWorker, "w1")
				return m.Boot == "boot5" && m.Liveness == Alive
			})
			w.during(time.Minute, "the old one matters", func() bool {
				m, _ := all[0].Member(RoleWorker, "w1")
				return m.Boot != "boot5" || m.Liveness != Alive || len(second.Conflict()) > 0
			})
		})
	}
}

func TestLatecomersAreJoined(t *testing.T) {
	inWorld(t, func(w *world) {
		s1 := w.start(RoleServer, "s1", 1, nil)
		time.Sleep(5 * time.Minute) // alone
		s3 := w.start(RoleServer, "s3", 3, func(c *Config) { c.Join = nil })
		w.within(joinDelayMax+time.Second, "s1 keeps trying", func() bool {
			return sees(s1, RoleServer, "s3", Alive) && sees(s3, RoleServer, "s1", Alive)
		})
		w.start(RoleServer, "s2", 2, func(c *Config) { c.Join = nil })
		w.within(RejoinInterval+time.Second, "also when it isn't alone", func() bool {
			return sees(s1, RoleServer, "s2", Alive)
		})
	})
}

func TestLongPartitionHeals(t *testing.T) {
	inWorld(t, func(w *world) {
		var all [3]*Cluster
		for i := range all { // Raft knows the servers; what was joined first may be gone
			all[i] = w.start(RoleServer, fmt.Sprintf("s%d", i+1), i+1, func(c *Config) { c.Join = nil })
			all[i].Rejoin(func() []string { return []string{"10.0.0.1:1", "10.0.0.1:2", "10.0.0.1:3"} })
		}
		w.within(5*time.Second, "all see all", func() bool {
			return len(all[0].Members())+len(all[1].Members())+len(all[2].Members()) == 9
		})
		w.net.cut(1, "10.0.0.1:3")
		w.within(30*time.Second, "the partition is seen", func() bool {
			return sees(all[0], RoleServer, "s3", Dead) && sees(all[2], RoleServer, "s1", Dead) && sees(all[2], RoleServer, "s2", Dead)
		})
		time.Sleep(5 * time.Minute)
		w.net.cut(0, "10.0.0.1:3")
		took := w.within(3*RejoinInterval, "healed", func() bool {
			return sees(all[0], RoleServer, "s3", Alive) && sees(all[1], RoleServer, "s3", Alive) &&
				sees(all[2], RoleServer, "s1", Alive) && sees(all[2], RoleServer, "s2", Alive)
		})
		t.Logf("healed after %v", took)
	})
}

func TestForeignClusterIsIgnored(t *testing.T) {
	inWorld(t, func(w *world) {
		id := func(id string) func(*Config) { return func(c *Config) { c.Self.ClusterID = id } }
		ours := w.start(RoleServer, "s1", 1, id("c1"))
		mate := w.start(RoleServer, "s2", 2, id("c1"))
		stranger := w.start(RoleServer, "x1", 3, id("c2"))
		young := w.start(RoleWorker, "w1", 9, nil) // knows no cluster yet
		w.within(5*time.Second, "mates are seen", func() bool {
			return sees(ours, RoleServer, "s2", Alive) && sees(mate, RoleWorker, "w1", Alive) && sees(young, RoleServer, "x1", Alive)
		})
		w.during(time.Minute, "strangers are seen", func() bool {
			_, a := ours.Member(RoleServer, "x1")
			_, b := stranger.Member(RoleServer, "s1")
			return a || b
		})
		if n := ours.ml.NumMembers(); n != 3 {
			t.Errorf("gossip goes on with %d members, strangers among them", n)
		}
		young.Update(func(m *Member) { m.ClusterID = "c1" })
		if _, ok := young.Member(RoleServer, "x1"); ok {
			t.Error("who turns out to be a stranger is listed")
		}
		w.within(5*time.Second, "the choice is seen", func() bool {
			m, _ := ours.Member(RoleWorker, "w1")
			return m.ClusterID == "c1"
		})
	})
}

func TestSecondProcessOfANameIsRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		all := w.servers()
		time.Sleep(time.Minute)
		second := w.start(RoleServer, "s1", 4, nil)
		w.within(10*time.Second, "the newcomer is told", func() bool { return len(second.Conflict()) > 0 })
		var e *ConflictError
		if err := <-second.Conflict(); !errors.As(err, &e) || e.Other.Boot != "boot1" || !strings.Contains(err.Error(), "another server named s1 is alive at 10.0.0.1:1") {
			t.Error(err)
		}
		if len(all[0].Conflict()) > 0 {
			t.Error("the first one is told to end")
		}
		w.during(time.Minute, "told again", func() bool { return len(second.Conflict()) > 0 })
	})
}

// A server that moves finds its old life alive in gossip, but not on the wire.
func TestMovedServerIsNoConflict(t *testing.T) {
	inWorld(t, func(w *world) {
		all := w.servers()
		_ = all[0].Close()
		moved := w.start(RoleServer, "s1", 4, nil)
		w.within(2*time.Second, "the move is seen", func() bool {
			m, _ := all[1].Member(RoleServer, "s1")
			return m.Gossip == "10.0.0.1:4" && m.Liveness == Alive
		})
		w.during(2*time.Minute, "a conflict", func() bool { return len(moved.Conflict()) > 0 })
	})
}

func TestWrongConfigIsRefused(t *testing.T) {
	busyTCP, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busyTCP.Close()
	busyUDP, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busyUDP.Close()
	for _, tt := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Self.Role = "" }, "role must be server or worker"},
		{func(c *Config) { c.Self.Name = "" }, "name must not be empty"},
		{func(c *Config) { c.Self.Boot = "a/b" }, "boot must not be empty or contain a slash"},
		{func(c *Config) { c.Self.RPC = strings.Repeat("x", 500) }, "over the limit of 512: shorten them"},
		{func(c *Config) { c.Join = []string{"host"} }, `an address to join must be host:port, not "host"`},
		{func(c *Config) { c.Bind = "127.0.0.1" }, `gossip address: must be host:port, not "127.0.0.1"`},
		{func(c *Config) { c.Bind = "127.0.0.1:99999" }, "must end in a port number"},
		{func(c *Config) { c.Advertise = "nonsense" }, "advertised gossip address: must be host:port"},
		{func(c *Config) { c.Bind = busyTCP.Addr().String() }, "is in use by another process: stop it, or choose another address"},
		{func(c *Config) { c.Bind = busyUDP.LocalAddr().String() }, "is in use by another process: stop it, or choose another address"},
	} {
		cfg := Config{Self: Member{Role: RoleServer, Name: "s1", Boot: "b1"}, Bind: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)}
		tt.change(&cfg)
		c, err := Start(cfg)
		if err == nil {
			_ = c.Close()
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
}

// Real sockets, found by a free port, bound to loopback alone.
func TestLoopback(t *testing.T) {
	var all []*Cluster
	for i := range 3 {
		cfg := Config{
			Self: Member{Role: RoleServer, Name: fmt.Sprintf("s%d", i), Boot: "b"}, Bind: "localhost:0",
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		}
		if i > 0 {
			cfg.Join = []string{all[0].Self().Gossip}
		}
		c, err := Start(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if a := c.Self().Gossip; !strings.HasPrefix(a, "127.0.0.1:") || strings.HasSuffix(a, ":0") {
			t.Errorf("gossip address %s", a)
		}
		all = append(all, c)
	}
	until := time.After(time.Minute)
	for _, c := range all { // who leaves must know whom to tell
		for changed := c.Changed(); len(c.Members()) < 3; {
			select {
			case <-changed:
			case <-until:
				t.Fatalf("members: %+v", c.Members())
			}
		}
	}
	changed := all[0].Changed()
	if err := all[2].Leave(t.Context()); err != nil {
		t.Error(err)
	}
	for !sees(all[0], RoleServer, "s2", Left) {
		select {
		case <-changed:
		case <-until:
			t.Fatalf("members: %+v", all[0].Members())
		}
	}
	if all[0].Health() < 0 {
		t.Error("health")
	}
}

func TestWildcardNeedsAnAddressForOthers(t *testing.T) {
	cfg := Config{Self: Member{Role: RoleServer, Name: "s1", Boot: "b1"}, Bind: "0.0.0.0:0", Logger: slog.New(slog.DiscardHandler)}
	cfg.Advertise = "192.0.2.7:0"
	c, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if a := c.Self().Gossip; !strings.HasPrefix(a, "192.0.2.7:") || strings.HasSuffix(a, ":0") {
		t.Errorf("gossip address %s", a)
	}
}
