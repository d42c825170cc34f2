package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/axd-project/axd/worker"
)

// maxNumber bounds the number that a task may carry: a worker keeps a few bytes
// for each up to the highest.
const maxNumber = 20_000_000

// payload is what a no-op task carries: which phase of which scenario it
// belongs to, and its number there.
type payload struct {
	Phase  int    `json:"phase"`
	Number int    `json:"n"`
	Fill   string `json:"fill,omitempty"`
	Work   int    `json:"work_ms,omitempty"` // how long the handler takes
}

// starts is what workers saw of the tasks of one phase, by number.
type starts struct {
	At    []int64 // wall clock at the first start, in ns; 0: none
	Due   []int64 // as the worker was told, in ms
	Count []uint8 // starts; stays at 255
}

func (s *starts) grow(n int) {
	for len(s.Count) < n {
		s.At, s.Due, s.Count = append(s.At, 0), append(s.Due, 0), append(s.Count, 0)
	}
}

func (s *starts) add(n int, at, due int64) {
	s.grow(n + 1)
	if s.Count[n] == 0 || at < s.At[n] {
		s.At[n], s.Due[n] = at, due
	}
	if s.Count[n] < 255 {
		s.Count[n]++
	}
}

// merge adds what another worker saw.
func (s *starts) merge(o *starts) {
	s.grow(len(o.Count))
	for n, count := range o.Count {
		if count == 0 {
			continue
		}
		if s.Count[n] == 0 || o.At[n] < s.At[n] {
			s.At[n], s.Due[n] = o.At[n], o.Due[n]
		}
		s.Count[n] = uint8(min(int(s.Count[n])+int(count), 255)) //nolint:gosec // at most 255
	}
}

// late is how long after its due time a task started, by the wall clock that
// this machine's processes share.
func (s *starts) late(n int) time.Duration {
	return time.Duration(s.At[n] - s.Due[n]*int64(time.Millisecond))
}

// verdict is what happened to the tasks of a phase.
type verdict struct {
	late    samples // of all that started, in their order of numbers
	early   int     // before their time
	lost    int     // acknowledged, never started
	doubled int     // starts beyond the first
}

// judge compares what workers saw with the numbers that were acknowledged.
func (s *starts) judge(total int) verdict {
	var v verdict
	for n := range max(total, len(s.Count)) {
		if n >= len(s.Count) || s.Count[n] == 0 {
			v.lost++
			continue
		}
		v.doubled += int(s.Count[n]) - 1
		late := s.late(n)
		if late < 0 {
			v.early++
		}
		v.late = append(v.late, late)
	}
	return v
}

func (v *verdict) report(r *Result) {
	r.set("early", float64(v.early))
	r.set("lost", float64(v.lost))
	r.set("doubled", float64(v.doubled))
}

// recorder is the no-op handler's memory.
type recorder struct {
	mu     sync.Mutex
	phases map[int]*starts
}

// run records that a task starts now, and takes as long as it says.
func (r *recorder) run(ctx context.Context, t *worker.Task) error {
	work, err := r.note(t)
	if err != nil || work == 0 {
		return err
	}
	return pause(ctx, work)
}

func (r *recorder) note(t *worker.Task) (work time.Duration, err error) {
	at := time.Now().UnixNano()
	var p payload
	if err := json.Unmarshal(t.Payload, &p); err != nil {
		return 0, fmt.Errorf("payload: %w", err)
	}
	if p.Number < 0 || p.Number >= maxNumber {
		return 0, fmt.Errorf("payload: no task has the number %d", p.Number)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.phases == nil {
		r.phases = map[int]*starts{}
	}
	if r.phases[p.Phase] == nil {
		r.phases[p.Phase] = &starts{}
	}
	r.phases[p.Phase].add(p.Number, at, t.Due.UnixMilli())
	return time.Duration(p.Work) * time.Millisecond, nil
}

// take returns what was seen of a phase, and forgets it.
func (r *recorder) take(phase int) *starts {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.phases[phase]
	delete(r.phases, phase)
	if s == nil {
		s = &starts{}
	}
	return s
}
