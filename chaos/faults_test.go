package chaos

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/axd-project/axd/cluster"
)

func TestRefusedLinksReset(t *testing.T) {
	joined(t, func(t *testing.T, n *Network, a, b net.Conn) {
		n.Refuse("a", "b")
		for _, c := range []net.Conn{a, b} {
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("a connection over a refused link ends with %v", err)
			}
		}
		for _, from := range []string{"a", "b"} {
			to := map[string]string{"a": "b:1", "b": "a:1"}[from]
			if _, err := n.ports[from].Dial(t.Context(), to); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("a dial from %s ends with %v", from, err)
			}
		}
		if n.Acted("a", "b") < 2 {
			t.Errorf("%d resets and refusals are counted", n.Acted("a", "b"))
		}
		n.Admit("a", "b")
		c, err := n.ports["a"].Dial(t.Context(), "b:1")
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
	})
}

func TestLostWritesArriveLate(t *testing.T) {
	joined(t, func(t *testing.T, n *Network, a, b net.Conn) {
		n.Lose("a", "b", 0.99)
		began := time.Now()
		send(t, a, "x")
		n.Lose("a", "b", 0)
		receive(t, b, "x")
		if took := time.Since(began); took < resendTime || n.Acted("a", "b") == 0 {
			t.Errorf("a write that was lost %d times took %v", n.Acted("a", "b"), took)
		}
	})
}

func TestGossipAloneIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork(rand.New(rand.NewPCG(1, 1)))
		g := NewGossip(n, rand.New(rand.NewPCG(1, 2)))
		ctx, stop := context.WithCancel(t.Context())
		var running []*Port
		members := map[string]*Member{}
		for _, host := range []string{"s1", "s2", "s3"} {
			running = append(running, n.Open(host))
			members[host] = g.Join(host, cluster.Member{Role: cluster.RoleServer, Name: host})
		}
		done := make(chan struct{})
		go func() { defer close(done); g.Run(ctx) }()
		is := func(who string) cluster.Liveness {
			m, _ := members["s1"].Member(cluster.RoleServer, who)
			return m.Liveness
		}
		time.Sleep(2 * gossipInterval)
		g.Cut("s2", "s1")
		time.Sleep(suspectAfter + 2*gossipInterval)
		if is("s2") != cluster.Alive {
			t.Error("a member that is reached through a third is suspect")
		}
		g.Cut("s2", "s3")
		time.Sleep(deadAfter + 2*gossipInterval)
		if is("s2") != cluster.Dead || is("s3") != cluster.Alive || g.Dropped() == 0 || !n.Connected("s1", "s2") {
			t.Errorf("s2 is %v, s3 %v, %d dropped", is("s2"), is("s3"), g.Dropped())
		}
		g.Heal("s2", "s1")
		g.Heal("s2", "s3")
		before := g.Dropped()
		g.Mute(0.5)
		time.Sleep(10 * gossipInterval)
		if g.Dropped() == before {
			t.Error("no message was lost")
		}
		g.Mute(0)
		time.Sleep(2 * gossipInterval)
		if is("s2") != cluster.Alive {
			t.Errorf("once healed s2 is %v", is("s2"))
		}
		stop()
		<-done
		for _, p := range running {
			p.Close(false)
		}
	})
}

func TestDisksFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDisk()
		if err := d.log.StoreLogs(entries(1, 5, 1)); err != nil {
			t.Fatal(err)
		}
		create := func() error {
			f, err := d.FS().Create("f", vfs.WriteCategoryUnspecified)
			if err != nil {
				return err
			}
			return f.Close()
		}
		d.Fail(syscall.EIO, nil)
		if err := d.log.Set([]byte("k"), nil); !errors.Is(err, syscall.EIO) || create() != nil || d.Failed() != 1 {
			t.Errorf("a write to a log that fails: %v, %d counted", err, d.Failed())
		}
		d.Fail(syscall.ENOSPC, syscall.ENOSPC)
		if err := create(); !errors.Is(err, syscall.ENOSPC) || d.Failed() != 2 {
			t.Errorf("a file on a full disk: %v, %d counted", err, d.Failed())
		}
		d.Fail(nil, nil)
		var told []string
		d.OnFile(func(path string) { told = append(told, path) })
		if err := errors.Join(create(), d.log.Set([]byte("k"), nil)); err != nil || !slices.Equal(told, []string{"f"}) {
			t.Errorf("a healed disk: %v, told of %v", err, told)
		}
	})
}

func TestAStalledWriteEndsWithItsProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDisk()
		write := func() <-chan time.Duration {
			began, took := time.Now(), make(chan time.Duration, 1)
			go func() {
				_ = d.log.Set([]byte("k"), nil)
				took <- time.Since(began)
			}()
			return took
		}
		d.Stall()
		first := write()
		time.Sleep(time.Minute)
		d.Resume()
		if took := <-first; took < time.Minute || d.Stalled() != 1 {
			t.Errorf("a stalled write took %v, %d counted", took, d.Stalled())
		}
		d.Stall()
		second := write()
		time.Sleep(time.Second)
		next := d.Crash(rand.New(rand.NewPCG(1, 1)), 0)
		if took := <-second; took > 2*time.Second {
			t.Errorf("a write of a process that crashed took %v", took)
		}
		began := time.Now()
		_ = next.log.Set([]byte("k"), nil)
		if took := time.Since(began); took > time.Second {
			t.Errorf("the next process's disk stalls for %v", took)
		}
	})
}

func TestClocksThatRunWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for rate, want := range map[float64]time.Duration{-1: -time.Minute, -0.5: -30 * time.Second, 1: time.Minute} {
			s := &Server{}
			s.TurnClock(rate)
			time.Sleep(time.Minute)
			if off := time.Until(s.wall()); off != want {
				t.Errorf("at %+g a clock is %v off after a minute", rate, off)
			}
			s.SetClock(0)
			if off := time.Until(s.wall()); off != 0 {
				t.Errorf("a clock that was set is %v off", off)
			}
		}
	})
}

func TestLastLinesAreKept(t *testing.T) {
	c := &Cluster{}
	for n := range maxLines + 2 {
		l := line{}
		l.record.Message = strings.Repeat("x", n%7) + "!"
		c.logLine(l)
	}
	log := c.Log()
	if len(log) != maxLines || !strings.Contains(log[0], " "+strings.Repeat("x", 2)+"!") ||
		!strings.Contains(log[maxLines-1], " "+strings.Repeat("x", (maxLines+1)%7)+"!") {
		t.Errorf("%d lines, from %q to %q", len(log), log[0], log[len(log)-1])
	}
}

func TestEachKindOfFaultIsTold(t *testing.T) {
	seen := map[Kind]bool{}
	for _, k := range Kinds() {
		if seen[k] || k.About() == "" {
			t.Errorf("kind %q is there twice, or says nothing of itself", k)
		}
		seen[k] = true
	}
}
