// Package wheel is a hierarchical timing wheel: insert, remove and advance in
// constant time at 1 ms resolution. It has no goroutine and reads no clock; the
// caller passes now.
package wheel
