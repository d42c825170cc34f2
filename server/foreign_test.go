package server

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/axd-project/axd/raftnode"
)

// A server that carries another cluster's data and is told to join this one must
// say so and end, not serve its own cluster on; this one goes on.
func TestAServerOfAnotherClusterEnds(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	astray := Config{Name: "s9", DataDir: filepath.Join(base, "s9"), Gossip: freeAddress(t)}
	was := start(t, astray)
	was.await(t)
	if err := was.stop(); err != nil {
		t.Fatal(err)
	}
	one := start(t, Config{Name: "s1", DataDir: filepath.Join(base, "s1"), Gossip: freeAddress(t)})
	one.await(t)

	astray.Join, astray.BootstrapExpect = []string{one.GossipAddr()}, 1
	astray.HTTP, astray.RPC, astray.Logger = "127.0.0.1:0", "127.0.0.1:0", testLog(t)
	s, err := New(astray)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	err = s.Run(ctx)
	if ExitCode(err) != raftnode.ExitForeign {
		t.Fatalf("ended with %v (exit code %d), want exit code %d", err, ExitCode(err), raftnode.ExitForeign)
	}
	for _, want := range []string{"server s1", one.clusterID(), was.clusterID(), astray.DataDir} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the message lacks %q: %v", want, err)
		}
	}
	submit(t, clientOf(t, one), "nobody-offers-this")
}
