package fsm

// The codes of commands about secrets.
const (
	CodePutSecret    Code = 110
	CodeDeleteSecret Code = 111
)

// PutSecret creates a secret or gives it another value; the value before stays valid
// beside it, until the next one or Retire.
type PutSecret struct {
	Namespace string `msgpack:"n"`
	Name      string `msgpack:"N"`
	Sealed    []byte `msgpack:"s,omitempty"` // the value, encrypted; none: it stays
	Retire    bool   `msgpack:"r,omitempty"` // the value before is forgotten at once
}

// DeleteSecret forgets a secret.
type DeleteSecret struct {
	Namespace string `msgpack:"n"`
	Name      string `msgpack:"N"`
}

// Code implements Command.
func (PutSecret) Code() Code { return CodePutSecret }

// Code implements Command.
func (DeleteSecret) Code() Code { return CodeDeleteSecret }
