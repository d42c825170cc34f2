package trial

import (
	"context"
	"fmt"

	"github.com/axd-project/axd/chaos/process"
)

// Holding is what a server's process holds.
type Holding struct {
	Server     string `json:"server"`
	Goroutines int    `json:"goroutines"`
	Files      int    `json:"files"`
	Bytes      int64  `json:"bytes"` // resident
}

// What a server may hold once all is healed and nothing is left to do: what any held as
// the load began, this much more in proportion and beside. A leak by each connection,
// call or callback is far beyond it; caches and what lies in memory of the state are not.
const (
	moreGoroutines, besideGoroutines = 1.25, 30
	moreFiles, besideFiles           = 1.5, 30
	moreBytes, besideBytes           = 3, 128 << 20
)

const (
	metricGoroutines = "go_goroutines"
	metricFiles      = "process_open_fds"
	metricBytes      = "process_resident_memory_bytes"
)

// holdings asks every server what it holds.
func (st *stage) holdings(ctx context.Context) ([]Holding, error) {
	ctx, cancel := context.WithTimeout(ctx, st.speed.scale(formTime))
	defer cancel()
	var out []Holding
	for _, s := range st.Servers {
		h, err := holdingOf(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("what server %s holds: %w", s.Name(), err)
		}
		out = append(out, h)
	}
	return out, nil
}

func holdingOf(ctx context.Context, s *process.Server) (Holding, error) {
	m, err := s.Metrics(ctx)
	if err != nil {
		return Holding{}, err
	}
	h, err := pickHolding(m)
	h.Server = s.Name()
	return h, err
}

// pickHolding finds what a server holds among its metrics.
func pickHolding(m map[string]float64) (Holding, error) {
	for _, name := range []string{metricGoroutines, metricFiles, metricBytes} {
		if _, ok := m[name]; !ok {
			return Holding{}, fmt.Errorf("its metrics lack %s", name)
		}
	}
	return Holding{Goroutines: int(m[metricGoroutines]), Files: int(m[metricFiles]), Bytes: int64(m[metricBytes])}, nil
}

// judgeHoldings: what a server holds comes back to what it was.
func (r *Result) judgeHoldings(before, after []Holding) {
	var most Holding
	for _, h := range before {
		most.Goroutines, most.Files, most.Bytes = max(most.Goroutines, h.Goroutines), max(most.Files, h.Files), max(most.Bytes, h.Bytes)
	}
	r.Before, r.After = before, after
	for _, h := range after {
		for _, is := range []struct {
			what          string
			now, at       int64
			times, beside float64
		}{
			{"goroutines", int64(h.Goroutines), int64(most.Goroutines), moreGoroutines, besideGoroutines},
			{"open files", int64(h.Files), int64(most.Files), moreFiles, besideFiles},
			{"bytes of memory", h.Bytes, most.Bytes, moreBytes, besideBytes},
		} {
			if float64(is.now) > float64(is.at)*is.times+is.beside {
				r.Violations = append(r.Violations, fmt.Sprintf("server %s holds %d %s after all was healed, and servers held %d at most before", h.Server, is.now, is.what, is.at))
			}
		}
	}
}
