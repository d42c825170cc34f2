package wheel

// Wheel orders values by the millisecond they are due. The zero value is not
// usable; New makes one. It is used by one goroutine.
type Wheel[T any] struct{}

// Handle names an entry so that Remove can take it out again. Its zero value
// names none.
type Handle struct{ index, generation uint32 }

// New makes a wheel whose current time is now, in Unix milliseconds.
func New[T any](now int64) *Wheel[T] { panic("to be written") }

// Add inserts v, due at the given millisecond. What is due at or before the
// current time comes out of the next Advance.
func (w *Wheel[T]) Add(due int64, v T) Handle { panic("to be written") }

// Remove takes an entry out and reports whether it was still there.
func (w *Wheel[T]) Remove(h Handle) bool { panic("to be written") }

// Advance moves the current time to now and calls due for every entry whose
// time has come, in order of time, and of insertion within a millisecond. A now
// before the current time changes nothing. due may Add and Remove.
func (w *Wheel[T]) Advance(now int64, due func(at int64, v T)) { panic("to be written") }

// Next returns the earliest time at which Advance may have something to do: it
// is never later than the first entry's time. ok is false when the wheel is empty.
func (w *Wheel[T]) Next() (at int64, ok bool) { panic("to be written") }

// Len returns the number of entries.
func (w *Wheel[T]) Len() int { panic("to be written") }
