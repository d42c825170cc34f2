//go:build !chaos

package worker

import "time"

func boottime() time.Duration { return readBoottime() }
