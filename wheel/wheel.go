package wheel

import (
	"cmp"
	"math/bits"
	"slices"
)

const (
	digitBits = 8
	slotCount = 1 << digitBits
	levels    = 64 / digitBits

	// Lists beside the slots, whose numbers are level × slotCount + slot.
	listLate  = levels * slotCount // added when already due, for the next Advance
	listReady = listLate + 1       // coming out of the present Advance
	listCount = listReady + 1
)

// Wheel orders values by the millisecond they are due. The zero value is not
// usable; New makes one. It is used by one goroutine. Its memory is that of the
// largest number of entries it ever held: 24 bytes and the size of T for each.
type Wheel[T any] struct {
	now   uint64 // ordered form of the current time
	len   int
	slab  slab[T]
	lists [listCount]list
	used  [levels][slotCount / 64]uint64 // bitmap of slots that hold entries
	live  uint8                          // bitmap of levels that hold entries

	lateMin      int64 // no entry of the late list is due before it
	lateUnsorted bool
}

type list struct{ head, tail uint32 }

// Handle names an entry so that Remove can take it out again. Its zero value
// names none.
type Handle struct{ index, generation uint32 }

// New makes a wheel whose current time is now, in Unix milliseconds.
func New[T any](now int64) *Wheel[T] { return &Wheel[T]{now: ordered(now)} }

// ordered maps int64 to uint64 so that the order stays and digits can be
// compared, also for times before 1970.
func ordered(ms int64) uint64 { return uint64(ms) ^ 1<<63 } //nolint:gosec // two's complement

func unordered(u uint64) int64 { return int64(u ^ 1<<63) } //nolint:gosec // two's complement

// Add inserts v, due at the given millisecond, any int64. What is due at or
// before the current time comes out of the next Advance.
func (w *Wheel[T]) Add(due int64, v T) Handle {
	i := w.slab.alloc()
	n := w.slab.at(i)
	n.due, n.value = due, v
	w.len++
	if ordered(due) > w.now {
		w.place(i, n)
	} else {
		w.addLate(i, n)
	}
	return Handle{index: i, generation: n.generation}
}

// Remove takes an entry out and reports whether it was still there. Handles of
// entries that have come out are told apart from those of later entries until
// the same place was used 2^32 times.
func (w *Wheel[T]) Remove(h Handle) bool {
	n := w.slab.lookup(h)
	if n == nil {
		return false
	}
	w.take(h.index, n)
	return true
}

// Advance moves the current time to now and calls due for every entry whose
// time has come, in order of time, and of insertion within a millisecond. A now
// before the current time changes nothing. due may Add and Remove, not Advance:
// an entry that it removes does not come out any more; one that it adds as
// already due waits for the next Advance, so that every Advance ends. The cost
// is that of the entries, not of the time passed.
func (w *Wheel[T]) Advance(now int64, due func(at int64, v T)) {
	to := ordered(now)
	if to < w.now {
		return
	}
	w.collectLate()
	for {
		level, slot, start, ok := w.firstSlot()
		if !ok || start > to {
			break
		}
		w.now = start
		w.cascade(level, slot)
	}
	w.now = to
	for i := w.lists[listReady].head; i != 0; i = w.lists[listReady].head {
		n := w.slab.at(i)
		at, v := n.due, n.value
		w.take(i, n)
		due(at, v)
	}
}

// Next returns the earliest time at which Advance may have something to do: it
// is never later than the first entry's time. Advancing to it may yield nothing
// and make the next answer more precise: after at most eight such steps the
// first entry comes out. ok is false when the wheel is empty.
func (w *Wheel[T]) Next() (at int64, ok bool) {
	if i := w.lists[listReady].head; i != 0 { // asked from within due
		return w.slab.at(i).due, true
	}
	if w.lists[listLate].head != 0 {
		return w.lateMin, true
	}
	_, _, start, ok := w.firstSlot()
	return unordered(start), ok
}

// Len returns the number of entries.
func (w *Wheel[T]) Len() int { return w.len }

// place links a node that is due after the current time into its slot.
func (w *Wheel[T]) place(i uint32, n *node[T]) {
	key := ordered(n.due)
	level := (bits.Len64(key^w.now) - 1) / digitBits
	slot := int(key >> (level * digitBits) % slotCount)
	w.used[level][slot/64] |= 1 << (slot % 64)
	w.live |= 1 << level
	w.push(level*slotCount+slot, i, n)
}

// firstSlot finds the used slot that holds the earliest entry, and the time at
// which that slot begins, in ordered form.
func (w *Wheel[T]) firstSlot() (level, slot int, start uint64, ok bool) {
	if w.live == 0 {
		return 0, 0, 0, false
	}
	level = bits.TrailingZeros8(w.live)
	for word, b := range w.used[level] {
		if b != 0 {
			slot = word*64 + bits.TrailingZeros64(b)
			break
		}
	}
	shift := level * digitBits
	above := w.now >> (shift + digitBits) << (shift + digitBits)
	return level, slot, above | uint64(slot)<<shift, true
}

// cascade empties the slot whose begin is the current time: what is due now
// becomes ready, the rest goes to lower levels. Both keep their order.
func (w *Wheel[T]) cascade(level, slot int) {
	l := &w.lists[level*slotCount+slot]
	i := l.head
	*l = list{}
	w.clearSlot(level, slot)
	for i != 0 {
		n := w.slab.at(i)
		next := n.next
		if ordered(n.due) == w.now {
			w.push(listReady, i, n)
		} else {
			w.place(i, n)
		}
		i = next
	}
}

func (w *Wheel[T]) clearSlot(level, slot int) {
	u := &w.used[level]
	u[slot/64] &^= 1 << (slot % 64)
	if *u == [len(u)]uint64{} {
		w.live &^= 1 << level
	}
}

func (w *Wheel[T]) addLate(i uint32, n *node[T]) {
	l := &w.lists[listLate]
	switch {
	case l.head == 0:
		w.lateMin, w.lateUnsorted = n.due, false
	case n.due < w.slab.at(l.tail).due:
		w.lateMin, w.lateUnsorted = min(w.lateMin, n.due), true
	}
	w.push(listLate, i, n)
}

// collectLate moves the late entries to the ready list, in order of time.
func (w *Wheel[T]) collectLate() {
	var order []uint32
	for i := w.lists[listLate].head; i != 0; {
		n := w.slab.at(i)
		next := n.next
		if w.lateUnsorted {
			order = append(order, i)
		} else {
			w.push(listReady, i, n)
		}
		i = next
	}
	slices.SortStableFunc(order, func(a, b uint32) int {
		return cmp.Compare(w.slab.at(a).due, w.slab.at(b).due)
	})
	for _, i := range order {
		w.push(listReady, i, w.slab.at(i))
	}
	w.lists[listLate], w.lateUnsorted = list{}, false
}

// push links a node at the end of a list.
func (w *Wheel[T]) push(id int, i uint32, n *node[T]) {
	l := &w.lists[id]
	n.list, n.prev, n.next = uint16(id), l.tail, 0 //nolint:gosec // listCount fits
	if l.tail == 0 {
		l.head = i
	} else {
		w.slab.at(l.tail).next = i
	}
	l.tail = i
}

// take unlinks a node and frees it.
func (w *Wheel[T]) take(i uint32, n *node[T]) {
	l := &w.lists[n.list]
	if n.prev == 0 {
		l.head = n.next
	} else {
		w.slab.at(n.prev).next = n.next
	}
	if n.next == 0 {
		l.tail = n.prev
	} else {
		w.slab.at(n.next).prev = n.prev
	}
	if id := int(n.list); l.head == 0 && id < listLate {
		w.clearSlot(id/slotCount, id%slotCount)
	}
	w.slab.release(i)
	w.len--
}
