package proxy

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	ownerTries = 20                   // the kernel may list a connection a moment late
	ownerPause = 2 * time.Millisecond // between two of them
	procTCP    = "/proc/self/net/tcp" // the table of this network namespace
)

// owner names the node whose process has the other end of a connection; empty:
// none of them.
func (n *Network) owner(nc *net.TCPConn) string {
	local, ok1 := nc.LocalAddr().(*net.TCPAddr)
	remote, ok2 := nc.RemoteAddr().(*net.TCPAddr)
	if !ok1 || !ok2 {
		return ""
	}
	for range ownerTries {
		inode := inodeOf(remote.AddrPort(), local.AddrPort())
		if inode != "" {
			for pid, name := range n.processes() {
				if holds(pid, inode) {
					return name
				}
			}
		}
		if n.ctx.Err() != nil {
			return ""
		}
		time.Sleep(ownerPause)
	}
	return ""
}

// inodeOf finds the socket that is bound to one address and connected to another,
// in the kernel's table of TCP over IPv4; empty: there is none.
func inodeOf(local, remote netip.AddrPort) string {
	f, err := os.Open(procTCP)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	want := tableAddress(local) + " " + tableAddress(remote) + " "
	for lines := bufio.NewScanner(f); lines.Scan(); {
		_, row, ok := strings.Cut(lines.Text(), ": ")
		if !ok || !strings.HasPrefix(row, want) {
			continue
		}
		const inodeField = 8 // of proc_net_tcp(5), counted behind the number of the row
		if fields := strings.Fields(row); len(fields) > inodeField && fields[inodeField] != "0" {
			return fields[inodeField]
		}
	}
	return ""
}

// tableAddress writes an address as the kernel's table does: each 32 bits in the
// machine's own order.
func tableAddress(a netip.AddrPort) string {
	ip := a.Addr().Unmap().As4()
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		slices.Reverse(ip[:])
	}
	port := strconv.FormatUint(uint64(a.Port()), 16)
	return strings.ToUpper(hex.EncodeToString(ip[:]) + ":" + strings.Repeat("0", 4-len(port)) + port)
}

// holds tells whether a process has a socket open.
func holds(pid int, inode string) bool {
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	files, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	want := "socket:[" + inode + "]"
	for _, f := range files {
		if to, err := os.Readlink(filepath.Join(dir, f.Name())); err == nil && to == want {
			return true
		}
	}
	return false
}
