//go:build !unix

package raftnode

import "math"

// freeBytes can't be asked here; a full disk then shows at the first write.
func freeBytes(string) (uint64, error) { return math.MaxUint64, nil }
