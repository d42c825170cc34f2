package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// outputTime is how long after an attempt's end its worker is asked for output;
// workers keep it about as long.
const outputTime = 5 * time.Second

// How often a stream looks whether a task that it follows has got an attempt.
// The look is a local read. It is soon at first: an attempt that starts now may
// end in a moment.
const (
	pollMin = 10 * time.Millisecond // doubling
	pollMax = 500 * time.Millisecond
)

// taskLogs answers with the kept end of an attempt's output, or follows a task:
// see follow.
func (a *api) taskLogs(r *request) error {
	ref, wrong := r.taskRef()
	if wrong != nil {
		return wrong
	}
	stream := r.values.Get("stream")
	if r.values.Has("stream") && stream != "stdout" && stream != "stderr" {
		return job.Invalid("stream", "must be stdout or stderr", stream)
	}
	number, wrong := r.attempt()
	if wrong != nil {
		return wrong
	}
	if r.follow {
		for _, name := range []string{"attempt", "stream"} {
			if r.values.Has(name) {
				return job.Invalid(name, "must be absent with follow=true, which streams the current attempt whole", r.values.Get(name))
			}
		}
		return a.follow(r, ref)
	}
	var out strings.Builder
	err := a.read(r, func(v fsm.Reader) error {
		attempt, err := findAttempt(v, ref, number)
		if err != nil {
			return err
		}
		for _, chunk := range tails(attempt) {
			if stream == "" || chunk.Stream == stream {
				out.WriteString(chunk.Data)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return r.Blob(http.StatusOK, "text/plain; charset=utf-8", []byte(out.String()))
}

// attempt reads the parameter of that name; 0: the latest.
func (q query) attempt() (uint32, *job.Error) {
	if !q.values.Has("attempt") {
		return 0, nil
	}
	s := q.values.Get("attempt")
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || n == 0 {
		return 0, job.Invalid("attempt", "must be an attempt's number, from 1 on", s)
	}
	return uint32(n), nil
}

// findAttempt reads a task's attempt by its number, 0 meaning the latest; a task
// without attempt gives an empty one.
func findAttempt(v fsm.Reader, ref fsm.TaskRef, number uint32) (fsm.Attempt, error) {
	if _, ok := fsm.GetTask(v, ref); !ok {
		return fsm.Attempt{}, job.NotFound("id", ref.ID.String())
	}
	attempts := fsm.ListAttempts(v, ref)
	for _, attempt := range attempts {
		if attempt.Number == number {
			return attempt, nil
		}
	}
	switch {
	case number != 0:
		return fsm.Attempt{}, job.NotFound("attempt", strconv.FormatUint(uint64(number), 10))
	case len(attempts) == 0:
		return fsm.Attempt{}, nil
	default:
		return attempts[len(attempts)-1], nil
	}
}

// tails are the kept ends of an attempt's output.
func tails(attempt fsm.Attempt) []client.LogChunk {
	var out []client.LogChunk
	for _, c := range []client.LogChunk{
		{Stream: "stdout", Data: validText(attempt.Result.Stdout)},
		{Stream: "stderr", Data: validText(attempt.Result.Stderr)},
	} {
		if c.Data != "" {
			out = append(out, c)
		}
	}
	return out
}

func validText(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }

// follow streams a task's current attempt as events: chunk (client.LogChunk)
// for its output, then end (client.Task, without payload) when it is over. A
// task that waits for its attempt is waited for; of one that has ended the kept
// tails are sent. What goes wrong after the beginning is an event named
// problem (client.Problem), and then there is no end.
func (a *api) follow(r *request, ref fsm.TaskRef) error {
	task, err := a.followed(r.ctx, r.stale, ref)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	s := newEventStream(r)
	beats := s.heartbeat(ctx)
	err = a.streamAttempt(ctx, s, ref, task)
	cancel()
	<-beats
	if err != nil && r.ctx.Err() == nil {
		_ = s.send("problem", problemOf(err)) // the last word; nothing is left to do if it fails
	}
	return nil
}

// streamAttempt sends everything between the stream's beginning and its end.
func (a *api) streamAttempt(ctx context.Context, s *eventStream, ref fsm.TaskRef, task fsm.Task) error {
	poll := pollMin
	tick := time.NewTimer(poll)
	defer tick.Stop()
	for !task.State.Terminal() && !task.State.Active() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		poll = min(2*poll, pollMax)
		tick.Reset(poll)
		var err error
		if task, err = a.followed(ctx, true, ref); err != nil {
			return err
		}
	}
	sent := false
	if task.State.Active() || a.justEnded(task) {
		err := a.backend.Follow(ctx, ref, func(c client.LogChunk) error {
			sent = true
			return s.send("chunk", c)
		})
		if err != nil {
			return err
		}
		if task, err = a.followed(ctx, false, ref); err != nil {
			return err
		}
	}
	if !sent {
		// It ended before anyone listened: what was kept is what there is.
		if err := a.sendTails(ctx, s, ref); err != nil {
			return err
		}
	}
	return s.send("end", showTask(task, a.backend.Now()))
}

// justEnded tells that the worker may still have a task's output whole.
func (a *api) justEnded(t fsm.Task) bool {
	return t.State.Terminal() && t.Attempt > 0 && a.backend.Now()-t.Ended < outputTime.Milliseconds()
}

func (a *api) followed(ctx context.Context, stale bool, ref fsm.TaskRef) (task fsm.Task, err error) {
	err = a.backend.Read(ctx, stale, func(v fsm.Reader) error {
		var ok bool
		if task, ok = fsm.GetTask(v, ref); !ok {
			return job.NotFound("id", ref.ID.String())
		}
		return nil
	})
	return task, err
}

func (a *api) sendTails(ctx context.Context, s *eventStream, ref fsm.TaskRef) error {
	var chunks []client.LogChunk
	err := a.backend.Read(ctx, false, func(v fsm.Reader) error {
		attempt, err := findAttempt(v, ref, 0)
		chunks = tails(attempt)
		return err
	})
	if err != nil {
		return err
	}
	for _, c := range chunks {
		if err := s.send("chunk", c); err != nil {
			return err
		}
	}
	return nil
}

// eventStream writes server-sent events. Its methods may be called at the same time.
type eventStream struct {
	mu      sync.Mutex
	w       http.ResponseWriter
	control *http.ResponseController
}

// newEventStream begins the answer.
func newEventStream(r *request) *eventStream {
	w := r.Response()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy that buffers would hold the events back
	w.WriteHeader(http.StatusOK)
	s := &eventStream{w: w, control: http.NewResponseController(w.Writer)}
	_ = s.control.Flush() // fails only where send will fail too
	return s
}

func (s *eventStream) send(event string, v any) error {
	data, err := encode(v)
	if err != nil {
		return err
	}
	return s.write("event: " + event + "\ndata: " + string(data) + "\n") // data ends with a line feed
}

// write passes bytes on at once, or fails when the other side doesn't take them.
func (s *eventStream) write(text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A connection that knows no deadlines is a test's.
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTime))
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.control.Flush()
}

// heartbeat writes a comment now and then until ctx ends, and then closes the
// channel that it returned: a quiet stream and a dead one differ for proxies
// and for the reader.
func (s *eventStream) heartbeat(ctx context.Context) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(heartbeatTime)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if s.write(": heartbeat\n\n") != nil {
					return // send, or the request's context, tells the handler
				}
			}
		}
	}()
	return done
}
