package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/axd-project/axd/job"
)

// DefaultAddress is where a client looks for a server unless told otherwise.
const DefaultAddress = "127.0.0.1:7480"

// DefaultRetryTime is how long a call is repeated unless its context ends before.
const DefaultRetryTime = 15 * time.Second

// The limits of one call.
const (
	callTime    = 10 * time.Second // for one request to one server; a hung server costs this much
	batchTime   = 60 * time.Second // the same for a batch
	dialTime    = 2 * time.Second  // to open a connection
	minBackoff  = 50 * time.Millisecond
	maxBackoff  = 2 * time.Second
	maxWait     = 30 * time.Second // the longest Retry-After that is obeyed to the letter
	maxAnswer   = 64 << 20         // bytes of an answer that are read
	maxAddrs    = 32
	connPerHost = 64
)

// Config tells a client where the cluster is.
type Config struct {
	// Addresses are host:port or http(s) URLs of servers; any server takes any
	// request, and says who leads: the next one goes there, if it is among them.
	// Default: DefaultAddress. At most 32.
	Addresses []string
	// Namespace is sent with every request. Default: "default".
	Namespace string
	// Token is sent as a bearer token. Default: none.
	Token string
	// Actor is who acts, as audit records show it: at most MaxActor bytes of text.
	// Default: none.
	Actor string
	// Stale lets reads be answered from whatever the asked server has.
	// Default: reads are linearizable.
	Stale bool
	// RetryTime bounds how long one call is repeated while there is no leader,
	// the cluster is overloaded or no server answers. The context bounds it too.
	// Default: DefaultRetryTime; negative: one round over the addresses.
	RetryTime time.Duration
	// OnRetry is told before each wait why a call is repeated. Optional.
	OnRetry func(err error, wait time.Duration)
	// HTTPClient carries the requests. Its Timeout should be zero: the client
	// sets deadlines of its own. Default: a client without redirects.
	HTTPClient *http.Client
}

// Client speaks with an axd cluster. It is safe for concurrent use.
type Client struct {
	cfg  Config
	base []*url.URL
	http *http.Client
	at   atomic.Uint32 // index of the server that is asked next
	// failed holds when each server last gave no answer, in Unix ms: 0 for never.
	failed []atomic.Int64
}

// New checks the configuration. It opens no connection.
func New(cfg Config) (*Client, error) {
	if len(cfg.Addresses) == 0 {
		cfg.Addresses = []string{DefaultAddress}
	}
	if len(cfg.Addresses) > maxAddrs {
		return nil, job.Invalid("addresses", "must be at most 32", "")
	}
	if cfg.Namespace == "" {
		cfg.Namespace = job.DefaultNamespace
	}
	if cfg.RetryTime == 0 {
		cfg.RetryTime = DefaultRetryTime
	}
	if len(cfg.Actor) > MaxActor || !utf8.ValidString(cfg.Actor) || strings.ContainsFunc(cfg.Actor, unicode.IsControl) {
		return nil, job.Invalid("actor", "must be UTF-8 text of at most 256 bytes without control characters", cfg.Actor)
	}
	c := &Client{cfg: cfg, http: cfg.HTTPClient}
	for _, a := range cfg.Addresses {
		u, err := parseAddress(a)
		if err != nil {
			return nil, err
		}
		c.base = append(c.base, u)
	}
	c.failed = make([]atomic.Int64, len(c.base))
	if c.http == nil {
		c.http = &http.Client{
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{
				Proxy:               http.ProxyFromEnvironment,
				DialContext:         (&net.Dialer{Timeout: dialTime, KeepAlive: 15 * time.Second}).DialContext,
				MaxIdleConnsPerHost: connPerHost,
				MaxConnsPerHost:     connPerHost,
				IdleConnTimeout:     90 * time.Second,
			},
		}
	}
	return c, nil
}

// Close gives up idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func parseAddress(a string) (*url.URL, error) {
	const rule = "must be host:port or an http(s) URL of a server"
	s := strings.TrimSpace(a)
	if !strings.Contains(s, "://") {
		if _, _, err := net.SplitHostPort(s); err != nil {
			return nil, job.Invalid("address", rule, a)
		}
		s = "http://" + s
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, job.Invalid("address", rule, a)
	}
	u.Path = strings.TrimSuffix(u.Path, "/")
	return u, nil
}

// request is one call before it is sent anywhere.
type request struct {
	method string
	path   string // already escaped, such as "/v1/tasks"
	query  url.Values
	body   any           // nil: none
	media  string        // of the body; default application/json
	limit  time.Duration // for one try; default callTime
	// again tells that a second execution changes nothing, so that a call whose
	// outcome is unknown may be repeated.
	again bool
}

// call sends r until it is answered for good and decodes the answer into out.
func (c *Client) call(ctx context.Context, r request, out any) error {
	var body []byte
	if r.body != nil {
		var err error
		if body, err = encodeBody(r.body); err != nil {
			return err
		}
	}
	deadline := time.Now().Add(max(c.cfg.RetryTime, 0))
	backoff := minBackoff
	for try := 1; ; try++ {
		at := c.at.Load()
		err := c.try(ctx, c.base[int(at)%len(c.base)], r, body, out)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ended(ctx, err)
		}
		if !err.retryable(r.again) {
			return err
		}
		c.leave(at)
		wait := time.Duration(0)
		if try%len(c.base) == 0 || err.Is(job.ErrOverloaded) {
			// Callers that failed together must not return together.
			wait = max(backoff/2+rand.N(backoff/2), min(err.retryAfter(), maxWait))
			backoff = min(2*backoff, maxBackoff)
		}
		if try >= len(c.base) && time.Now().Add(wait).After(deadline) {
			return err
		}
		if wait > 0 && c.cfg.OnRetry != nil {
			c.cfg.OnRetry(err, wait)
		}
		if !sleep(ctx, wait) {
			return ended(ctx, err)
		}
	}
}

// sleep waits for d and reports false when ctx ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// ended explains a call that its context stopped; last is why it was not
// answered until then.
func ended(ctx context.Context, last *Error) error {
	cause := ctx.Err()
	if errors.Is(cause, context.Canceled) {
		return cause
	}
	e := &Error{
		Problem: Problem{Code: job.CodeTimeout, Title: "time-out", Detail: "the deadline passed without an answer"},
		cause:   cause,
	}
	if last != nil {
		e.Address = last.Address
		if !errors.Is(last, context.DeadlineExceeded) {
			e.Detail += "; last: " + last.text()
		}
	}
	return e
}

// encoded is a body that is JSON already.
type encoded []byte

func encodeBody(v any) ([]byte, error) {
	if b, ok := v.(encoded); ok {
		return b, nil
	}
	var buf bytes.Buffer
	if err := encodeTo(&buf, "", v); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// encodeTo writes JSON and leaves payloads be: escaping for HTML would change
// them. Errors name fields below path.
func encodeTo(buf *bytes.Buffer, path string, v any) error {
	from := buf.Len()
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return job.Invalid(cmp.Or(path, "body"), "must be encodable as JSON: "+err.Error(), "")
	}
	buf.Truncate(buf.Len() - 1) // the newline
	if !suspicious(buf.Bytes()[from:]) {
		return nil
	}
	e := checkText(v)
	if e == nil {
		return nil
	}
	if path != "" {
		e = e.At(path)
	}
	return e
}

// suspicious reports whether JSON may come from text that isn't UTF-8: the
// encoder writes this escape for a bad byte, and keeps those of a json.RawMessage.
func suspicious(b []byte) bool {
	return bytes.Contains(b, []byte(`\ufffd`)) || !utf8.Valid(b)
}

func (c *Client) query(extra url.Values) url.Values {
	q := url.Values{"namespace": {c.cfg.Namespace}}
	for k, v := range extra {
		q[k] = v
	}
	return q
}

// Namespace returns the namespace the client works in.
func (c *Client) Namespace() string { return c.cfg.Namespace }
