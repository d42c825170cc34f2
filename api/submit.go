package api

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"unicode/utf8"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// idempotencyHeader may carry a submit's idempotency_key.
const idempotencyHeader = "Idempotency-Key"

func (a *api) submit(r *request) error {
	key, err := headerKey(r.Request().Header)
	if err != nil {
		return err
	}
	var in client.SubmitRequest
	if err := decode(r.body, &in); err != nil {
		return err
	}
	spec, err := readTask(&in, key)
	if err != nil {
		return err
	}
	result, err := a.propose(r.ctx, fsm.Submit{Namespace: r.namespace, Tasks: []job.TaskSpec{spec}})
	if err != nil {
		return err
	}
	one := result.Tasks[0]
	if one.Err != nil {
		return one.Err
	}
	task := showTask(*one.Task, a.backend.Now())
	task.App, task.Owner, task.WorkerAddress = one.App, one.Owner, one.Address
	if c := one.Callback; c != nil {
		task.CallbackURL, task.CallbackJob, task.CallbackSecret, task.CallbackOn = c.URL, c.Job, c.Secret, c.On
	}
	task.Deduplicated = one.Deduplicated
	location := "/v1/tasks/" + task.ID
	if r.namespace != job.DefaultNamespace {
		location += "?namespace=" + url.QueryEscape(r.namespace)
	}
	r.Response().Header().Set("Location", location)
	if one.Deduplicated {
		return write(r, http.StatusOK, task)
	}
	return write(r, http.StatusCreated, task)
}

// propose commits a command. An error says what became of it: refused by the
// state, not committed, or unknown.
func (a *api) propose(ctx context.Context, c fsm.Command) (fsm.Result, *job.Error) {
	c, err := sent(ctx, c)
	if err != nil {
		return fsm.Result{}, job.AsError(err)
	}
	result, err := a.backend.Propose(ctx, c)
	switch {
	case err == nil:
		return result, result.Err
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		// The command may be on its way.
		return result, &job.Error{Code: job.CodeUnknownOutcome, Rule: "no answer within " + requestTime.String()}
	}
	return result, job.AsError(err)
}

// headerKey reads the Idempotency-Key header.
func headerKey(h http.Header) (string, *job.Error) {
	switch all := h.Values(idempotencyHeader); {
	case len(all) == 0:
		return "", nil
	case len(all) > 1:
		return "", job.Invalid(idempotencyHeader, "must appear once", all[1])
	case all[0] == "":
		return "", job.Invalid(idempotencyHeader, "must not be empty", "")
	case !utf8.ValidString(all[0]):
		return "", job.Invalid(idempotencyHeader, "must be valid UTF-8", all[0])
	default:
		return all[0], nil
	}
}

// readTask turns a SubmitRequest into what the state machine takes. key comes
// from the header and may be empty.
func readTask(in *client.SubmitRequest, key string) (job.TaskSpec, *job.Error) {
	spec := job.TaskSpec{
		Job: in.Job, Executor: in.Executor, Policy: in.Policy,
		Payload: in.Payload, IdempotencyKey: in.IdempotencyKey,
		IdempotencyPolicy: in.IdempotencyPolicy, UniqueKey: in.UniqueKey,
	}
	due, delay, err := readTime(in.ExecuteTime, in.Delay)
	switch {
	case err != nil:
		return spec, err
	case key != "" && in.IdempotencyKey != "" && key != in.IdempotencyKey:
		return spec, job.Invalid("idempotency_key", "must equal the Idempotency-Key header, or be absent", in.IdempotencyKey)
	case in.IdempotencyWindow != nil && *in.IdempotencyWindow <= 0:
		return spec, job.Invalid("idempotency_window", "must be more than 0", in.IdempotencyWindow.String())
	case in.IdempotencyPeriod != nil && *in.IdempotencyPeriod <= 0:
		return spec, job.Invalid("idempotency_period", "must be 1s to 30d", in.IdempotencyPeriod.String())
	}
	spec.Due, spec.Delay = due, delay
	if in.IdempotencyWindow != nil {
		spec.IdempotencyWindow = *in.IdempotencyWindow
	}
	if in.IdempotencyPeriod != nil {
		spec.IdempotencyPeriod = *in.IdempotencyPeriod
	}
	if key != "" {
		spec.IdempotencyKey = key
	}
	return spec, spec.Validate()
}

// readTime reads the two ways to say when: at most one may be given.
func readTime(at string, delay *job.Duration) (due int64, wait job.Duration, _ *job.Error) {
	switch {
	case at != "" && delay != nil:
		return 0, 0, job.Invalid("delay", "must be absent where execute_time is given", delay.String())
	case delay != nil && *delay < 0:
		return 0, 0, job.Invalid("delay", "must not be negative", delay.String())
	case delay != nil:
		return 0, *delay, nil
	case at == "":
		return 0, 0, nil
	}
	due, err := job.ParseTime(at)
	if err != nil {
		e := *job.AsError(err)
		e.Field = "execute_time"
		return 0, 0, &e
	}
	return due, 0, nil
}
