package fsm

// Entry is one Raft log entry: commands that were gathered by group commit,
// with the leader's stamp. Encoded it is at most MaxEntryBytes, or holds one
// larger command alone.
type Entry struct {
	At       int64        `msgpack:"a"`           // the cluster's clock, Unix ms; apply never lets it go back
	Attest   *Attestation `msgpack:"w,omitempty"` // what allows At to be far ahead
	Commands [][]byte     `msgpack:"c"`           // each from EncodeCommand
}

// MaxEntryBytes bounds an encoded entry (raft's suggested maximum).
const MaxEntryBytes = 512 << 10

// Meta is where an entry stands in the log.
type Meta struct {
	Index uint64
	Term  uint64
}
