package client_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

// JSON would turn bad bytes into U+FFFD: another command, or one key for two.
func TestTextThatIsNotUTF8IsRefusedByName(t *testing.T) {
	const bad = "a\xffb"
	command := func(x job.Exec) client.SubmitRequest { return client.SubmitRequest{Executor: job.Executor{Exec: &x}} }
	c := open(t, cluster{"a:1": func(r *http.Request) *http.Response {
		t.Errorf("sent %s", r.URL)
		return answer(200, client.Task{})
	}}, client.Config{Addresses: []string{"a:1"}})
	submit := func(r client.SubmitRequest) func(context.Context) error {
		return func(ctx context.Context) error { _, err := c.Submit(ctx, r); return err }
	}
	for field, call := range map[string]func(context.Context) error{
		"idempotency_key":   submit(client.SubmitRequest{Job: "j", IdempotencyKey: bad}),
		"payload":           submit(client.SubmitRequest{Job: "j", Payload: []byte(`"` + bad + `"`)}),
		"owner":             submit(client.SubmitRequest{Job: "j", Policy: job.Policy{Owner: bad}}),
		"exec.command[1]":   submit(command(job.Exec{Command: []string{"echo", bad}})),
		`exec.env["A"]`:     submit(command(job.Exec{Env: map[string]string{"A": bad}})),
		"exec.env":          submit(command(job.Exec{Env: map[string]string{bad: "b"}})),
		"exec.stdin":        submit(command(job.Exec{Stdin: bad})),
		`http.headers["X"]`: submit(client.SubmitRequest{Executor: job.Executor{HTTP: &job.HTTP{Headers: map[string]string{"X": bad}}}}),
		"reason":            func(ctx context.Context) error { _, err := c.Cancel(ctx, "x", bad); return err },
		"description":       func(ctx context.Context) error { _, err := c.PutJob(ctx, "j", job.Spec{Description: bad}); return err },
		"tasks[1].idempotency_key": func(ctx context.Context) error {
			_, err := c.SubmitBatch(ctx, []client.SubmitRequest{{Job: "j"}, {Job: "j", IdempotencyKey: bad}})
			return err
		},
	} {
		err := call(t.Context())
		if !errors.Is(err, job.ErrInvalid) || !strings.HasPrefix(err.Error(), field+": must be valid UTF-8") {
			t.Errorf("%s: got %v", field, err)
		}
	}
}
