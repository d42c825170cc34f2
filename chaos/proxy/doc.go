// Package proxy lies between the processes of a test: each is reached by the
// others at an address of the proxy's own, which passes on what comes, drops it,
// holds it back or delays it, apart for each ordered pair of processes and each of
// two planes: RPC, over TCP, and gossip, over TCP and UDP. Who speaks is known by
// the process that owns the socket, so programs need know nothing of it but the
// address they advertise. It counts what it did, since a fault that met no traffic
// has tested nothing. It needs Linux.
package proxy
