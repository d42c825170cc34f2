package store

// Home owns a server's state directories: the live state, the snapshots, and
// the CURRENT file that publishes both with one rename.
type Home struct{}
