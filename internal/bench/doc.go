// Package bench holds the scenarios of "axd bench": each starts real servers and
// workers on loopback, or takes a running cluster, puts a load on it and judges
// the figures against what axd promises. docs/performance.md tells how each is
// measured.
package bench
