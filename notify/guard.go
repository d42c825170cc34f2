package notify

import (
	"fmt"
	"net/netip"
	"syscall"
)

// denied are the addresses that callbacks must not reach unless the operator allows
// them: whoever may submit a task could otherwise speak from a server's place in the
// network with what trusts its neighbours. The reasons are shown to users.
var denied = []struct {
	prefix netip.Prefix
	what   string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "an address of this host"},
	{netip.MustParsePrefix("10.0.0.0/8"), "a private address"},
	{netip.MustParsePrefix("100.64.0.0/10"), "an address of a carrier's inner network"},
	{netip.MustParsePrefix("127.0.0.0/8"), "a loopback address"},
	{netip.MustParsePrefix("168.63.129.16/32"), "a metadata address"},
	{netip.MustParsePrefix("169.254.0.0/16"), "a link-local or metadata address"},
	{netip.MustParsePrefix("172.16.0.0/12"), "a private address"},
	{netip.MustParsePrefix("192.0.0.0/24"), "an address for protocols"},
	{netip.MustParsePrefix("192.168.0.0/16"), "a private address"},
	{netip.MustParsePrefix("198.18.0.0/15"), "an address for benchmarks"},
	{netip.MustParsePrefix("224.0.0.0/4"), "a multicast address"},
	{netip.MustParsePrefix("240.0.0.0/4"), "a reserved address"},
	{netip.MustParsePrefix("::/128"), "an address of this host"},
	{netip.MustParsePrefix("::1/128"), "a loopback address"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "an address that is translated locally"},
	{netip.MustParsePrefix("2001::/32"), "a tunnel's address"},
	{netip.MustParsePrefix("fc00::/7"), "a private or metadata address"},
	{netip.MustParsePrefix("fe80::/10"), "a link-local address"},
	{netip.MustParsePrefix("fec0::/10"), "a private address"},
	{netip.MustParsePrefix("ff00::/8"), "a multicast address"},
}

// carriers are the prefixes whose addresses hold an IPv4 address, and the byte that
// it begins at.
var carriers = []struct {
	prefix netip.Prefix
	at     int
}{
	{netip.MustParsePrefix("::/96"), 12},
	{netip.MustParsePrefix("64:ff9b::/96"), 12},
	{netip.MustParsePrefix("2002::/16"), 2},
}

// Guard decides which addresses may be reached.
type Guard struct {
	Allow []netip.Prefix // although they are denied by default
}

// Check returns an error for an address that must not be reached.
func (g Guard) Check(a netip.Addr) error {
	a = a.Unmap().WithZone("")
	for _, p := range g.Allow {
		if p.Contains(a) {
			return nil
		}
	}
	for _, d := range denied {
		if d.prefix.Contains(a) {
			return fmt.Errorf("%s is %s, which requests of servers may reach only where their --callback-allow says so", a, d.what)
		}
	}
	b := a.As16()
	for _, c := range carriers {
		if a.Is6() && c.prefix.Contains(a) {
			inner := netip.AddrFrom4([4]byte(b[c.at:]))
			if err := g.Check(inner); err != nil {
				return fmt.Errorf("%s leads to an IPv4 address: %w", a, err)
			}
		}
	}
	return nil
}

// control is a net.Dialer's Control: it sees the address that a name has come to, so
// that a name can't lead where its number may not.
func (g Guard) control(_, address string, _ syscall.RawConn) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("can't tell whether %q may be reached: %w", address, err)
	}
	return g.Check(a.Addr())
}
