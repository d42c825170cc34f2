package fsm

// Reader reads an ordered key-value state at one point in time. A storage
// failure never reaches the caller: the store ends the process (or, in tests,
// panics), since a server that can't read its state must not go on.
type Reader interface {
	// Get returns the value of key. The slice is valid until the next call on
	// the reader and must not be changed.
	Get(key []byte) (value []byte, ok bool)
	// Ascend calls fn for each row with lo <= key < hi in key order until fn
	// returns false; a nil hi means the end. The slices are valid during the
	// call of fn, which must not write to the transaction.
	Ascend(lo, hi []byte, fn func(key, value []byte) bool)
}

// Tx is a Reader that also takes writes; reads see the transaction's own
// writes. It becomes durable, or doesn't, as a whole.
type Tx interface {
	Reader
	// Set copies key and value; a nil value is an empty one.
	Set(key, value []byte)
	// Delete copies key; deleting an absent row does nothing.
	Delete(key []byte)
}
