//go:build !linux

package raftnode

import "net"

// tune makes the kernel notice a silently dead peer. It is best effort; the
// deadlines hold without it.
func tune(nc net.Conn) {
	if tcp := tcpOf(nc); tcp != nil {
		_ = tcp.SetKeepAliveConfig(keepAlive)
	}
}
