// Handler is a worker with two functions of its own: "greet", which answers at
// once, and "count", which takes a while and stops when it is told to.
//
// Start a server with "axd dev", then this program, then give it work:
//
//	go run ./examples/handler
//	curl -s 127.0.0.1:7480/v1/tasks -H 'Content-Type: application/json' \
//	  -d '{"handler": "greet", "payload": {"name": "Ada"}}'
//
// Ctrl-C drains: it takes no more work and lets what runs finish, for as long as
// -drain says.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/axd-project/axd/worker"
)

func main() {
	name := flag.String("name", "handler-1", "the worker's `name`, unique in the cluster")
	join := flag.String("join", "127.0.0.1:7482", "gossip `addresses` of servers, separated by commas")
	slots := flag.Int("slots", 4, "attempts at one time")
	drain := flag.Duration("drain", 10*time.Second, "how long a stop waits for attempts")
	dataDir := flag.String("data-dir", "", "`directory` that keeps results until the leader has them; empty: memory alone")
	flag.Parse()

	w, err := worker.New(worker.Config{
		Name: *name, Join: strings.Split(*join, ","), Slots: *slots, DrainTime: *drain, DataDir: *dataDir,
	})
	if err != nil {
		log.Fatal(err)
	}
	w.Handle("greet", greet)
	w.Handle("count", count)

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := w.Run(ctx); err != nil {
		log.Print(err)
	}
}

// greet reads the payload and returns its output, which the task shows.
func greet(_ context.Context, t worker.Task) ([]byte, error) {
	var in struct{ Name string }
	if err := json.Unmarshal(t.Payload, &in); err != nil {
		return nil, fmt.Errorf("payload: %w", err) // the attempt fails and is retried as the job says
	}
	return json.Marshal(map[string]string{"greeting": "Hello, " + in.Name + "!"})
}

// count works for ten seconds. A function can't be killed from outside, so a
// long one must heed ctx: it ends at the time-out, a cancel, and when the worker
// has lost the leader. What it changes elsewhere it should guard with t.Token,
// which grows from one attempt of a task to the next.
func count(ctx context.Context, t worker.Task) ([]byte, error) {
	for i := range 10 {
		select {
		case <-time.After(time.Second):
			log.Printf("task %s, attempt %d: %d", t.ID, t.Attempt, i+1)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return []byte(`"done"`), nil
}
