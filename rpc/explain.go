package rpc

// MethodExplain asks the leader why a task isn't running: Explain, ExplainReply.
const MethodExplain = "server.explain"

// Explain names the task.
type Explain struct {
	Namespace string   `msgpack:"n"`
	ID        [16]byte `msgpack:"i"`
}

// ExplainReply carries what only the leader knows.
type ExplainReply struct {
	Version uint64 `msgpack:"v"` // of the task's record that it is about; 0: there is none
	Reasons []byte `msgpack:"r"` // []job.Reason as msgpack, opaque here
}
