//go:build !chaos

package server

import "time"

func hostWall() time.Time      { return time.Now() }
func hostMono() time.Duration  { return boottime() }
func hostAwake() time.Duration { return awake() }
