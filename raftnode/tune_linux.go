package raftnode

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// tune makes the kernel notice a silently dead peer: by keep-alives while the
// connection is idle, by the user time-out while data waits for an
// acknowledgement. It is best effort; the deadlines hold without it.
func tune(nc net.Conn) {
	tcp := tcpOf(nc)
	if tcp == nil {
		return
	}
	_ = tcp.SetKeepAliveConfig(keepAlive)
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(2*writeStall/time.Millisecond))
	})
}
