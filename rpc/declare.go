package rpc

// MethodWorkerDeclare tells the leader regularly what the worker holds, as its
// hello does: Declare, Empty. What the two disagree on is mended.
const MethodWorkerDeclare = "worker.declare"

// Declare lists the attempts that a worker knows.
type Declare struct {
	Held []Held `msgpack:"h,omitempty"`
}
