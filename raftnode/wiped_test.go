package raftnode

import (
	"testing"

	"github.com/hashicorp/raft"
)

// A server is wiped, removed and added anew within one term of the leader.
// What its earlier life had confirmed must not make it look caught up.
func TestProgressOfAnEarlierLifeIsForgotten(t *testing.T) {
	tr := &transport{peers: map[raft.ServerID]*progress{}}
	tr.heard("s3", 5, 10_000) // before the wipe
	tr.rejected("s3", 5)      // the empty log refuses the leader's first entries
	if p, _ := tr.progressOf("s3", 5); p.match != 0 {
		t.Errorf("an empty server counts as having entry %d and would be given its vote at once", p.match)
	}
}
