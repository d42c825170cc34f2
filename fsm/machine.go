package fsm

// Machine applies entries to state. It holds only caches of state, which never
// change a result; Reset drops them. It is used by one goroutine.
type Machine struct{}

// NewMachine returns a machine for a state.
func NewMachine() *Machine { return &Machine{} }

// Reset drops everything remembered from state; call it after the state was
// replaced under the machine (a snapshot installed, a restore).
func (m *Machine) Reset() {}

// Apply applies one encoded Entry and returns one result per command, and
// events. An entry that can't be decoded returns an error: the caller must end
// the process with that text, since another version wrote the entry.
func (m *Machine) Apply(tx Tx, meta Meta, entry []byte) ([]Result, []Event, error) {
	panic("to be written")
}
