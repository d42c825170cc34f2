package cluster

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"strconv"
	"syscall"
	"time"

	"github.com/hashicorp/memberlist"
)

// bindTries is how often a free port is looked for that both TCP and UDP have.
const bindTries = 10

// network sets transport and addresses.
func (c *Cluster) network(conf *memberlist.Config) error {
	if c.cfg.Transport == nil {
		t, err := listen(c.ctx, c.cfg.Bind, conf.Logger)
		if err != nil {
			return err
		}
		conf.Transport = t
	} else {
		conf.Transport = c.cfg.Transport
	}
	err := c.advertise(conf)
	if err != nil {
		_ = conf.Transport.Shutdown()
		return err
	}
	conf.Transport = &endingTransport{Transport: conf.Transport, ctx: c.ctx}
	return nil
}

// advertise sets the address that others are told, where the transport doesn't
// know it by itself.
func (c *Cluster) advertise(conf *memberlist.Config) error {
	bound, own := conf.Transport.(*netTransport)
	if c.cfg.Advertise == "" {
		if own && bound.ip.IsUnspecified() {
			ip, err := privateIP()
			if err != nil {
				return fmt.Errorf("gossip listens on every address (%s): %w", c.cfg.Bind, err)
			}
			conf.AdvertiseAddr, conf.AdvertisePort = ip.String(), bound.port
		}
		return nil
	}
	ip, port, err := resolve(c.ctx, c.cfg.Advertise)
	if err != nil {
		return fmt.Errorf("advertised gossip address: %w", err)
	}
	if port == 0 && own {
		port = bound.port
	}
	conf.AdvertiseAddr, conf.AdvertisePort = ip.String(), port
	return nil
}

// netTransport is memberlist's, bound to one address.
type netTransport struct {
	*memberlist.NetTransport
	ctx  context.Context
	ip   net.IP
	port int
}

func listen(ctx context.Context, bind string, logger *log.Logger) (*netTransport, error) {
	ip, port, err := resolve(ctx, bind)
	if err != nil {
		return nil, fmt.Errorf("gossip address: %w", err)
	}
	var nt *memberlist.NetTransport
	for range bindTries {
		nt, err = memberlist.NewNetTransport(&memberlist.NetTransportConfig{
			BindAddrs: []string{ip.String()}, BindPort: port, Logger: logger,
		})
		if err == nil {
			return &netTransport{NetTransport: nt, ctx: ctx, ip: ip, port: nt.GetAutoBindPort()}, nil
		}
		if port != 0 {
			break
		}
	}
	if taken(bind) {
		return nil, fmt.Errorf("gossip address %s is in use by another process: stop it, or choose another address", bind)
	}
	return nil, fmt.Errorf("listen for gossip on %s: %w", bind, err)
}

// taken tells whether an address is in use, which memberlist's error hides.
func taken(bind string) bool {
	ln, err := net.Listen("tcp", bind)
	if err != nil {
		return errors.Is(err, syscall.EADDRINUSE)
	}
	_ = ln.Close()
	pc, err := net.ListenPacket("udp", bind)
	if err != nil {
		return errors.Is(err, syscall.EADDRINUSE)
	}
	_ = pc.Close()
	return false
}

// DialTimeout ends with the Cluster, too.
func (t *netTransport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	d := net.Dialer{Timeout: timeout}
	return d.DialContext(t.ctx, "tcp", addr)
}

// endingTransport closes the connections it dialled when the Cluster ends, since
// memberlist would wait for their time-outs.
type endingTransport struct {
	memberlist.Transport
	ctx context.Context
}

func (t *endingTransport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	if err := t.ctx.Err(); err != nil {
		return nil, err
	}
	nc, err := t.Transport.DialTimeout(addr, timeout)
	if err != nil {
		return nil, err
	}
	return &endingConn{Conn: nc, stop: context.AfterFunc(t.ctx, func() { _ = nc.Close() })}, nil
}

type endingConn struct {
	net.Conn
	stop func() bool
}

func (c *endingConn) Close() error {
	c.stop()
	return c.Conn.Close()
}

// resolve turns host:port into an address. An empty host is every address.
func resolve(ctx context.Context, address string) (net.IP, int, error) {
	host, p, err := net.SplitHostPort(address)
	if err != nil {
		return nil, 0, fmt.Errorf("must be host:port, not %q", address)
	}
	port, err := strconv.ParseUint(p, 10, 16)
	if err != nil {
		return nil, 0, fmt.Errorf("must end in a port number to 65535, not %q", address)
	}
	if host == "" {
		return net.IPv4zero, int(port), nil
	}
	if ip := net.ParseIP(host); ip != nil {
		return ip, int(port), nil
	}
	ips, err := net.DefaultResolver.LookupIP(ctx, "ip", host)
	if err != nil {
		return nil, 0, fmt.Errorf("look up %q: %w", address, err)
	}
	for _, ip := range ips {
		if ip.To4() != nil { // what others are likelier to reach
			return ip, int(port), nil
		}
	}
	return ips[0], int(port), nil
}

// privateIP is an address of this host that others may reach.
func privateIP() (net.IP, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsPrivate() {
			return n.IP, nil
		}
	}
	return nil, errors.New("this host has no private address: say which one others shall use")
}
