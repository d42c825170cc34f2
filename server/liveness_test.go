package server

import (
	"testing"

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
