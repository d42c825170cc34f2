package rpc

// MethodWorkerDone asks what an attempt has recorded as done, or records it: Done,
// DoneReply. An attempt that is no longer valid is refused.
const MethodWorkerDone = "worker.done"

// Done asks by the name of a side effect within a task.
type Done struct {
	Ref    Ref    `msgpack:"r"`
	Name   string `msgpack:"n"`
	Record bool   `msgpack:"c,omitempty"` // else it only asks
	Value  []byte `msgpack:"v,omitempty"` // of a record: kept with it
}

// DoneReply tells what is recorded.
type DoneReply struct {
	Done    bool   `msgpack:"d,omitempty"`
	Value   []byte `msgpack:"v,omitempty"`
	Attempt uint32 `msgpack:"a,omitempty"` // that recorded it
}
