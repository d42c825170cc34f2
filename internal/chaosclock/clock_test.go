//go:build chaos

package chaosclock

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

func TestClocksAreTurnedAsTheFileSays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clock")
	synctest.Test(t, func(t *testing.T) {
		c := newTurned(path)
		say := func(text string) {
			t.Helper()
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			time.Sleep(lookEvery)
			c.now()
		}
		want := func(drift, wall, boot time.Duration) {
			t.Helper()
			d, s := c.now()
			if d.Round(time.Millisecond) != drift || s.wall != wall || s.boot != boot {
				t.Errorf("drift %s, wall %s, boot %s; want %s, %s, %s", d, s.wall, s.boot, drift, wall, boot)
			}
		}
		time.Sleep(time.Hour)
		want(0, 0, 0)
		say("wall 1h\nboot -10s\n")
		want(0, time.Hour, -10*time.Second)
		say("rate 2\n")
		time.Sleep(time.Minute)
		want(time.Minute, 0, 0)
		say("no such word\n")
		time.Sleep(time.Minute - lookEvery)
		want(2*time.Minute, 0, 0)
		say("frozen\nwall 1s")
		time.Sleep(2 * time.Minute)
		want(lookEvery, time.Second, 0)
		say("")
		time.Sleep(time.Hour)
		want(0, 0, 0)
	})
}
