//go:build chaos

package server

import (
	"time"

	"github.com/axd-project/axd/internal/chaosclock"
)

func hostWall() time.Time      { return chaosclock.Wall(time.Now()) }
func hostMono() time.Duration  { return chaosclock.Mono(boottime()) }
func hostAwake() time.Duration { return chaosclock.Awake(awake()) }
