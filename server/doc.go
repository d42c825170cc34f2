// Package server builds one axd server from a Config and owns the order in
// which its parts start and stop. It is the only package that knows them all,
// and tests import it to run whole clusters.
package server
