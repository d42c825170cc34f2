package chaos

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/axd-project/axd/fsm"
)

// Cluster is whole servers and workers in one process, on simulated network,
// disks and clocks. It must live in a bubble of testing/synctest.
type Cluster struct {
	Net     *Network
	Gossip  *Gossip
	Servers []*Server
	Workers []*Worker
	Ledger  *Ledger

	seed   uint64
	began  time.Time
	ctx    context.Context // ends with Stop
	cancel context.CancelFunc
	tasks  sync.WaitGroup // whatever the cluster has started
	log    *slog.Logger

	mu       sync.Mutex
	problems []string // that happened on the way
	events   []Event
	ended    int    // processes that ended themselves
	lines    []line // the last ones that processes logged
	logged   int    // lines in all
	streams  uint64
}

// NewCluster returns a cluster of so many servers and workers, none of which
// runs yet.
func NewCluster(seed uint64, servers, workers int, log slog.Handler) *Cluster {
	c := &Cluster{seed: seed, began: time.Now(), Ledger: &Ledger{}}
	c.log = slog.New(&recorder{next: log, c: c})
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.Net = NewNetwork(c.rand())
	c.Gossip = NewGossip(c.Net, c.rand())
	for i := range servers {
		c.Servers = append(c.Servers, &Server{Name: fmt.Sprintf("s%d", i+1), c: c, disk: NewDisk(), rng: c.rand()})
	}
	for i := range workers {
		c.Workers = append(c.Workers, newWorker(c, fmt.Sprintf("w%d", i+1)))
	}
	c.tasks.Go(func() { c.Gossip.Run(c.ctx) })
	return c
}

// rand returns a source of its own for one user.
func (c *Cluster) rand() *rand.Rand {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streams++
	return rand.New(rand.NewPCG(c.seed, c.streams))
}

// Problem notes that something happened that never may.
func (c *Cluster) Problem(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := fmt.Sprintf("%8.3fs ", c.Age().Seconds()) + fmt.Sprintf(format, args...)
	if !slices.Contains(c.problems, text) && len(c.problems) < maxViolations {
		c.problems = append(c.problems, text)
		c.events = append(c.events, Event{c.Age(), "PROBLEM: " + fmt.Sprintf(format, args...)})
	}
}

// Problems returns what Problem was told.
func (c *Cluster) Problems() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.problems)
}

// Age is how long the cluster has lived, in its virtual time.
func (c *Cluster) Age() time.Duration { return time.Since(c.began) }

// Start starts all servers and workers.
func (c *Cluster) Start() error {
	for _, s := range c.Servers {
		if err := s.Start(); err != nil {
			return err
		}
	}
	for _, w := range c.Workers {
		if err := w.Start(); err != nil {
			return err
		}
	}
	return nil
}

// Stop ends everything in order: workers, servers, the rest; and waits for it,
// lives that crashed long ago included.
func (c *Cluster) Stop() {
	var ending sync.WaitGroup
	for _, w := range c.Workers {
		ending.Go(w.Stop)
	}
	ending.Wait()
	for _, s := range c.Servers {
		ending.Go(s.Stop)
	}
	ending.Wait()
	c.cancel()
	c.tasks.Wait()
}

// Server finds a server by name.
func (c *Cluster) Server(name string) *Server {
	for _, s := range c.Servers {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// Worker finds a worker by name.
func (c *Cluster) Worker(name string) *Worker {
	for _, w := range c.Workers {
		if w.Name == name {
			return w
		}
	}
	return nil
}

// Leader returns the server that most servers take for the leader, nil if none.
func (c *Cluster) Leader() *Server {
	votes := map[string]int{}
	for _, s := range c.Servers {
		if life := s.now(); life != nil {
			if info, err := life.srv.Cluster(c.ctx); err == nil && info.Leader != "" {
				votes[info.Leader]++
			}
		}
	}
	var best *Server
	for _, s := range c.Servers {
		if votes[s.Name] > 0 && (best == nil || votes[s.Name] > votes[best.Name]) {
			best = s
		}
	}
	return best
}

// View calls fn with a server's own state; false if the server is down.
func (s *Server) View(fn func(fsm.Reader)) bool {
	life := s.now()
	if life == nil {
		return false
	}
	err := life.srv.Read(context.Background(), true, func(r fsm.Reader) error {
		fn(r)
		return nil
	})
	return err == nil
}

func (c *Cluster) hosts() (servers, workers []string) {
	for _, s := range c.Servers {
		servers = append(servers, s.Name)
	}
	for _, w := range c.Workers {
		workers = append(workers, w.Name)
	}
	return servers, workers
}
