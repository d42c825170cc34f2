package proxy

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/axd-project/axd/chaos/process"
)

const patience = time.Minute

// place is a network with the nodes a, which is this process, and b, which is
// whatever listens at real.
type place struct {
	*Network
	t       *testing.T
	public  string
	real    net.Listener
	a, b    *net.UDPConn // their gossip
	publicB netip.AddrPort
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{Network: New(), t: t}
	t.Cleanup(p.Close)
	var err error
	if p.real, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.real.Close() })
	udp := func() *net.UDPConn {
		c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	p.a, p.b = udp(), udp()
	public, err := process.FreePorts(3)
	if err != nil {
		t.Fatal(err)
	}
	p.public = public[0]
	gossip := public[1]
	p.publicB = netip.MustParseAddrPort(gossip)
	for _, nd := range []Node{
		{Name: "a", PID: os.Getpid, Gossip: p.a.LocalAddr().String(), PublicGossip: public[2]},
		{
			Name: "b", PID: func() int { return 0 }, RPC: p.real.Addr().String(), PublicRPC: p.public,
			Gossip: p.b.LocalAddr().String(), PublicGossip: gossip,
		},
	} {
		if err := p.Add(nd); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// connect dials b through the network and returns both ends.
func (p *place) connect() (near, far *net.TCPConn) {
	p.t.Helper()
	near = p.dial()
	nc, err := p.real.Accept()
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = nc.Close() })
	return near, nc.(*net.TCPConn)
}

func (p *place) dial() *net.TCPConn {
	p.t.Helper()
	nc, err := net.Dial("tcp", p.public)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(patience))
	return nc.(*net.TCPConn)
}

// refused is the error with which a new connection ends; a reset can come before the
// call that dials has returned.
func (p *place) refused() error {
	nc, err := net.DialTimeout("tcp", p.public, patience)
	if err != nil {
		return err
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(patience))
	_, err = nc.Read(make([]byte, 1))
	return err
}

func (p *place) say(c io.Writer, text string) {
	p.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) hears(c *net.TCPConn, want string) {
	p.t.Helper()
	buf := make([]byte, len(want))
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if n, err := io.ReadFull(c, buf); err != nil || string(buf) != want {
		p.t.Fatalf("heard %q, %v; want %q", buf[:n], err, want)
	}
}

// hearsNothing looks for a moment.
func (p *place) hearsNothing(c *net.TCPConn) {
	p.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		p.t.Fatalf("heard %d bytes, %v; want none", n, err)
	}
}

func (p *place) until(what string, done func() bool) {
	p.t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("waited in vain until %s", what)
		}
	}
}

func TestPasses(t *testing.T) {
	p := newPlace(t)
	near, far := p.connect()
	p.say(near, "there")
	p.hears(far, "there")
	p.say(far, "back")
	p.hears(near, "back")
	_ = near.CloseWrite()
	if _, err := far.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the end of one direction arrived as %v", err)
	}
	p.say(far, "more")
	p.hears(near, "more")
	p.until("5 and 8 bytes are counted", func() bool { return p.Counts("a", "b", RPC).Passed == 5 && p.Counts("b", "a").Passed == 8 })
	if p.Total().Acted() != 0 {
		t.Errorf("counted %+v", p.Total())
	}
}

func TestCutHoldsAndLetsGo(t *testing.T) {
	p := newPlace(t)
	near, far := p.connect()
	p.say(near, "zero")
	p.hears(far, "zero")
	p.Set("a", "b", Rule{Mode: Cut}) // one way
	p.say(near, "one")
	p.say(far, "back")
	p.hears(near, "back")
	p.until("the cut has caught it", func() bool { return p.Counts("a", "b").Held > 0 })
	p.say(near, "two")
	late := p.dial()
	p.say(late, "three")
	p.hearsNothing(far)
	p.Heal()
	p.hears(far, "onetwo")
	nc, err := p.real.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	p.hears(nc.(*net.TCPConn), "three")
}

func TestACutHidesTheEndOfAProcess(t *testing.T) {
	p := newPlace(t)
	near, far := p.connect()
	p.Set("a", "b", Rule{Mode: Cut})
	_ = near.SetLinger(0)
	_ = near.Close()
	p.hearsNothing(far)
	p.Heal()
	_ = far.SetReadDeadline(time.Now().Add(patience))
	if _, err := far.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the cut it is hidden still: %v", err)
	}
}

func TestResetEndsOldAndNew(t *testing.T) {
	p := newPlace(t)
	near, far := p.connect()
	p.Set("b", "a", Rule{Mode: Reset}, RPC)
	for _, c := range []*net.TCPConn{near, far} {
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("read: %v", err)
		}
	}
	if err := p.refused(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a new connection: %v", err)
	}
	p.until("both are counted", func() bool { return p.Counts("b", "a").Resets+p.Counts("a", "b").Resets == 2 })
}

func TestWhoIsDownRefuses(t *testing.T) {
	p := newPlace(t)
	_ = p.real.Close()
	if err := p.refused(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a new connection: %v", err)
	}
}

func TestDelayAndBandwidth(t *testing.T) {
	p := newPlace(t)
	near, far := p.connect()
	for rule, least := range map[Rule]time.Duration{
		{Delay: 60 * time.Millisecond, Jitter: 5 * time.Millisecond}: 60 * time.Millisecond,
		{Bandwidth: 100_000}: 50 * time.Millisecond,
	} {
		p.Set("a", "b", rule)
		text := strings.Repeat("x", 5000) + "\n"
		began := time.Now()
		p.say(near, text)
		p.hears(far, text)
		if took := time.Since(began); took < least {
			t.Errorf("%+v: took %s", rule, took)
		}
		p.say(far, "back")
		p.hears(near, "back")
	}
	if d := p.Counts("a", "b").Delayed; d != 2*5001 {
		t.Errorf("%d bytes counted as delayed", d)
	}
}

func TestDatagrams(t *testing.T) {
	p := newPlace(t)
	send := func(text string) {
		t.Helper()
		if _, err := p.a.WriteToUDPAddrPort([]byte(text), p.publicB); err != nil {
			t.Fatal(err)
		}
	}
	hears := func(want string) {
		t.Helper()
		buf := make([]byte, 100)
		_ = p.b.SetReadDeadline(time.Now().Add(patience))
		if n, err := p.b.Read(buf); err != nil || string(buf[:n]) != want {
			t.Fatalf("heard %q, %v; want %q", buf[:n], err, want)
		}
	}
	send("one")
	hears("one")
	p.Set("a", "b", Rule{Mode: Cut}, Gossip)
	send("lost")
	p.until("it is lost", func() bool { return p.Counts("a", "b").Dropped == 1 })
	p.Set("a", "b", Rule{Delay: 20 * time.Millisecond})
	send("late")
	hears("late")
	p.Set("a", "b", Rule{Loss: 0.5})
	for range 100 {
		send("perhaps")
	}
	counts := func() Counts { return p.Counts("a", "b") }
	p.until("all are there or lost", func() bool { return counts().Dropped+counts().Datagrams == 103 })
	if lost := counts().Dropped - 1; lost < 20 || lost > 80 {
		t.Errorf("%d of 100 are lost with a chance of one half", lost)
	}
}

func TestStrangersAreRefused(t *testing.T) {
	p := newPlace(t)
	p.mu.Lock()
	p.nodes["a"].PID = func() int { return 0 }
	p.mu.Unlock()
	if err := p.refused(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a new connection: %v", err)
	}
	nobody, err := net.Dial("udp", p.publicB.String())
	if err != nil {
		t.Fatal(err)
	}
	defer nobody.Close()
	p.say(nobody, "x")
	p.until("both are counted", func() bool { return p.Unknown() == 2 })
}

func TestTableAddress(t *testing.T) {
	got := tableAddress(netip.MustParseAddrPort("127.0.0.1:80"))
	if !slices.Contains([]string{"0100007F:0050", "7F000001:0050"}, got) {
		t.Error(got)
	}
}
