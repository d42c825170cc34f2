package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// The limits of one request.
const (
	maxAnswer       = 4 << 10  // bytes read of an answer's body; what is more ends the connection
	maxQuoted       = 200      // bytes of it kept with a failure
	maxHeaders      = 64 << 10 // bytes of an answer's headers
	dialTime        = 5 * time.Second
	idleTime        = 30 * time.Second
	maxIdle         = 256 // connections kept open
	maxIdlePerHost  = 2
	keepAlivePeriod = 15 * time.Second
)

// newClient makes a client that reaches allowed addresses alone, follows no redirect
// and heeds no proxy of the environment, since that would dial for it.
func newClient(cfg Config) *http.Client {
	transport := cfg.Transport
	if transport == nil {
		d := net.Dialer{Timeout: dialTime, KeepAlive: keepAlivePeriod, Control: cfg.Guard.control}
		transport = &http.Transport{
			DialContext:            d.DialContext,
			TLSHandshakeTimeout:    dialTime,
			MaxConnsPerHost:        cfg.PerTarget,
			MaxIdleConnsPerHost:    maxIdlePerHost,
			MaxIdleConns:           maxIdle,
			IdleConnTimeout:        idleTime,
			MaxResponseHeaderBytes: maxHeaders,
			DisableCompression:     true, // a small answer could become a large one
		}
	}
	return &http.Client{
		Transport:     transport,
		Timeout:       cfg.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// post makes one try.
func (s *Sender) post(ctx context.Context, d *Delivery) Outcome {
	if d.Unsent != "" {
		return Outcome{Error: d.Unsent}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.URL, bytes.NewReader(d.Body))
	if err != nil {
		return Outcome{Error: err.Error()}
	}
	now := s.cfg.Now() / 1000 //nolint:mnd // to seconds
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", s.cfg.UserAgent)
	req.Header.Set(HeaderID, d.ID)
	req.Header.Set(HeaderTimestamp, strconv.FormatInt(now, 10))
	if len(d.Keys) > 0 {
		req.Header.Set(HeaderSignature, Sign(d.Keys, d.ID, now, d.Body))
	}
	answer, err := s.client.Do(req)
	if err != nil {
		return Outcome{Error: reason(err, s.cfg.Timeout)}
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	out := Outcome{Status: answer.StatusCode, OK: answer.StatusCode >= 200 && answer.StatusCode <= 299} //nolint:mnd // HTTP's
	switch {
	case out.OK: // whatever its body: the status says that it was taken
	case answer.StatusCode >= 300 && answer.StatusCode <= 399: //nolint:mnd // HTTP's
		out.Error = fmt.Sprintf("answered %d: redirects are not followed", answer.StatusCode)
	default:
		out.Error = fmt.Sprintf("answered %d", answer.StatusCode)
		if q := quote(text); q != "" && err == nil {
			out.Error += ": " + q
		}
	}
	return out
}

// reason says why there was no answer, without the URL, which who reads it knows.
func reason(err error, timeout time.Duration) string {
	var u *url.Error
	if errors.As(err, &u) {
		if u.Timeout() {
			return "no answer within " + timeout.String()
		}
		err = u.Err
	}
	return err.Error()
}

// quote is the begin of an answer on one line of text.
func quote(b []byte) string {
	b = b[:min(len(b), maxQuoted)]
	s := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(string(b), ""))
	return strings.Join(strings.Fields(s), " ")
}
