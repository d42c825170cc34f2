package rpc

// The methods by which an operator's wishes reach the server that can fulfil them.
const (
	MethodAdd      = "server.add"      // to the leader: Join without Boot, Empty
	MethodBelong   = "server.belong"   // leader → a new server: Belong, Empty
	MethodRemove   = "server.remove"   // to the leader: Remove, Empty
	MethodTransfer = "server.transfer" // to the leader: Transfer, TransferReply
	MethodStatus   = "server.status"   // to a server: Empty, StatusReply
	MethodRestore  = "server.restore"  // to the leader: Restore, RestoreReply
	MethodArchive  = "server.archive"  // leader → who asked it to restore, stream: Archive, chunks of ArchiveChunk
)

// Belong tells a new server that the leader adds it to the cluster.
type Belong struct {
	ClusterID string `msgpack:"c"`
	Name      string `msgpack:"n"`           // whom the leader means
	Probe     bool   `msgpack:"p,omitempty"` // only tell whether it would
}

// Remove asks for the removal of a server.
type Remove struct {
	Name  string `msgpack:"n"`
	Force bool   `msgpack:"f,omitempty"` // even where too few are left
}

// Transfer asks the leader to hand leadership over.
type Transfer struct {
	To string `msgpack:"t,omitempty"` // empty: whoever lacks least
}

// TransferReply tells who leads now.
type TransferReply struct {
	From   string `msgpack:"f"`
	To     string `msgpack:"t"`
	Term   uint64 `msgpack:"T"`
	TookUS int64  `msgpack:"d"`
}

// StatusReply tells what a server holds, and the hash chain that the newest
// checksum entry found.
type StatusReply struct {
	Applied  uint64 `msgpack:"a"`
	SumIndex uint64 `msgpack:"i"` // of the checksum entry; 0: none yet
	Chain    uint64 `msgpack:"c"`
}

// Restore asks the leader to fetch an archive from the sender and to replace the
// cluster's state by it.
type Restore struct {
	Address string `msgpack:"a"` // to fetch it from
	ID      string `msgpack:"i"` // of the archive
	Force   bool   `msgpack:"f,omitempty"`
}

// RestoreReply tells what was restored.
type RestoreReply struct {
	Applied uint64 `msgpack:"a"` // the archive's newest entry
	Epoch   uint32 `msgpack:"e"` // of tokens from now on
}

// Archive asks for an archive's stream.
type Archive struct {
	ID string `msgpack:"i"`
}

// ArchiveChunk is a piece of it.
type ArchiveChunk struct {
	Data []byte `msgpack:"d"`
}
