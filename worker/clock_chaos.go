//go:build chaos

package worker

import (
	"time"

	"github.com/axd-project/axd/internal/chaosclock"
)

func boottime() time.Duration { return chaosclock.Mono(readBoottime()) }
