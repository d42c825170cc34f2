package server

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/cluster"
	"github.com/axd-project/axd/rpc"
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
	if state, seen := s.heardOf("w1"); state != "alive" || !seen.Equal(at) {
		t.Errorf("%s, last seen at %v, want %v", state, seen, at)
	}
}

// A worker whose connection ends is not called alive by any server from then on,
// whatever gossip says: this one has never been in it.
func TestAnyServerShowsWhatTheLeaderHears(t *testing.T) {
	nodes, _ := three(t)
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	address := leaderAddress(ctx, t, nodes)
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	c, err := rpc.Dial(ctx, nc, rpc.Hello{Role: rpc.RoleWorker, Name: "w1", Boot: "b"}, func(context.Context, *rpc.Request) (any, error) {
		return rpc.Empty{}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(); c.Wait() }()
	hello := rpc.WorkerHello{Name: "w1", Boot: "b", Address: "127.0.0.1:1", Slots: 1, Version: "v1", Kinds: []string{"exec"}}
	if err := c.Call(ctx, rpc.MethodWorkerHello, hello, nil); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		if w := told(ctx, t, n, "alive"); w.LastSeen == nil || time.Since(*w.LastSeen) > within {
			t.Errorf("%s says of a connected worker: %+v", n.Name(), w)
		}
	}
	_ = c.Close()
	ended := time.Now()
	for _, n := range nodes {
		for asked := time.Now(); workerAt(ctx, t, n).State == "alive"; asked = time.Now() {
			if asked.Sub(ended) > 2*time.Second {
				t.Fatalf("%s calls the worker alive 2 s after its end", n.Name())
			}
			<-time.After(10 * time.Millisecond)
		}
		told(ctx, t, n, "suspect")
	}
}

func leaderAddress(ctx context.Context, t *testing.T, nodes []*node) string {
	t.Helper()
	for {
		for _, n := range nodes {
			if n.leading.Load() {
				_, address := n.leader()
				return address
			}
		}
		select {
		case <-ctx.Done():
			t.Fatal("no server leads")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// told asks until a server says so of the worker. Where the leader has not told it in
// time what it hears, a server says what gossip knows: nothing.
func told(ctx context.Context, t *testing.T, n *node, state string) client.Worker {
	t.Helper()
	w := workerAt(ctx, t, n)
	for ; w.State != state; w = workerAt(ctx, t, n) {
		if ctx.Err() != nil || w.State != "lost" {
			t.Fatalf("%s says %s, want %s", n.Name(), w.State, state)
		}
		<-time.After(10 * time.Millisecond)
	}
	return w
}

func workerAt(ctx context.Context, t *testing.T, n *node) client.Worker {
	t.Helper()
	list, err := clientOf(t, n).Workers(ctx, 10, "")
	if err != nil || len(list.Workers) != 1 {
		t.Fatalf("workers at %s: %+v, %v", n.Name(), list, err)
	}
	return list.Workers[0]
}
