package worker

import (
	"sync/atomic"

	"github.com/axd-project/axd/rpc"
)

const (
	maxHead   = 1 << 20  // bytes that are kept of the beginning of one attempt's output
	maxHeads  = 64 << 20 // bytes that are kept of all attempts' beginnings
	chunkCost = 64       // bytes of memory that a chunk takes beside its data
)

func costOf(out rpc.Output) int64 { return int64(len(out.Data)) + chunkCost }

// headRoom bounds what the heads of all attempts keep.
type headRoom struct{ used atomic.Int64 }

func (r *headRoom) take(n int64) bool {
	if r.used.Add(n) > maxHeads {
		r.used.Add(-n)
		return false
	}
	return true
}

// head keeps the beginning of an attempt's output, stdout and stderr in the
// order in which they came.
type head struct {
	room   *headRoom
	chunks []rpc.Output
	cost   int64
	bytes  [2]int64 // of stdout and stderr up to its end
	full   bool     // there was more output than it holds
}

// whole tells whether it holds all of the output so far.
func (h *head) whole() bool { return !h.full }

// add keeps output, joined with what came before it, unless there is no room.
func (h *head) add(out rpc.Output) bool {
	cost := costOf(out)
	last := len(h.chunks) - 1
	join := last >= 0 && h.chunks[last].Stderr == out.Stderr && out.Skipped == 0 &&
		len(h.chunks[last].Data)+len(out.Data) <= streamBuffer
	if join {
		cost -= chunkCost
	}
	if h.cost+cost > maxHead || !h.room.take(cost) {
		return false
	}
	h.cost += cost
	h.bytes[streamOf(out)] += out.Skipped + int64(len(out.Data))
	if join {
		// Whoever was given the chunk has a shorter slice of it.
		h.chunks[last].Data = append(h.chunks[last].Data, out.Data...)
	} else {
		h.chunks = append(h.chunks, out)
	}
	return true
}

// cut ends the keeping; what is kept stays.
func (h *head) cut() { h.full = true }

// drop frees it.
func (h *head) drop() {
	h.room.used.Add(-h.cost)
	*h = head{room: h.room, full: true}
}
