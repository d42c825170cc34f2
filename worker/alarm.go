package worker

import (
	"fmt"
	"math"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// never is an instant that no clock reaches.
const never = time.Duration(math.MaxInt64)

// alarm wakes one goroutine at an instant of the worker's clock. It may wake it
// early, never lastingly late.
type alarm interface {
	set(at time.Duration) // replaces the instant that was set before; never sets none
	wait() bool           // for the instant; false once the alarm is closed
	close()
}

// newAlarm returns the kernel's alarm for the kernel's clock, and one that asks
// again and again for a clock that was injected.
func newAlarm(clock func() time.Duration, injected bool) (alarm, error) {
	if injected {
		return &polledAlarm{clock: clock, at: never, changed: make(chan struct{}, 1), done: make(chan struct{})}, nil
	}
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a timer: %w", err)
	}
	return &kernelAlarm{clock: clock, timer: os.NewFile(uintptr(fd), "timer")}, nil
}

// kernelAlarm is a timer of the kernel on CLOCK_BOOTTIME. Go's own timers stop
// while the machine is suspended, and in an idle process they are up to a
// millisecond late, since its poller waits for whole milliseconds.
type kernelAlarm struct {
	clock func() time.Duration
	timer *os.File
}

func (a *kernelAlarm) set(at time.Duration) {
	spec := unix.ItimerSpec{} // all zero: disarmed
	if at != never {
		spec.Value = unix.NsecToTimespec(max(int64(at-a.clock()), 1))
	}
	raw, err := a.timer.SyscallConn()
	if err != nil {
		return // closed
	}
	_ = raw.Control(func(fd uintptr) { _ = unix.TimerfdSettime(int(fd), 0, &spec, nil) })
}

func (a *kernelAlarm) wait() bool {
	var expirations [8]byte
	_, err := a.timer.Read(expirations[:])
	return err == nil
}

func (a *kernelAlarm) close() { _ = a.timer.Close() }

// polledAlarm looks at a clock that need not run as Go's timers do.
type polledAlarm struct {
	clock   func() time.Duration
	changed chan struct{} // room for one
	done    chan struct{}

	mu sync.Mutex
	at time.Duration
}

const alarmNap = 250 * time.Millisecond // longest between two looks at an injected clock

func (a *polledAlarm) set(at time.Duration) {
	a.mu.Lock()
	a.at = at
	a.mu.Unlock()
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

func (a *polledAlarm) wait() bool {
	for {
		a.mu.Lock()
		at := a.at
		a.mu.Unlock()
		var elapsed <-chan time.Time
		if at != never {
			nap := at - a.clock()
			if nap <= 0 {
				a.mu.Lock()
				if a.at == at {
					a.at = never // an alarm goes off once
				}
				a.mu.Unlock()
				return true
			}
			elapsed = time.After(min(nap, alarmNap))
		}
		select {
		case <-elapsed:
		case <-a.changed:
		case <-a.done:
			return false
		}
	}
}

func (a *polledAlarm) close() { close(a.done) }
