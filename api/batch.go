package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// The limits of one command of a batch, so that its encoding stays well under
// fsm.MaxEntryBytes and other callers' commands find room beside it.
const (
	chunkTasks = 500
	chunkBytes = 256 << 10
	// taskOverhead is more than what a task's encoding may be longer than its
	// JSON: defaults and numbers, which JSON leaves out or writes in a digit.
	taskOverhead = 256
)

// batch is a batch on its way: results in order, and what is still to be
// proposed.
type batch struct {
	results []client.BatchResult
	chunks  []chunk
	decided int        // tasks that the state answered
	failed  *job.Error // why a chunk was not answered; unknown_outcome outweighs the rest
}

// chunk is what one command of a batch carries.
type chunk struct {
	places []int // of its tasks in the batch
	tasks  []job.TaskSpec
	bytes  int // at most, encoded
}

func (a *api) submitBatch(r *request) error {
	if r.Request().Header.Get(idempotencyHeader) != "" {
		return job.Invalid(idempotencyHeader, "must be absent: each task of a batch has its own idempotency_key", "")
	}
	var in client.BatchRequest
	if err := decode(r.body, &in); err != nil {
		return err
	}
	if in.Tasks == nil {
		return job.Invalid("tasks", "must be an array of tasks", "")
	}
	b := &batch{results: make([]client.BatchResult, len(in.Tasks))}
	for i, raw := range in.Tasks {
		if err := b.add(i, raw); err != nil {
			b.refuse(i, err)
		}
	}
	for i := range b.chunks {
		a.submitChunk(r.ctx, r.namespace, b, &b.chunks[i])
	}
	if b.decided == 0 && b.failed != nil {
		return b.failed
	}
	return write(r, http.StatusOK, client.BatchResponse{Results: b.results})
}

// add reads one task and puts it into a chunk.
func (b *batch) add(i int, raw []byte) *job.Error {
	if len(raw) > maxBody {
		return tooLarge(taskPlace(i), "must be at most "+strconv.Itoa(maxBody)+" bytes", strconv.Itoa(len(raw)))
	}
	var in client.SubmitRequest
	if err := decodePart(raw, &in); err != nil {
		return err.At(taskPlace(i))
	}
	spec, err := readTask(&in, "")
	if err != nil {
		return err.At(taskPlace(i))
	}
	b.put(i, spec, len(raw))
	return nil
}

// put puts a task into a chunk; bytes is the length of its JSON.
func (b *batch) put(i int, spec job.TaskSpec, bytes int) {
	size := bytes + taskOverhead
	last := len(b.chunks) - 1
	if last < 0 || len(b.chunks[last].tasks) == chunkTasks || b.chunks[last].bytes+size > chunkBytes {
		b.chunks = append(b.chunks, chunk{})
		last++
	}
	c := &b.chunks[last]
	c.places, c.tasks, c.bytes = append(c.places, i), append(c.tasks, spec), c.bytes+size
}

// submitChunk proposes one chunk. Chunks go one after the other, so that the
// order of a batch is the order of creation and the first of two equal keys
// wins. Once the cluster takes nothing the rest isn't tried: each try would
// wait in vain.
func (a *api) submitChunk(ctx context.Context, namespace string, b *batch, c *chunk) {
	err := b.failed
	if err == nil || err.Code == job.CodeUnknownOutcome {
		var result fsm.Result
		if err = b.ended(ctx); err == nil {
			result, err = a.propose(ctx, fsm.Submit{Namespace: namespace, Tasks: c.tasks})
		}
		if err == nil {
			b.decided += len(c.places)
			for n, one := range result.Tasks {
				b.answer(c.places[n], one)
			}
			return
		}
	}
	for _, i := range c.places {
		b.refuse(i, err)
	}
	if b.failed == nil || err.Code == job.CodeUnknownOutcome {
		b.failed = err
	}
}

// ended tells why no further chunk can be proposed: the time is up.
func (b *batch) ended(ctx context.Context) *job.Error {
	if ctx.Err() == nil {
		return nil
	}
	return &job.Error{Code: job.CodeTimeout, Rule: "not submitted: the batch took longer than " + requestTime.String()}
}

func (b *batch) answer(i int, one fsm.SubmitResult) {
	if one.Err != nil {
		b.refuse(i, one.Err.At(taskPlace(i)))
		return
	}
	b.results[i] = client.BatchResult{ID: one.ID.String(), Deduplicated: &one.Deduplicated}
}

func (b *batch) refuse(i int, err *job.Error) {
	p := problemOf(err)
	b.results[i] = client.BatchResult{Error: &p}
}

func taskPlace(i int) string { return "tasks[" + strconv.Itoa(i) + "]" }
