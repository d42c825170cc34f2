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

// claims hold the ports that this process has been given, until it ends: whoever got
// one may not listen on it yet, or not at the moment.
var claims sync.Map

// claim makes a port this process's among all that draw theirs here. A name in the
// kernel's abstract namespace is free again when its holder has ended, however it did.
func claim(port int) bool {
	l, err := net.Listen("unix", "@axd-port-"+strconv.Itoa(port))
	if err != nil {
		return false
	}
	claims.Store(port, l)
	return true
}

// FreePorts finds loopback addresses that nobody listens on, for TCP and UDP. No two
// calls are given the same one, be it by different processes, as long as these run.
func FreePorts(n int) ([]string, error) {
	return draw(n, 1)
}

// FreeRow finds n such ports in a row, and returns the first.
func FreeRow(n int) (int, error) {
	row, err := draw(n, n)
	if err != nil {
		return 0, err
	}
	_, first, err := net.SplitHostPort(row[0])
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(first)
}

// draw finds n free addresses, in rows.
func draw(n, row int) (out []string, err error) {
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
	for range n * portTries {
		if len(out) >= n {
			return out, nil
		}
		first := firstPort + rand.IntN(lastPort-firstPort-row+1)
		var found []string
		for port := first; port < first+row; port++ {
			address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
			bound, ok := bind(port, address)
			held = append(held, bound...)
			if !ok {
				break
			}
			found = append(found, address)
		}
		if len(found) == row {
			out = append(out, found...)
		}
	}
	return nil, errors.New("no free ports on loopback")
}

// bind claims a port and sees that nobody else listens on it.
func bind(port int, address string) (bound []io.Closer, ok bool) {
	if !claim(port) {
		return nil, false
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, false
	}
	u, err := net.ListenPacket("udp", address)
	if err != nil {
		return []io.Closer{l}, false
	}
	return []io.Closer{l, u}, true
}
