package bench

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/axd-project/axd/chaos/process"
	"github.com/axd-project/axd/worker"
)

const reportTime = 30 * time.Second // for a worker to hand over what it saw

// handler is what this run's workers offer, and no others.
func (e *env) handler() string { return "noop-" + e.unique }

// report is one line of a worker's standard output: the columns of starts,
// packed little-endian, since a million tasks as JSON numbers would take the
// processor from what is measured next.
type report struct {
	At, Due, Count []byte
}

func packed(s *starts) report {
	return report{At: pack(s.At), Due: pack(s.Due), Count: s.Count}
}

func pack(values []int64) []byte {
	b := make([]byte, 0, 8*len(values))
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, uint64(v)) //nolint:gosec // the same bits
	}
	return b
}

func (r report) unpack() (*starts, error) {
	if len(r.At) != 8*len(r.Count) || len(r.Due) != 8*len(r.Count) {
		return nil, errors.New("the columns differ in length")
	}
	s := &starts{Count: r.Count}
	for i := range r.Count {
		s.At = append(s.At, int64(binary.LittleEndian.Uint64(r.At[8*i:])))    //nolint:gosec // the same bits
		s.Due = append(s.Due, int64(binary.LittleEndian.Uint64(r.Due[8*i:]))) //nolint:gosec // the same bits
	}
	return s, nil
}

// ServeWorker is the process behind "axd bench worker": a worker whose handler
// does nothing but note when it was called. For each line of in, the number of
// a phase, it writes what it saw of that to out; it ends when in does.
func ServeWorker(ctx context.Context, cfg worker.Config, handler string, in io.Reader, out io.Writer) error {
	w, err := worker.New(cfg)
	if err != nil {
		return err
	}
	var seen recorder
	w.Handle(handler, func(ctx context.Context, t worker.Task) ([]byte, error) { return nil, seen.run(ctx, &t) })
	ctx, cancel := context.WithCancelCause(ctx)
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		cancel(seen.serve(in, out))
	}()
	err = w.Run(ctx)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, io.EOF) && !errors.Is(cause, context.Canceled) {
		err = errors.Join(err, cause)
	}
	cancel(nil)
	if f, ok := in.(io.Closer); ok {
		_ = f.Close()
	}
	<-asked
	return err
}

// serve answers questions until there are no more: io.EOF then.
func (r *recorder) serve(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	enc := json.NewEncoder(out)
	for lines.Scan() {
		phase, err := strconv.Atoi(strings.TrimSpace(lines.Text()))
		if err != nil {
			return fmt.Errorf("phase: %w", err)
		}
		if err := enc.Encode(packed(r.take(phase))); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.EOF
}

// noopWorker is a worker process of the bench and the pipes to it.
type noopWorker struct {
	*process.Process
	ask    *os.File
	answer *os.File
	lines  *bufio.Reader
	mu     sync.Mutex
}

// startNoopWorker starts "axd bench worker".
func (e *env) startNoopWorker(name string) (*noopWorker, error) {
	childIn, ask, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = childIn.Close() }()
	answer, childOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, ask.Close())
	}
	defer func() { _ = childOut.Close() }()
	args := []string{
		"bench", "worker", "--name", name, "--handler", e.handler(), "--join", e.join, "--slots", strconv.Itoa(e.opts.Slots),
	}
	if e.opts.Spool {
		args = append(args, "--data-dir", filepath.Join(e.dir, name))
	}
	w := &noopWorker{ask: ask, answer: answer, lines: bufio.NewReader(answer)}
	w.Process = e.group.Add(process.Command{
		Name: name, Path: e.opts.Bin, Args: args, Log: filepath.Join(e.dir, name+".log"), Stdin: childIn, Stdout: childOut,
	})
	if err := w.Start(); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// report asks for what the worker saw of a phase.
func (w *noopWorker) report(phase int) (*starts, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.answer.SetReadDeadline(time.Now().Add(reportTime)); err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintln(w.ask, phase); err != nil {
		return nil, fmt.Errorf("ask %s: %w\n%s", w.Name(), err, w.Tail())
	}
	line, err := w.lines.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("answer of %s: %w\n%s", w.Name(), err, w.Tail())
	}
	var r report
	if err := json.Unmarshal(line, &r); err != nil {
		return nil, fmt.Errorf("answer of %s: %w", w.Name(), err)
	}
	return r.unpack()
}

func (w *noopWorker) close() {
	_ = w.ask.Close()
	_ = w.answer.Close()
}
