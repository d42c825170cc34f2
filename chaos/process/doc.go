// Package process runs real axd programs on loopback: servers, workers and
// whatever else a check or a measurement needs, from a given binary. It starts,
// kills, stops and resumes them, and reads from the kernel what they use. All end
// with their group, and when this process dies, unless they are detached. It
// needs Linux.
package process
