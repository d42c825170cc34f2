package worker

import (
	"maps"
	"sync"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/axd-project/axd/job"
)

const (
	maxExecutors     = 256     // decoded executors that are kept
	maxExecutorBytes = 4 << 10 // larger ones are decoded each time
)

// executors keeps decoded executors by their encoding: most attempts are of few
// jobs. What it gives out is shared and must not be changed.
type executors struct {
	mu   sync.Mutex
	kept map[string]job.Executor
}

func (x *executors) decode(b []byte) (job.Executor, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e, ok := x.kept[string(b)]; ok {
		return e, nil
	}
	var e job.Executor
	if err := msgpack.Unmarshal(b, &e); err != nil {
		return e, err
	}
	if len(b) > maxExecutorBytes {
		return e, nil
	}
	if len(x.kept) >= maxExecutors {
		for one := range maps.Keys(x.kept) {
			delete(x.kept, one)
			break
		}
	}
	if x.kept == nil {
		x.kept = make(map[string]job.Executor)
	}
	x.kept[string(b)] = e
	return e, nil
}
