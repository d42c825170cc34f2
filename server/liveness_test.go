package server

import (
	"testing"
	"time"

	"github.com/axd-project/axd/cluster"
)

func TestLivenessInTheAPIsWords(t *testing.T) {
	t.Parallel()
	for opinion, want := range map[cluster.Liveness]string{
		cluster.Alive: "alive", cluster.Suspect: "suspect", cluster.Dead: "lost", cluster.Left: "stopped", "": "lost",
	} {
		if got := liveness(cluster.Member{Liveness: opinion}); got != want {
			t.Errorf("%s: got %s, want %s", opinion, got, want)
		}
	}
}

// lastHeard is gossip that heard of a worker a while ago.
type lastHeard struct {
	Membership
	at time.Time
}

func (g lastHeard) Member(cluster.Role, string) (cluster.Member, bool) {
	return cluster.Member{Liveness: cluster.Alive, Seen: g.at, Since: g.at.Add(-time.Hour)}, true
}

func TestAWorkerWasLastSeenWhenItWas(t *testing.T) {
	t.Parallel()
	at := time.Now().Add(-3 * time.Second)
	s := &Server{gossip: lastHeard{at: at}}
	if state, seen := s.Liveness("w1"); state != "alive" || !seen.Equal(at) {
		t.Errorf("%s, last seen at %v, want %v", state, seen, at)
	}
}
