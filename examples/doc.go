// Package examples is work as people have it, run by axd: see the folders. Its
// tests run each on a real server and worker, and check what comes out.
package examples
