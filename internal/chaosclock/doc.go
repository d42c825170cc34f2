// Package chaosclock turns the clocks of one process as a file says, so that
// tests can skew servers and workers of one machine. It has code only in builds
// with the tag chaos; what we ship does not know of it.
package chaosclock
