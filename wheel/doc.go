// Package wheel is a hierarchical timing wheel: insert, remove and advance in
// constant time at 1 ms resolution. It has no goroutine and reads no clock; the
// caller passes now.
//
// # How it works
//
// A time is a 64-bit number of milliseconds, read as eight digits of one byte.
// An entry lives at the level of the highest digit in which its time differs
// from the current time, in the slot of its own digit there:
//
//	level 0: 256 slots of 1 ms      the rest of this quarter of a second
//	level 1: 256 slots of 256 ms    of this minute (65.5 s)
//	level 2: 256 slots of 65.5 s    of these 4.7 hours
//	level 3: 256 slots of 4.7 h     of these 50 days
//	...                             up to the end of int64
//
// Three things follow. Every time fits without an overflow list. The earliest
// entry is in the first used slot of the lowest used level, which a bitmap finds
// at once, so an advance over hours jumps from used slot to used slot. And
// entries of one millisecond always share a slot, so they keep their order.
//
// When the current time reaches the start of a slot above level 0, its entries
// cascade to lower levels: each entry moves at most seven times in its life,
// three or fewer times if it was due within 50 days.
//
// Entries are linked by 32-bit indexes inside chunks of nodes, so a wheel of a
// pointer-free T has nothing in its nodes for the garbage collector to follow.
package wheel
