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
	method, wanted := http.MethodPost, maxAnswer
	if d.Take != nil {
		method, wanted = http.MethodGet, s.cfg.MaxTaken+1
	}
	req, err := http.NewRequestWithContext(ctx, method, d.URL, bytes.NewReader(d.Body))
	if err != nil {
		return Outcome{Error: err.Error()}
	}
	for name, value := range d.Header {
		req.Header.Set(name, value)
	}
	now := s.cfg.Now() / 1000 //nolint:mnd // to seconds
	if d.Take != nil {
		req.Header.Set("Accept", "application/json")
	} else {
		req.Header.Set("Content-Type", "application/json")
	}
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
	text, err := io.ReadAll(io.LimitReader(answer.Body, int64(wanted)))
	out := Outcome{Status: answer.StatusCode, OK: answer.StatusCode >= 200 && answer.StatusCode <= 299} //nolint:mnd // HTTP's
	switch {
	case out.OK && d.Take != nil:
		if why := s.take(ctx, d, text, err); why != "" {
			out.OK, out.Error = false, why
		}
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

// take hands on an answer that is wanted, and says what is wrong with it.
func (s *Sender) take(ctx context.Context, d *Delivery, body []byte, err error) string {
	switch {
	case err != nil:
		return "its answer could not be read: " + reason(err, s.cfg.Timeout)
	case len(body) > s.cfg.MaxTaken:
		return fmt.Sprintf("its answer is longer than %d bytes", s.cfg.MaxTaken)
	}
	if err := d.Take(ctx, body); err != nil {
		return err.Error()
	}
	return ""
}

// reason says why there was no answer, without the URL, which who reads it knows.
func reason(err error, timeout time.Duration) string {
	var late interface{ Timeout() bool }
	if errors.As(err, &late) && late.Timeout() {
		return "no answer within " + timeout.String()
	}
	var u *url.Error
	if errors.As(err, &u) {
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
