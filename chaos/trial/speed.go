package trial

import (
	"os"
	"path/filepath"
	"slices"
	"time"
)

// speed is how much slower than a usual machine this one is. Bounds in which
// something has to happen stretch with it; what must never happen does not.
type speed float64

const (
	usualSync   = 20 * time.Millisecond // the slowest sync of a usual disk
	usualWake   = 10 * time.Millisecond // the latest that a timer is on a usual machine
	speedTries  = 20
	slowestSeen = 5
)

// measureSpeed syncs a file and waits for timers some times.
func measureSpeed(dir string) speed {
	var sync, wake time.Duration
	f, err := os.CreateTemp(dir, "speed-")
	if err != nil {
		return 1
	}
	defer func() { _ = os.Remove(filepath.Join(dir, filepath.Base(f.Name()))) }()
	defer func() { _ = f.Close() }()
	block := make([]byte, 4096)
	for range speedTries {
		began := time.Now()
		_, _ = f.Write(block)
		_ = f.Sync()
		sync = max(sync, time.Since(began))
		began = time.Now()
		time.Sleep(time.Millisecond)
		wake = max(wake, time.Since(began)-time.Millisecond)
	}
	worst := slices.Max([]float64{1, sync.Seconds() / usualSync.Seconds(), wake.Seconds() / usualWake.Seconds()})
	return speed(min(worst, slowestSeen))
}

func (s speed) scale(d time.Duration) time.Duration {
	return time.Duration(float64(d) * max(1, float64(s)))
}
