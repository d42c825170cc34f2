package worker

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/axd-project/axd/job"
)

// Config is what a worker needs.
type Config struct {
	Name    string
	Slots   int // attempts at one time; default: twice the CPUs
	Labels  map[string]string
	DataDir string // locks, unacknowledged results, residue of an earlier life

	Gossip string   // host:port to bind; default 127.0.0.1:0
	Join   []string // gossip addresses of servers

	Exec bool // offer exec and http executors (axd worker); a library user has handlers alone
	// Supervisor is the command line that runs SupervisorMain; needed with Exec.
	Supervisor []string
	DrainTime  time.Duration // how long a stop waits for attempts; default 30s
	Logger     *slog.Logger

	// Servers returns RPC addresses to try; nil: from gossip. Dial opens a
	// connection; nil: TCP.
	Servers func() []string
	Dial    func(ctx context.Context, address string) (net.Conn, error)
}

// Task is what a handler is given.
type Task struct {
	ID        job.ID
	Namespace string
	Job       string
	Attempt   int
	Token     job.Token
	Payload   []byte
	Due       time.Time
}

// HandlerFunc runs one attempt. ctx ends when the attempt must stop. The
// returned bytes are the attempt's output, at most 16 KiB.
type HandlerFunc func(ctx context.Context, t Task) (output []byte, err error)

// Worker runs attempts.
type Worker struct{}

// New checks the configuration.
func New(cfg Config) (*Worker, error) { panic("to be written") }

// Handle offers a handler. Call it before Run.
func (w *Worker) Handle(name string, h HandlerFunc) { panic("to be written") }

// Run works until ctx ends, then drains: it takes no more, lets attempts finish
// for DrainTime, and gives back or ends the rest.
func (w *Worker) Run(ctx context.Context) error { panic("to be written") }

// SupervisorMain is the supervisor process: it owns the process groups and the
// lease, and speaks with the worker over its standard input and output.
func SupervisorMain(ctx context.Context, args []string) int { panic("to be written") }
