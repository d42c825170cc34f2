package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster plays the servers of a cluster by host; a nil handler refuses
// connections. It lets tests run in virtual time.
type cluster map[string]func(*http.Request) *http.Response

func (c cluster) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer func() { _ = r.Body.Close() }()
	}
	h := c[r.URL.Host]
	if h == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	}
	resp := h(r)
	if resp == nil {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return resp, nil
}

func answer(status int, v any, header ...string) *http.Response {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	h := http.Header{"Content-Type": {"application/json"}}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(string(data)))}
}

func problem(status int, code job.Code, header ...string) *http.Response {
	return answer(status, client.Problem{Title: "t", Status: status, Detail: "because", Code: code}, header...)
}

func open(t *testing.T, c cluster, cfg client.Config) *client.Client {
	t.Helper()
	cfg.HTTPClient = &http.Client{Transport: c}
	cl, err := client.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

func body(t *testing.T, r *http.Request) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		t.Error(err)
	}
	return m
}

func TestFailsOverAndStays(t *testing.T) {
	calls := 0
	c := open(t, cluster{"b:1": func(*http.Request) *http.Response {
		calls++
		return answer(200, client.Stats{Slots: 3})
	}}, client.Config{Addresses: []string{"a:1", "http://b:1"}, OnRetry: func(err error, _ time.Duration) {
		t.Errorf("waited although another address was left: %v", err)
	}})
	for range 3 {
		got, err := c.Stats(t.Context())
		if err != nil || got.Slots != 3 {
			t.Fatalf("got %+v, %v", got, err)
		}
	}
	if calls != 3 {
		t.Errorf("b was asked %d times, want 3", calls)
	}
}

func TestRetriesUntilLeaderIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c := open(t, cluster{"a:1": func(*http.Request) *http.Response {
			if time.Since(start) < 4*time.Second {
				return problem(503, job.CodeNoLeader)
			}
			return answer(200, client.Stats{Slots: 1})
		}}, client.Config{Addresses: []string{"a:1"}})
		if _, err := c.Stats(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d > 7*time.Second {
			t.Errorf("took %v", d)
		}
	})
}

func TestGivesUpAfterRetryTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c := open(t, cluster{}, client.Config{Addresses: []string{"a:1"}, RetryTime: 5 * time.Second})
		_, err := c.Stats(t.Context())
		if !errors.Is(err, job.ErrNoLeader) || !strings.Contains(err.Error(), "a:1: ") {
			t.Fatalf("got %v", err)
		}
		if d := time.Since(start); d > 5*time.Second || d < 2*time.Second {
			t.Errorf("gave up after %v", d)
		}
	})
}

func TestHonoursRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, calls := time.Now(), 0
		c := open(t, cluster{"a:1": func(*http.Request) *http.Response {
			if calls++; calls == 1 {
				return problem(429, job.CodeOverloaded, "Retry-After", "3")
			}
			return answer(200, client.Stats{})
		}}, client.Config{Addresses: []string{"a:1"}})
		if _, err := c.Stats(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d < 3*time.Second {
			t.Errorf("came back after %v, asked for 3s", d)
		}
	})
}

func TestSubmitOfUnknownOutcomeKeepsItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var keys []string
		c := open(t, cluster{
			"a:1": func(r *http.Request) *http.Response {
				keys = append(keys, body(t, r)["idempotency_key"].(string))
				return problem(503, job.CodeUnknownOutcome)
			},
			"hung:1": func(r *http.Request) *http.Response {
				keys = append(keys, body(t, r)["idempotency_key"].(string))
				return nil
			},
			"b:1": func(r *http.Request) *http.Response {
				m := body(t, r)
				keys = append(keys, m["idempotency_key"].(string))
				if m["idempotency_window"] != "10m" {
					t.Errorf("window of a made-up key: %v", m["idempotency_window"])
				}
				return answer(200, client.Task{ID: "x", Deduplicated: true})
			},
		}, client.Config{Addresses: []string{"a:1", "hung:1", "b:1"}})
		got, err := c.Submit(t.Context(), client.SubmitRequest{Job: "j"})
		if err != nil || got.ID != "x" {
			t.Fatalf("got %+v, %v", got, err)
		}
		if len(keys) != 3 || keys[0] == "" || keys[0] != keys[1] || keys[1] != keys[2] {
			t.Errorf("keys %q, want one three times", keys)
		}
	})
}

func TestCancelOfUnknownOutcomeIsNotRepeated(t *testing.T) {
	calls := 0
	c := open(t, cluster{"a:1": func(*http.Request) *http.Response {
		calls++
		return problem(503, job.CodeUnknownOutcome)
	}}, client.Config{Addresses: []string{"a:1"}})
	if _, err := c.Cancel(t.Context(), "x", ""); !errors.Is(err, job.ErrUnknownOutcome) || calls != 1 {
		t.Fatalf("%d calls, %v", calls, err)
	}
}

func TestRefusalIsNotRepeated(t *testing.T) {
	for _, tt := range []struct {
		status int
		code   job.Code
		want   *job.Error
	}{
		{404, job.CodeNotFound, job.ErrNotFound},
		{409, job.CodeIdempotencyMismatch, job.ErrIdempotencyMismatch},
		{429, job.CodeQuotaExceeded, job.ErrQuotaExceeded},
		{400, job.CodeInvalid, job.ErrInvalid},
	} {
		calls := 0
		c := open(t, cluster{"a:1": func(*http.Request) *http.Response {
			calls++
			return problem(tt.status, tt.code)
		}}, client.Config{Addresses: []string{"a:1"}})
		_, err := c.Submit(t.Context(), client.SubmitRequest{Job: "j"})
		var e *client.Error
		if !errors.Is(err, tt.want) || !errors.As(err, &e) || e.Status != tt.status || calls != 1 {
			t.Errorf("%s: %d calls, %v", tt.code, calls, err)
		}
		if errors.Is(err, job.ErrOverloaded) || err.Error() != "because" {
			t.Errorf("%s: error %q", tt.code, err)
		}
	}
}

func TestContextEndsACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, cluster{}, client.Config{Addresses: []string{"a:1"}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Stats(ctx)
		if !errors.Is(err, job.ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "refused") {
			t.Errorf("deadline: %v", err)
		}
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, stop)
		if _, err = c.Stats(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("cancel: %v", err)
		}
	})
}

func TestForeignAnswers(t *testing.T) {
	html := func(status int) func(*http.Request) *http.Response {
		return func(*http.Request) *http.Response {
			return &http.Response{
				StatusCode: status, Header: http.Header{"Content-Type": {"text/html"}},
				Body: io.NopCloser(strings.NewReader("<h1>hello</h1>")),
			}
		}
	}
	for status, want := range map[int]job.Code{404: job.CodeNotFound, 418: job.CodeInternal, 302: job.CodeInternal} {
		c := open(t, cluster{"a:1": html(status)}, client.Config{Addresses: []string{"a:1"}})
		if _, err := c.Stats(t.Context()); !client.IsCode(err, want) || !strings.Contains(err.Error(), "is an axd server at a:1?") {
			t.Errorf("%d: %v", status, err)
		}
	}
	c := open(t, cluster{"a:1": html(200)}, client.Config{Addresses: []string{"a:1"}})
	if _, err := c.Cancel(t.Context(), "x", ""); !errors.Is(err, job.ErrUnknownOutcome) {
		t.Errorf("garbage with 200: %v", err)
	}
}

func TestBatch(t *testing.T) {
	no := false
	c := open(t, cluster{"a:1": func(r *http.Request) *http.Response {
		tasks := body(t, r)["tasks"].([]any)
		first, second := tasks[0].(map[string]any), tasks[1].(map[string]any)
		if first["idempotency_key"] == second["idempotency_key"] || first["idempotency_key"] == "" || second["delay"] != "90s" && second["delay"] != "1m30s" {
			t.Errorf("tasks %v", tasks)
		}
		return answer(200, client.BatchResponse{Results: []client.BatchResult{
			{ID: "x", Deduplicated: &no}, {Error: &client.Problem{Code: job.CodeInvalid, Field: "job"}},
		}})
	}}, client.Config{Addresses: []string{"a:1"}})
	delay := job.Duration(90 * time.Second)
	got, err := c.SubmitBatch(t.Context(), []client.SubmitRequest{{Job: "j"}, {Delay: &delay}})
	if err != nil || len(got) != 2 || got[0].ID != "x" || got[1].Error.Field != "job" {
		t.Fatalf("got %+v, %v", got, err)
	}
	if _, err = c.SubmitBatch(t.Context(), make([]client.SubmitRequest, job.MaxBatch+1)); !errors.Is(err, job.ErrInvalid) {
		t.Errorf("too many: %v", err)
	}
}

func TestNewRefusesAddresses(t *testing.T) {
	for _, a := range []string{"", "nowhere", "ftp://a:1", "http://", "a:1:2"} {
		if _, err := client.New(client.Config{Addresses: []string{a}}); !errors.Is(err, job.ErrInvalid) {
			t.Errorf("%q: %v", a, err)
		}
	}
}

// TestRequests checks what is sent by each method, over real HTTP.
func TestRequests(t *testing.T) {
	var got string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		got = r.Method + " " + r.URL.RequestURI() + " " + string(data)
		if r.Header.Get("Authorization") != "Bearer secret" {
			t.Error("no token")
		}
		if r.Method != http.MethodGet && r.Header.Get("Content-Type") != "application/json" {
			t.Error("no content type")
		}
		if want := map[bool]string{false: "ann@desk"}[r.Method == http.MethodGet]; r.Header.Get(client.ActorHeader) != want {
			t.Errorf("%s by %q", r.Method, r.Header.Get(client.ActorHeader))
		}
		if r.Method == http.MethodDelete {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		_, _ = io.WriteString(w, `{"name":"n","jobs":[{"name":"n"}],"attempts":[{"attempt":1}],"workers":[{"name":"n"}]}`)
	}))
	defer srv.Close()
	c, err := client.New(client.Config{Addresses: []string{srv.URL}, Namespace: "ops", Token: "secret", Actor: "ann@desk", Stale: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()
	for _, tt := range []struct {
		call func() error
		want string
	}{
		{func() error { _, err := c.Job(ctx, "a/b"); return err }, "GET /v1/jobs/a%2Fb?consistency=stale&namespace=ops "},
		{func() error { _, err := c.PutJob(ctx, "a", job.Spec{}); return err }, "PUT /v1/jobs/a?namespace=ops {}"},
		{
			func() error { _, err := c.PutJobFromFile(ctx, "a", "s", job.Spec{}); return err },
			`PUT /v1/jobs/a?namespace=ops {"file_set":"s"}`,
		},
		{func() error { return c.DeleteJob(ctx, "a") }, "DELETE /v1/jobs/a?namespace=ops "},
		{func() error { _, err := c.Jobs(ctx, 5, "c+"); return err }, "GET /v1/jobs?consistency=stale&cursor=c%2B&limit=5&namespace=ops "},
		{func() error { _, err := c.Workers(ctx, 0, ""); return err }, "GET /v1/workers?consistency=stale&namespace=ops "},
		{func() error { _, err := c.DrainWorker(ctx, "w", client.DrainRequest{}); return err }, "POST /v1/workers/w/drain?namespace=ops {}"},
		{func() error { _, err := c.ResumeWorker(ctx, "w"); return err }, "POST /v1/workers/w/resume?namespace=ops {}"},
		{func() error {
			d := job.Duration(0)
			_, err := c.Submit(ctx, client.SubmitRequest{Job: "j", Payload: []byte(`"<&>"`), IdempotencyKey: "k", IdempotencyWindow: &d})
			return err
		}, `POST /v1/tasks?namespace=ops {"job":"j","payload":"<&>","idempotency_key":"k","idempotency_window":"0s"}`},
		{
			func() error {
				_, err := c.PutSchedule(ctx, "s", job.ScheduleSpec{Job: "j", Cron: "@daily"})
				return err
			},
			`PUT /v1/schedules/s?namespace=ops {"name":"s","job":"j","cron":"@daily"}`,
		},
		{func() error { _, err := c.PauseSchedule(ctx, "s", "r"); return err }, `POST /v1/schedules/s/pause?namespace=ops {"reason":"r"}`},
		{func() error { _, err := c.ResumeSchedule(ctx, "s"); return err }, `POST /v1/schedules/s/resume?namespace=ops {}`},
		{
			func() error {
				_, err := c.TriggerSchedule(ctx, "s", client.TriggerRequest{Payload: job.JSON("1")})
				return err
			},
			`POST /v1/schedules/s/trigger?namespace=ops {"payload":1}`,
		},
		{func() error { _, err := c.NextTimes(ctx, "s", "", 3); return err }, `GET /v1/schedules/s/next?consistency=stale&count=3&namespace=ops `},
		{
			func() error { _, err := c.Fires(ctx, "s", client.FireFilter{Verdict: "missed"}, 0, ""); return err },
			`GET /v1/schedules/s/fires?consistency=stale&namespace=ops&verdict=missed `,
		},
		{func() error { return c.DeleteSchedule(ctx, "s") }, `DELETE /v1/schedules/s?namespace=ops `},
		{
			func() error {
				_, err := c.SendEvent(ctx, "e", client.SendEventRequest{DedupID: "x", Payload: []byte("1")})
				return err
			}, `POST /v1/events/e?namespace=ops {"dedup_id":"x","payload":1}`,
		},
		{func() error { _, err := c.Events(ctx, "e", 2, ""); return err }, `GET /v1/events?consistency=stale&limit=2&name=e&namespace=ops `},
		{func() error { _, err := c.Audit(ctx, client.AuditFilter{}, 0, ""); return err }, "GET /v1/audit?consistency=stale "},
		{func() error {
			_, err := c.Audit(ctx, client.AuditFilter{Namespace: "a", Kind: "job", Name: "j"}, 3, "")
			return err
		}, "GET /v1/audit?consistency=stale&kind=job&limit=3&namespace=a&object=j "},
		{func() error { return c.ForgetWorker(ctx, "w") }, "DELETE /v1/workers/w?namespace=ops "},
		{func() error { _, err := c.Cluster(ctx); return err }, "GET /v1/cluster?consistency=stale&namespace=ops "},
		{func() error { _, err := c.Attempts(ctx, "x"); return err }, "GET /v1/tasks/x/attempts?consistency=stale&namespace=ops "},
		{func() error { _, err := c.Tasks(ctx, client.TaskQuery{State: "failed", Limit: 2}); return err }, "GET /v1/tasks?consistency=stale&limit=2&namespace=ops&state=failed "},
		{func() error {
			_, err := c.Reschedule(ctx, "x", client.RescheduleRequest{Priority: job.High})
			return err
		}, `POST /v1/tasks/x/reschedule?namespace=ops {"priority":"high"}`},
	} {
		if err := tt.call(); err != nil {
			t.Errorf("%s: %v", tt.want, err)
		}
		if got != tt.want {
			t.Errorf("sent %q, want %q", got, tt.want)
		}
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c := open(t, cluster{"a:1": func(*http.Request) *http.Response {
			state := "running"
			if time.Since(start) > 30*time.Second {
				state = "upstream_failed"
			}
			return answer(200, client.Task{ID: "x", State: state})
		}}, client.Config{Addresses: []string{"a:1"}})
		got, err := c.Wait(t.Context(), "x")
		if err != nil || got.State != "upstream_failed" || time.Since(start) > 32*time.Second {
			t.Fatalf("got %+v, %v after %v", got, err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		if _, err = c.Wait(ctx, "x"); !errors.Is(err, job.ErrTimeout) {
			t.Errorf("deadline: %v", err)
		}
	})
}

func TestFollow(t *testing.T) {
	const whole = ": hello\n\nevent: chunk\ndata: {\"stream\":\"stdout\",\ndata: \"data\":\"hi\\n\"}\n\nevent: other\ndata: 1\n\nevent: end\ndata: {\"id\":\"x\",\"state\":\"failed\"}\n\n"
	for _, tt := range []struct {
		name, stream string
		status       int
		want         *job.Error
		chunks       int
	}{
		{"whole", whole, 200, nil, 1},
		{"windows line ends", strings.ReplaceAll(whole, "\n", "\r\n"), 200, nil, 1},
		{"cut", whole[:len(whole)-4], 200, job.ErrUnknownOutcome, 1},
		{"not JSON", "event: chunk\ndata: {\n\n", 200, job.ErrUnknownOutcome, 0},
		{"problem", strings.Replace(whole, "event: other\ndata: 1", "event: problem\ndata: {\"code\":\"no_leader\"}", 1), 200, job.ErrNoLeader, 1},
		{"refused", "", 404, job.ErrNotFound, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/v1/tasks/x/logs" || r.URL.Query().Get("follow") != "true" {
					t.Errorf("asked %s", r.URL)
				}
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.stream)
			}))
			defer srv.Close()
			c, err := client.New(client.Config{Addresses: []string{srv.URL}})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			var chunks []client.LogChunk
			task, err := c.Follow(t.Context(), "x", func(l client.LogChunk) { chunks = append(chunks, l) })
			if err == nil && task.State != "failed" {
				t.Errorf("task %+v", task)
			}
			if tt.want == nil && err != nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
			if len(chunks) != tt.chunks || tt.chunks == 1 && (chunks[0] != client.LogChunk{Stream: "stdout", Data: "hi\n"}) {
				t.Errorf("chunks %+v", chunks)
			}
		})
	}
}

func TestFollowNoticesASilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, cluster{"a:1": func(r *http.Request) *http.Response {
			pr, pw := io.Pipe()
			context.AfterFunc(r.Context(), func() { _ = pw.CloseWithError(r.Context().Err()) })
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: pr}
		}}, client.Config{Addresses: []string{"a:1"}})
		start := time.Now()
		_, err := c.Follow(t.Context(), "x", func(client.LogChunk) {})
		if !errors.Is(err, job.ErrUnknownOutcome) || time.Since(start) != 45*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}
