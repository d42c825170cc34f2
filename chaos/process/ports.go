package process

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"syscall"
)

// The ports that are tried lie below those that the kernel gives to outgoing
// connections: else one of them could take a server's port while it is down.
const (
	firstPort = 12_000
	lastPort  = 32_000
	portTries = 200 // for each that is wanted
)

// drawn are the ports that this process has been given: whoever got one may not
// listen on it yet, or not at the moment.
var drawn sync.Map

// FreePorts finds loopback addresses that nobody listens on, for TCP and UDP.
// They are drawn at random, so that other processes that look meanwhile hardly get
// the same, and none is given twice by one process.
func FreePorts(n int) ([]string, error) {
	var out []string
	var held []io.Closer
	// A child that is forked meanwhile would keep them bound until it has become
	// another program.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	defer func() {
		for _, h := range held {
			_ = h.Close()
		}
	}()
	for tries := 0; len(out) < n; tries++ {
		if tries == n*portTries {
			return nil, errors.New("no free ports on loopback")
		}
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(firstPort+rand.IntN(lastPort-firstPort)))
		if _, taken := drawn.LoadOrStore(address, true); taken {
			continue
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			continue
		}
		held = append(held, l)
		u, err := net.ListenPacket("udp", address)
		if err != nil {
			continue
		}
		held = append(held, u)
		out = append(out, address)
	}
	return out, nil
}
