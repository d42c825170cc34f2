package worker

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
)

const (
	maxResponse       = 1 << 20 // bytes read of a response; the rest is left
	maxResponseHeader = 64 << 10
	connectTimeout    = 10 * time.Second
	idleConnTimeout   = 30 * time.Second
	maxIdleConns      = 64
)

// webClient makes the requests of http attempts. Requests in flight are bounded
// by the worker's slots, and so are connections.
type webClient struct {
	w      *Worker
	client *http.Client
}

func newWebClient(w *Worker) *webClient {
	transport := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: connectTimeout}).DialContext,
		TLSHandshakeTimeout:    connectTimeout,
		MaxConnsPerHost:        w.cfg.Slots,
		MaxIdleConns:           maxIdleConns,
		IdleConnTimeout:        idleConnTimeout,
		MaxResponseHeaderBytes: maxResponseHeader,
		ForceAttemptHTTP2:      true,
	}
	return &webClient{w: w, client: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (c *webClient) close() { c.client.CloseIdleConnections() }

// run makes one request. The response's status is the exit code, its body the
// stdout.
func (c *webClient) run(a *attempt) ended {
	request, err := c.request(a.ctx, a)
	if err != nil {
		return notStarted(err.Error())
	}
	response, err := c.client.Do(request)
	if err != nil {
		e := c.w.judge(a, nil, err)
		e.class = job.ClassNetwork
		return e
	}
	defer response.Body.Close()
	body := newTail(rpc.MaxTailBytes)
	err = readBody(response.Body, func(b []byte) {
		body.add(b)
		a.hub.write(false, b)
	})
	status := response.StatusCode
	if err == nil && !a.success(status) {
		err = fmt.Errorf("the server answered %s", response.Status)
	}
	e := c.w.judge(a, nil, err)
	e.exitCode, e.stdout = &status, body.bytes()
	if e.outcome == job.OutcomeFailed {
		e.retryMS = retryAfter(response)
	}
	return e
}

func readBody(r io.Reader, each func([]byte)) error {
	r = io.LimitReader(r, maxResponse)
	buf := make([]byte, streamBuffer)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			each(buf[:n])
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the response: %w", err)
		}
	}
}

func (c *webClient) request(ctx context.Context, a *attempt) (*http.Request, error) {
	x := a.executor.HTTP
	body, ofPayload := []byte(x.Body), false
	if x.Body == "" {
		body, ofPayload = a.item.Payload, len(a.item.Payload) > 0
	}
	request, err := http.NewRequestWithContext(ctx, cmp.Or(x.Method, http.MethodPost), x.URL, bytes.NewReader(body))
	if err != nil {
		return nil, job.Invalid("http", "must be a valid request: "+err.Error(), x.URL)
	}
	ref := a.item.Ref
	h := request.Header
	h.Set("User-Agent", strings.TrimSuffix("axd/"+c.w.cfg.Version, "/"))
	h.Set("Idempotency-Key", job.ID(ref.ID).String())
	if ofPayload {
		h.Set("Content-Type", "application/json")
	}
	for key, value := range x.Headers {
		h.Set(key, value)
		if strings.EqualFold(key, "Host") {
			request.Host = value
		}
	}
	// The guard's headers are not the job's to change.
	h.Set("Axd-Task-Id", job.ID(ref.ID).String())
	h.Set("Axd-Attempt", strconv.FormatUint(uint64(ref.Attempt), 10))
	h.Set("Axd-Fencing-Token", tokenOf(ref).String())
	return request, nil
}
