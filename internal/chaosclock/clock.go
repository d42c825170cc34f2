//go:build chaos

package chaosclock

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Variable names the environment variable that holds the file's path; in a
// directory it is the file named by the process's id. The file is read again when
// it changes. Each line is one of
//
//	wall 1h     the wall clock is so far ahead
//	boot 10m    the clock that counts suspends is so far ahead
//	rate 2      all clocks run so many times as fast, from now on
//	frozen      all clocks stand still, as with rate 0
//
// What no line says is as on the machine; what a rate has gained or lost stays.
// Raising wall and boot by the same is a suspend of so long.
const Variable = "AXD_CHAOS_CLOCK"

const lookEvery = 20 * time.Millisecond // at the file

var clocks = newTurned(os.Getenv(Variable))

// Wall turns a reading of the wall clock.
func Wall(t time.Time) time.Time {
	drift, s := clocks.now()
	return t.Add(drift + s.wall)
}

// Mono turns a reading of a clock that counts suspends.
func Mono(d time.Duration) time.Duration {
	drift, s := clocks.now()
	return d + drift + s.boot
}

// Awake turns a reading of a clock that stops in suspend.
func Awake(d time.Duration) time.Duration {
	drift, _ := clocks.now()
	return d + drift
}

// setting is what the file says.
type setting struct {
	wall, boot time.Duration
	rate       float64
}

type turned struct {
	path string

	mu     sync.Mutex
	set    setting
	text   string
	looked time.Time
	since  time.Time     // the present rate
	drift  time.Duration // what the rates before have made
}

func newTurned(path string) *turned {
	if info, err := os.Stat(path); err == nil && info.IsDir() { //nolint:gosec // the test that turns the clocks names it
		path = filepath.Join(path, strconv.Itoa(os.Getpid()))
	}
	return &turned{path: path, set: setting{rate: 1}, since: time.Now()}
}

func (c *turned) now() (drift time.Duration, s setting) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.path != "" && now.Sub(c.looked) >= lookEvery {
		c.looked = now
		c.look(now)
	}
	return c.driftAt(now), c.set
}

func (c *turned) driftAt(now time.Time) time.Duration {
	return c.drift + time.Duration(float64(now.Sub(c.since))*(c.set.rate-1))
}

// look takes over what the file says. One that is missing or half written
// changes nothing.
func (c *turned) look(now time.Time) {
	b, err := os.ReadFile(c.path)
	if err != nil || string(b) == c.text {
		return
	}
	s, err := parse(string(b))
	if err != nil {
		return
	}
	c.drift, c.since = c.driftAt(now), now
	c.set, c.text = s, string(b)
}

func parse(text string) (setting, error) {
	s := setting{rate: 1}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		var err error
		switch name {
		case "":
		case "wall":
			s.wall, err = time.ParseDuration(value)
		case "boot":
			s.boot, err = time.ParseDuration(value)
		case "rate":
			s.rate, err = strconv.ParseFloat(value, 64)
		case "frozen":
			s.rate = 0
		default:
			err = fmt.Errorf("unknown word %q", name)
		}
		if err != nil {
			return s, err
		}
	}
	return s, nil
}
