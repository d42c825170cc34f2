package api

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

const maxReconcile = 1000 // keys of one request

// reconcile compares what a caller believes with what is, and on request submits
// what is missing and replays what failed.
func (a *api) reconcile(r *request) error {
	var in client.ReconcileRequest
	if err := decode(r.body, &in); err != nil {
		return err
	}
	if n := len(in.Tasks); n == 0 || n > maxReconcile {
		return job.Invalid("tasks", "must hold 1 to "+strconv.Itoa(maxReconcile)+" keys", strconv.Itoa(n))
	}
	out, err := a.reconcileList(r.ctx, r.namespace, in.Tasks, in.Replay, 0)
	if err != nil {
		return err
	}
	return write(r, http.StatusOK, out)
}

// FetchedList is a list that a schedule has fetched.
type FetchedList struct {
	Namespace, Schedule string
	Body                []byte // JSON: an object with tasks, as POST /v1/reconcile takes them
	Replay              bool
	Before              int64 // what has failed since then, Unix ms, is not replayed
}

// ReconcileList compares a list as POST /v1/reconcile does. It may be repeated, also
// beside another server that does: of each key one task is made, and each dead letter
// from before is replayed once.
func ReconcileList(ctx context.Context, b Backend, l FetchedList) (out client.ReconcileResponse, list []client.Believed, err error) {
	var in client.ReconcileDocument
	if err := decode(l.Body, &in); err != nil {
		return out, nil, err
	}
	if n := len(in.Tasks); n > maxReconcile {
		return out, nil, job.Invalid("tasks", "must hold at most "+strconv.Itoa(maxReconcile)+" keys", strconv.Itoa(n))
	}
	a := &api{backend: b}
	ctx = context.WithValue(ctx, senderKey{}, sender{actor: "schedule " + l.Schedule})
	out, err = a.reconcileList(ctx, l.Namespace, in.Tasks, l.Replay, l.Before)
	return out, in.Tasks, err
}

// reconcileList compares, and with replay submits and replays; before: only what failed
// before that, 0: all.
func (a *api) reconcileList(
	ctx context.Context, namespace string, tasks []client.Believed, replay bool, before int64,
) (client.ReconcileResponse, error) {
	out := client.ReconcileResponse{Results: make([]client.Reconciled, len(tasks))}
	err := a.backend.Read(ctx, false, func(v fsm.Reader) error {
		now := a.backend.Now()
		for i := range tasks {
			out.Results[i] = compare(v, namespace, &tasks[i], i, now)
		}
		return nil
	})
	if err != nil {
		return out, err
	}
	for i := range out.Results {
		switch out.Results[i].Verdict {
		case client.ReconcileSame:
			out.Same++
		case client.ReconcileDiffers:
			out.Differs++
		case client.ReconcileMissing:
			out.Missing++
		}
	}
	if replay {
		a.submitMissing(ctx, namespace, tasks, &out)
		a.replayFailed(ctx, namespace, tasks, &out, before)
	}
	return out, nil
}

// compare looks what is of one key. What can't be right of its task is told
// whether or not it is to be submitted.
func compare(v fsm.Reader, namespace string, b *client.Believed, i int, now int64) client.Reconciled {
	out := client.Reconciled{IdempotencyKey: b.IdempotencyKey}
	if _, err := believed(b); err != nil {
		p := problemOf(err.At(taskPlace(i)))
		out.Error = &p
		return out
	}
	t, ok := fsm.TaskOfKey(v, namespace, b.IdempotencyKey)
	if !ok {
		out.Verdict = client.ReconcileMissing
		return out
	}
	out.ID, out.State = t.ID.String(), string(job.Show(t.State, t.Due, t.Retry, now))
	out.Verdict = client.ReconcileDiffers
	if b.State == "" || b.State == out.State || b.State == client.ReconcileOpen && !t.State.Terminal() {
		out.Verdict = client.ReconcileSame
	}
	return out
}

// believed checks one entry and reads its task; nil: it has none.
func believed(b *client.Believed) (*job.TaskSpec, *job.Error) {
	switch n := len(b.IdempotencyKey); {
	case n == 0 || n > job.MaxIdempotencyKey:
		return nil, job.Invalid("idempotency_key", "must be 1 to "+strconv.Itoa(job.MaxIdempotencyKey)+" bytes", b.IdempotencyKey)
	case b.State != "" && b.State != client.ReconcileOpen:
		if _, _, err := job.ParseShown(b.State); err != nil {
			return nil, job.Invalid("state", "must be a task's state, or open for one that has not ended", b.State)
		}
	}
	if len(b.Task) == 0 || b.Task[0] == 'n' {
		return nil, nil
	}
	if len(b.Task) > maxBody {
		return nil, tooLarge("task", "must be at most "+strconv.Itoa(maxBody)+" bytes", strconv.Itoa(len(b.Task)))
	}
	var in client.SubmitRequest
	if err := decodePart(b.Task, &in); err != nil {
		return nil, err.At("task")
	}
	switch {
	case in.IdempotencyKey != "" && in.IdempotencyKey != b.IdempotencyKey:
		return nil, job.Invalid("task.idempotency_key", "must be the one beside the task, or absent", in.IdempotencyKey)
	case in.IdempotencyPeriod != nil:
		return nil, job.Invalid("task.idempotency_period", "must be absent: a key that holds within a period can't be reconciled",
			in.IdempotencyPeriod.String())
	}
	spec, err := readTask(&in, b.IdempotencyKey)
	if err != nil {
		return nil, err.At("task")
	}
	return &spec, nil
}

// submitMissing submits what is missing and comes with a task. Should somebody else
// have submitted it meanwhile, that one is told.
func (a *api) submitMissing(ctx context.Context, namespace string, tasks []client.Believed, out *client.ReconcileResponse) {
	b := &batch{results: make([]client.BatchResult, len(tasks))}
	for i := range out.Results {
		if out.Results[i].Verdict != client.ReconcileMissing {
			continue
		}
		if spec, err := believed(&tasks[i]); spec != nil && err == nil {
			b.put(i, *spec, len(tasks[i].Task))
		}
	}
	for i := range b.chunks {
		a.submitChunk(ctx, namespace, b, &b.chunks[i])
	}
	for _, c := range b.chunks {
		for _, i := range c.places {
			one, result := &out.Results[i], b.results[i]
			one.ID, one.Error = result.ID, result.Error
			if one.Submitted = result.Error == nil; one.Submitted {
				out.Submitted++
			}
		}
	}
}

// replayFailed makes those dead letters pending again whose caller believes that they
// succeeded, or go on. A failure that is no dead letter is told as it is.
func (a *api) replayFailed(ctx context.Context, namespace string, tasks []client.Believed, out *client.ReconcileResponse, before int64) {
	var places []int
	var ids []job.ID
	for i := range out.Results {
		one := &out.Results[i]
		state, _ := stateOf(tasks[i].State)
		failed := one.State == job.Failed.String() || one.State == job.TimedOut.String()
		if id, err := job.ParseID(one.ID); err == nil && failed && one.Verdict == client.ReconcileDiffers &&
			(state == job.Success || !state.Terminal()) && !slices.Contains(ids, id) {
			places, ids = append(places, i), append(ids, id)
		}
	}
	for len(ids) > 0 {
		n := min(len(ids), fsm.MaxDeadIDs)
		result, err := a.propose(ctx, fsm.DeadLetters{Namespace: namespace, Replay: true, IDs: ids[:n], Before: before})
		for i, place := range places[:n] {
			refusal := err
			if err == nil && i < len(result.Attempts) {
				refusal = result.Attempts[i]
			}
			if refusal != nil {
				p := problemOf(refusal.At(taskPlace(place)))
				out.Results[place].Error = &p
				continue
			}
			out.Results[place].Replayed = true
			out.Replayed++
		}
		places, ids = places[n:], ids[n:]
	}
}

// stateOf is the stored state that a caller believes in; 0: open.
func stateOf(believed string) (job.State, error) {
	_, state, err := job.ParseShown(believed)
	return state, err
}
