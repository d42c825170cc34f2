package api

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

func TestHost(t *testing.T) {
	w := newWorld(t)
	for host, allowed := range map[string]bool{
		"localhost": true, "localhost:7480": true, "LOCALHOST:1": true, "localhost.:7480": true,
		"127.0.0.1:7480": true, "127.9.9.9": true, "[::1]:7480": true, "[::ffff:127.0.0.1]": true,
		"axd.example:7480": true, "AXD.example": true, "192.0.2.7:7480": true,
		"evil.example": false, "evil.example:7480": false, "localhost.evil.example": false, "192.0.2.8": false,
		"": false, "0.0.0.0:7480": false, "axd.example.": true, "axd.example@evil": false,
	} {
		r := newRequest("GET", "/healthz", "")
		r.Host = host
		local := &net.TCPAddr{IP: net.ParseIP("192.0.2.7"), Port: 7480}
		rec := w.serve(r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(local))))
		if allowed {
			if rec.Code != http.StatusOK {
				t.Errorf("%q: %d", host, rec.Code)
			}
			continue
		}
		if p := wantProblem(t, rec, http.StatusForbidden, job.CodeForbidden, "Host"); !strings.Contains(p.Detail, "--allowed-host NAME (AXD_ALLOWED_HOST, or allowed_host in its file)") {
			t.Errorf("%q: the text doesn't tell how to allow it: %s", host, p.Detail)
		}
	}
}

// No page of another site can make a browser submit a task.
func TestBrowserRequests(t *testing.T) {
	w := newWorld(t)
	body := `{` + execTrue + `}`
	before := w.logged()
	for _, media := range []string{
		"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain; a=application/json",
		"application/json; charset=utf-16", "application/jsonx", "application/json;;", "*/*",
	} {
		for method, path := range map[string]string{
			"POST": "/v1/tasks", "PUT": "/v1/jobs/a",
		} {
			r := newRequest(method, path, body)
			r.Header.Del("Content-Type")
			if media != "" {
				r.Header.Set("Content-Type", media)
			}
			wantProblem(t, w.serve(r), http.StatusUnsupportedMediaType, job.CodeInvalid, "Content-Type")
		}
	}
	r := newRequest("POST", "/v1/workers/w1/drain", "")
	r.Header.Del("Content-Type")
	wantProblem(t, w.serve(r), http.StatusUnsupportedMediaType, job.CodeInvalid, "Content-Type")
	r = newRequest("POST", "/v1/tasks", body)
	r.Header.Set("Content-Encoding", "gzip")
	wantProblem(t, w.serve(r), http.StatusUnsupportedMediaType, job.CodeInvalid, "Content-Encoding")
	for name, value := range map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"} {
		for _, method := range []string{"POST", "DELETE"} {
			r := newRequest(method, "/v1/jobs/a", body)
			r.Header.Set(name, value)
			wantProblem(t, w.serve(r), http.StatusForbidden, job.CodeForbidden, "Origin")
		}
	}
	if w.logged() != before {
		t.Error("something reached the log")
	}
	for _, media := range []string{"application/json", "Application/JSON; charset=UTF-8", "application/json ; charset=\"utf-8\""} {
		r := newRequest("POST", "/v1/tasks", body)
		r.Header.Set("Content-Type", media)
		if rec := w.serve(r); rec.Code != http.StatusCreated {
			t.Errorf("%s: %s", media, rec.Body)
		}
	}
	r = newRequest("POST", "/v1/tasks", body)
	r.Header.Set("Origin", "http://localhost:7480")
	rec := w.serve(r)
	if rec.Code != http.StatusCreated || rec.Header().Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("own page: %d %v", rec.Code, rec.Header())
	}
	if rec.Header().Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("headers %v", rec.Header())
	}
	preflight := newRequest("OPTIONS", "/v1/tasks", "")
	preflight.Header.Set("Origin", "https://evil.example")
	preflight.Header.Set("Access-Control-Request-Method", "POST")
	for name := range w.serve(preflight).Header() {
		if strings.HasPrefix(name, "Access-Control") {
			t.Errorf("a preflight is answered with %s", name)
		}
	}
}

func TestUnknownRoutes(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/", "/v1", "/v1/", "/v2/tasks", "/v1/tasks/", "/v1/tasks/a/b/c", "/v1/nope", "//v1/tasks", "/v1/tasks/%2e%2e/jobs", "/favicon.ico"} {
		wantProblem(t, w.do("GET", path, ""), http.StatusNotFound, job.CodeNotFound, "")
	}
	for _, tt := range []struct{ method, path, allow string }{
		{"DELETE", "/v1/tasks", "POST"}, {"POST", "/v1/cluster", "GET"}, {"PATCH", "/v1/jobs/a", "PUT"}, {"GET", "/v1/tasks/batch/cancel", "POST"},
		{"BREW", "/v1/tasks", "GET"}, {"POST", "/healthz", "GET"},
	} {
		rec := w.do(tt.method, tt.path, "{}")
		wantProblem(t, rec, http.StatusMethodNotAllowed, job.CodeInvalid, "")
		if allow := rec.Header().Get("Allow"); !strings.Contains(allow, tt.allow) {
			t.Errorf("%s %s: Allow %q", tt.method, tt.path, allow)
		}
	}
	if rec := w.do("HEAD", "/v1/tasks", ""); rec.Code != http.StatusOK {
		t.Errorf("HEAD: %d", rec.Code)
	}
}

func TestPanicIsAProblem(t *testing.T) {
	w := newWorld(t)
	w.refuse = func(int, fsm.Command) error { panic("secret") }
	p := wantProblem(t, w.do("POST", "/v1/tasks", `{`+execTrue+`}`), http.StatusInternalServerError, job.CodeInternal, "")
	if strings.Contains(p.Detail, "secret") {
		t.Errorf("detail %q", p.Detail)
	}
}

// blocked is an API whose proposals wait until release is called.
func blocked(t *testing.T) (w *world, entered chan struct{}, release func()) {
	w = newWorld(t)
	entered, gate := make(chan struct{}), make(chan struct{})
	w.refuse = func(int, fsm.Command) error {
		w.mu.Unlock() // the gate, not the node, is what callers wait at
		defer w.mu.Lock()
		entered <- struct{}{}
		<-gate
		return nil
	}
	return w, entered, func() { close(gate) }
}

func TestConcurrencyIsBounded(t *testing.T) {
	w, entered, release := blocked(t)
	done := make(chan int)
	for range maxRequests {
		go func() { done <- w.do("POST", "/v1/tasks", `{`+execTrue+`}`).Code }()
	}
	for range maxRequests {
		<-entered
	}
	wantProblem(t, w.do("GET", "/v1/tasks", ""), http.StatusTooManyRequests, job.CodeOverloaded, "")
	if rec := w.do("GET", "/healthz", ""); rec.Code != http.StatusOK {
		t.Errorf("health under load: %d", rec.Code)
	}
	release()
	for range maxRequests {
		if code := <-done; code != http.StatusCreated {
			t.Errorf("status %d", code)
		}
	}
	expect[client.TaskList](w, 200, "GET", "/v1/tasks", "")
}

func TestBodiesAreBounded(t *testing.T) {
	w, entered, release := blocked(t)
	const together = maxBodies / maxBatchBody
	done := make(chan int)
	unsized := func() *http.Request { // nobody knows how long it will be
		r := newRequest("POST", "/v1/tasks/batch", batchOf(`{`+execTrue+`}`))
		r.ContentLength = -1
		return r
	}
	for range together {
		go func() { done <- w.serve(unsized()).Code }()
	}
	for range together {
		<-entered
	}
	wantProblem(t, w.serve(unsized()), http.StatusTooManyRequests, job.CodeOverloaded, "")
	release()
	for range together {
		if code := <-done; code != http.StatusOK {
			t.Errorf("status %d", code)
		}
	}
}

// Over a real connection: a body that never ends, one that is too long, and one
// that stops in the middle.
func TestBodiesOverAConnection(t *testing.T) {
	w := newWorld(t)
	server := httptest.NewServer(w.api)
	defer server.Close()
	send := func(body string) *httptest.ResponseRecorder {
		// A pipe hides the length.
		req, err := http.NewRequest(http.MethodPost, server.URL+"/v1/tasks", struct{ *strings.Reader }{strings.NewReader(body)})
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = -1
		req.Header.Set("Content-Type", "application/json")
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		rec := httptest.NewRecorder()
		rec.Code = resp.StatusCode
		for k, v := range resp.Header {
			rec.Header()[k] = v
		}
		if _, err := rec.Body.ReadFrom(resp.Body); err != nil {
			t.Fatal(err)
		}
		return rec
	}
	wantProblem(t, send(`{"payload":"`+strings.Repeat("x", maxBody)+`"}`), http.StatusRequestEntityTooLarge, job.CodeTooLarge, "body")
	decoded[client.Task](t, http.StatusCreated, send(`{`+execTrue+`}`))

	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = conn.Write([]byte("POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"))
	_ = conn.(*net.TCPConn).CloseWrite()
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	buf := make([]byte, 4096)
	n, _ := conn.Read(buf)
	if answer := string(buf[:n]); !strings.HasPrefix(answer, "HTTP/1.1 400 ") || !strings.Contains(answer, "must be complete") {
		t.Errorf("a cut body: %q", answer)
	}
}
