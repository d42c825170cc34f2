package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// ended submits a task and lets an attempt end with output.
func (w *world) ended(stdout, stderr string) client.Task {
	w.t.Helper()
	task := w.submitted(`{` + execTrue + `}`)
	w.finish(w.assign(task.ID, "w1"), stdout, stderr)
	return task
}

func (w *world) finish(a fsm.AttemptRef, stdout, stderr string) {
	w.t.Helper()
	w.must(fsm.Finished{AttemptRef: a, Result: fsm.AttemptResult{
		Outcome: job.OutcomeSuccess, Started: startOfTime, Ended: startOfTime, Stdout: []byte(stdout), Stderr: []byte(stderr),
	}})
}

func TestLogs(t *testing.T) {
	w := newWorld(t)
	script := "<script>alert(1)</script>\xff\n"
	path := "/v1/tasks/" + w.ended(script, "oops\n").ID + "/logs"
	for query, want := range map[string]string{
		"":                          "<script>alert(1)</script>\ufffd\noops\n",
		"?stream=stderr":            "oops\n",
		"?stream=stdout&attempt=1":  "<script>alert(1)</script>\ufffd\n",
		"?follow=false&namespace=x": "",
	} {
		rec := w.do("GET", path+query, "")
		if query == "?follow=false&namespace=x" {
			wantProblem(t, rec, 404, job.CodeNotFound, "id")
			continue
		}
		if rec.Code != 200 || rec.Body.String() != want {
			t.Errorf("%s: %d %q", query, rec.Code, rec.Body)
		}
		if h := rec.Header(); h.Get("Content-Type") != "text/plain; charset=utf-8" || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("headers %v", h)
		}
	}
	for query, field := range map[string]string{
		"?stream=both": "stream", "?attempt=0": "attempt", "?attempt=x": "attempt", "?follow=1": "follow", "?follow=true&attempt=1": "attempt",
	} {
		wantProblem(t, w.do("GET", path+query, ""), 400, job.CodeInvalid, field)
	}
	wantProblem(t, w.do("GET", path+"?attempt=2", ""), 404, job.CodeNotFound, "attempt")
	wantProblem(t, w.do("GET", "/v1/tasks/01ARZ3NDEKTSV4RRFFQ69G5FAV/logs", ""), 404, job.CodeNotFound, "id")
	wantProblem(t, w.do("GET", "/v1/tasks/01ARZ3NDEKTSV4RRFFQ69G5FAV/logs?follow=true", ""), 404, job.CodeNotFound, "id")
	if rec := w.do("GET", "/v1/tasks/"+w.submitted(`{`+execTrue+`}`).ID+"/logs", ""); rec.Code != 200 || rec.Body.Len() != 0 {
		t.Errorf("before the first attempt: %d %q", rec.Code, rec.Body)
	}
}

// sse is one event, or a comment with its text as data.
type sse struct{ name, data string }

func parseEvents(t *testing.T, body string) []sse {
	t.Helper()
	var events []sse
	for block := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		var e sse
		for line := range strings.SplitSeq(block, "\n") {
			field, value, _ := strings.Cut(line, ": ")
			switch field {
			case "event":
				e.name = value
			case "data":
				e.data = value
			case "":
				e = sse{"comment", value}
			default:
				t.Errorf("line %q", line)
			}
		}
		events = append(events, e)
	}
	return events
}

func names(events []sse) string {
	var all []string
	for _, e := range events {
		all = append(all, e.name)
	}
	return strings.Join(all, " ")
}

// lockedRecorder is a recorder that a stream's two writers may share with the test.
type lockedRecorder struct {
	mu sync.Mutex
	*httptest.ResponseRecorder
	fail bool // every write
}

func (r *lockedRecorder) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fail {
		return 0, context.Canceled
	}
	return r.ResponseRecorder.Write(b)
}

func (r *lockedRecorder) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Body.String()
}

func (w *world) startFollow(ctx context.Context, id string) (*lockedRecorder, chan struct{}) {
	rec := &lockedRecorder{ResponseRecorder: httptest.NewRecorder()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.api.ServeHTTP(rec, newRequest("GET", "/v1/tasks/"+id+"/logs?follow=true", "").WithContext(ctx))
	}()
	return rec, done
}

func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.follow = func(_ context.Context, send func(client.LogChunk) error) error {
			for _, text := range []string{"one\n", "zwei\n\nevent: end\n"} {
				if err := send(client.LogChunk{Stream: "stdout", Data: text}); err != nil {
					return err
				}
				time.Sleep(40 * time.Second)
			}
			return nil
		}
		task := w.submitted(`{` + execTrue + `,"delay":"1h","payload":1}`)
		rec, done := w.startFollow(t.Context(), task.ID)
		time.Sleep(16 * time.Second) // it waits for its attempt
		synctest.Wait()
		if got := names(parseEvents(t, rec.text())); got != "comment" {
			t.Errorf("while waiting: %s", got)
		}
		expect[client.Task](w, 200, "POST", "/v1/tasks/"+task.ID+"/reschedule", `{"delay":"0s"}`)
		attempt := w.assign(task.ID, "w1")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		<-done
		events := parseEvents(t, rec.text())
		if got := strings.ReplaceAll(names(events), "comment ", ""); got != "chunk chunk end" {
			t.Fatalf("events %s:\n%s", got, rec.text())
		}
		if n := strings.Count(rec.text(), ": heartbeat\n\n"); n != 6 { // 96 seconds of stream
			t.Errorf("%d heartbeats", n)
		}
		var chunk client.LogChunk
		var last client.Task
		for _, e := range events {
			switch e.name {
			case "chunk":
				if err := json.Unmarshal([]byte(e.data), &chunk); err != nil {
					t.Error(err)
				}
			case "end":
				if err := json.Unmarshal([]byte(e.data), &last); err != nil {
					t.Error(err)
				}
			}
		}
		if chunk.Data != "zwei\n\nevent: end\n" || last.ID != task.ID || last.State != "dispatched" {
			t.Errorf("chunk %+v, end %+v", chunk, last)
		}
		if rec.Code != 200 || rec.Header().Get("Content-Type") != "text/event-stream" {
			t.Errorf("%d %v", rec.Code, rec.Header())
		}
		w.finish(attempt, "", "")
	})
}

// An attempt of a task that was just submitted may be over in a moment: the
// stream is there in time.
func TestFollowBeginsSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		followed := make(chan struct{})
		w.follow = func(context.Context, func(client.LogChunk) error) error { close(followed); return nil }
		task := w.submitted(`{` + execTrue + `}`)
		_, done := w.startFollow(t.Context(), task.ID)
		synctest.Wait()
		attempt := w.assign(task.ID, "w1")
		began := time.Now()
		<-followed
		if late := time.Since(began); late > 20*time.Millisecond {
			t.Errorf("the attempt is followed %v after its start", late)
		}
		<-done
		w.finish(attempt, "", "")
	})
}

func TestFollowEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		task := w.ended("out\n", "err\n")
		rec, done := w.startFollow(t.Context(), task.ID)
		<-done
		events := parseEvents(t, rec.text())
		if names(events) != "chunk chunk end" || !strings.Contains(events[1].data, `"err\n"`) || !strings.Contains(events[2].data, `"state":"success"`) {
			t.Errorf("events %v", events)
		}

		// An attempt that ends before anyone follows it: its tail is what there is.
		short := w.submitted(`{` + execTrue + `}`)
		attempt := w.assign(short.ID, "w1")
		w.follow = func(context.Context, func(client.LogChunk) error) error {
			w.finish(attempt, "short\n", "")
			return nil
		}
		rec, done = w.startFollow(t.Context(), short.ID)
		<-done
		if events = parseEvents(t, rec.text()); names(events) != "chunk end" || !strings.Contains(events[0].data, "short") {
			t.Errorf("events %v", events)
		}
	})
}

func TestFollowBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		task := w.submitted(`{` + execTrue + `}`)
		w.assign(task.ID, "w1")
		w.follow = func(context.Context, func(client.LogChunk) error) error {
			return job.Errorf(job.CodeUnknownOutcome, "the worker is gone")
		}
		rec, done := w.startFollow(t.Context(), task.ID)
		<-done
		events := parseEvents(t, rec.text())
		if names(events) != "problem" || !strings.Contains(events[0].data, `"code":"unknown_outcome"`) {
			t.Errorf("events %v", events)
		}

		// The reader leaves: everything ends at once.
		w.follow = func(ctx context.Context, _ func(client.LogChunk) error) error { <-ctx.Done(); return ctx.Err() }
		ctx, cancel := context.WithCancel(t.Context())
		rec, done = w.startFollow(ctx, task.ID)
		synctest.Wait()
		cancel()
		<-done
		if rec.text() != "" {
			t.Errorf("events after the end: %q", rec.text())
		}
	})
}

func TestStreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.submitted(`{` + execTrue + `,"delay":"1h"}`).ID
		ctx, cancel := context.WithCancel(t.Context())
		var ends []chan struct{}
		for range maxStreams {
			_, done := w.startFollow(ctx, id)
			ends = append(ends, done)
		}
		synctest.Wait()
		wantProblem(t, w.do("GET", "/v1/tasks/"+id+"/logs?follow=true", ""), http.StatusTooManyRequests, job.CodeOverloaded, "")
		expect[client.Task](w, 200, "GET", "/v1/tasks/"+id, "") // streams take no place of other requests
		cancel()
		for _, done := range ends {
			<-done
		}
	})
}

// A request that takes too long is answered, with what may have become of it.
func TestRequestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		slow := &slowNode{w.oneNode}
		w.api.backend = slow
		begin := time.Now()
		wantProblem(t, w.do("POST", "/v1/tasks", `{`+execTrue+`}`), 503, job.CodeUnknownOutcome, "")
		wantProblem(t, w.do("GET", "/v1/tasks", ""), 504, job.CodeTimeout, "")
		if took := time.Since(begin); took != 2*requestTime {
			t.Errorf("took %v", took)
		}
		begin = time.Now()
		wantProblem(t, w.do("GET", "/readyz", ""), 503, job.CodeNoLeader, "")
		if took := time.Since(begin); took != probeTime {
			t.Errorf("took %v", took)
		}
	})
}

// slowNode never answers.
type slowNode struct{ *oneNode }

func (slowNode) Propose(ctx context.Context, _ fsm.Command) (fsm.Result, error) {
	<-ctx.Done()
	return fsm.Result{}, ctx.Err()
}

func (slowNode) Read(ctx context.Context, _ bool, _ func(fsm.Reader) error) error {
	<-ctx.Done()
	return ctx.Err()
}

func (slowNode) Serving(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}
