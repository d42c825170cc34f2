package raftnode

import (
	"sync"

	"github.com/hashicorp/raft"
)

// maxCachedLog bounds the bytes of entries kept in memory.
const maxCachedLog = 4 << 20

// logCache keeps the newest entries, which a leader reads again and again: to send
// them, and, with each heartbeat, to tell what came before.
type logCache struct {
	mu    sync.Mutex
	logs  []*raft.Log // without a gap; never changed
	bytes int
}

// add takes entries that were appended to the log.
func (c *logCache) add(logs []*raft.Log) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.logs); n > 0 && c.logs[n-1].Index+1 != logs[0].Index {
		c.drop(n)
	}
	for _, l := range logs {
		c.logs = append(c.logs, l)
		c.bytes += len(l.Data) + entryOverhead
	}
	for c.bytes > maxCachedLog && len(c.logs) > 1 { // the newest stays, whatever its size
		c.drop(1)
	}
}

// drop forgets the n oldest. What is left is not moved: append does that now and
// then, when it is out of room.
func (c *logCache) drop(n int) {
	for _, l := range c.logs[:n] {
		c.bytes -= len(l.Data) + entryOverhead
	}
	clear(c.logs[:n])
	c.logs = c.logs[n:]
}

// clear forgets all.
func (c *logCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(len(c.logs))
}

// get returns an entry that must not be changed.
func (c *logCache) get(index uint64) (*raft.Log, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.logs) == 0 || index < c.logs[0].Index || index > c.logs[len(c.logs)-1].Index {
		return nil, false
	}
	return c.logs[index-c.logs[0].Index], true
}
