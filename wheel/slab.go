package wheel

// Chunks keep growth from ever copying what is there: at ten million entries a
// single slice would stop the caller for a tenth of a second.
const (
	chunkBits = 10
	chunkLen  = 1 << chunkBits
)

// node is an entry or a free place. Index 0 is never used and means: none.
type node[T any] struct {
	due        int64
	next, prev uint32
	generation uint32 // raised when the node is freed, so that old handles miss
	list       uint16 // the list it is in
	value      T
}

// slab owns the nodes. Its memory is that of the largest number of entries held
// at once.
type slab[T any] struct {
	chunks []*[chunkLen]node[T]
	free   uint32 // head of the free list, linked by next
	used   uint32 // indexes below this were handed out at least once
}

func (s *slab[T]) at(i uint32) *node[T] { return &s.chunks[i>>chunkBits][i&(chunkLen-1)] }

func (s *slab[T]) alloc() uint32 {
	if i := s.free; i != 0 {
		s.free = s.at(i).next
		return i
	}
	s.used++
	i := s.used
	if i == 0 {
		panic("wheel: more than 2^32-1 entries")
	}
	if int(i>>chunkBits) == len(s.chunks) {
		s.chunks = append(s.chunks, new([chunkLen]node[T]))
	}
	s.at(i).generation = 1 // 0 is the zero Handle's
	return i
}

func (s *slab[T]) release(i uint32) {
	n := s.at(i)
	var zero T
	n.value = zero
	if n.generation++; n.generation == 0 {
		n.generation = 1
	}
	n.next, n.prev = s.free, 0
	s.free = i
}

// lookup returns the live node that a handle names, or nil.
func (s *slab[T]) lookup(h Handle) *node[T] {
	if h.index == 0 || h.index > s.used {
		return nil
	}
	if n := s.at(h.index); n.generation == h.generation {
		return n
	}
	return nil
}
