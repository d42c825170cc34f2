package notify

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestGuard(t *testing.T) {
	for address, ok := range map[string]bool{
		"93.184.216.34": true, "2606:2800:220:1::1": true, "64:ff9b::5db8:d822": true, "2002:5db8:d822::1": true,
		"127.0.0.1": false, "127.255.0.9": false, "0.0.0.0": false, "10.0.0.1": false, "172.16.0.1": false, "172.31.255.255": false,
		"172.32.0.1": true, "192.168.1.1": false, "169.254.169.254": false, "100.64.0.1": false, "100.100.100.200": false,
		"168.63.129.16": false, "192.0.0.192": false, "198.18.0.1": false, "224.0.0.1": false, "255.255.255.255": false,
		"::": false, "::1": false, "fe80::1": false, "fe80::1%eth0": false, "fc00::1": false, "fd00:ec2::254": false, "ff02::1": false,
		"fec0::1": false, "::ffff:127.0.0.1": false, "::ffff:93.184.216.34": true, "::7f00:1": false, "64:ff9b::7f00:1": false,
		"64:ff9b::a9fe:a9fe": false, "64:ff9b:1::1": false, "2002:7f00:1::": false, "2002:a00:1::1": false, "2001:0:1::1": false,
	} {
		if err := (Guard{}).Check(netip.MustParseAddr(address)); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
	g := Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}}
	for address, ok := range map[string]bool{
		"127.0.0.1": true, "::ffff:127.0.0.1": true, "fd00::1": true, "::1": false, "10.0.0.1": false, "fc00::1": false,
	} {
		if err := g.Check(netip.MustParseAddr(address)); (err == nil) != ok {
			t.Errorf("with loopback allowed, %s: %v", address, err)
		}
	}
}

func try(t *testing.T, g Guard, d Delivery) Outcome {
	t.Helper()
	return tryFor(t, time.Minute, g, d)
}

func tryFor(t *testing.T, limit time.Duration, g Guard, d Delivery) Outcome {
	t.Helper()
	s := New(Config{
		Guard: g, Timeout: limit, Now: func() int64 { return 1_700_000_000_500 }, Logger: slog.New(slog.DiscardHandler),
	})
	defer s.client.CloseIdleConnections()
	return s.post(context.Background(), &d)
}

var loopback = Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}}

// TestAddressIsCheckedAtDial: a name that comes to a loopback address is refused as
// its number is, and nothing arrives.
func TestAddressIsCheckedAtDial(t *testing.T) {
	asked := false
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer srv.Close()
	for _, url := range []string{srv.URL, strings.Replace(srv.URL, "127.0.0.1", "localhost", 1)} {
		o := try(t, Guard{}, Delivery{ID: "c", URL: url})
		if o.OK || o.Status != 0 || !strings.Contains(o.Error, "is a loopback address") {
			t.Errorf("%s: %+v", url, o)
		}
	}
	if asked {
		t.Error("the request arrived")
	}
	if o := try(t, loopback, Delivery{ID: "c", URL: srv.URL}); !o.OK || !asked {
		t.Errorf("allowed: %+v", o)
	}
}

// TestProxyIsNotUsed: a proxy of the environment would dial for the server.
func TestProxyIsNotUsed(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	if tr, ok := newClient(Config{}).Transport.(*http.Transport); !ok || tr.Proxy != nil {
		t.Error("a proxy is used")
	}
}

func TestRequest(t *testing.T) {
	var got *http.Request
	var body []byte
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
	}))
	defer srv.Close()
	d := Delivery{ID: "01ABC-3", URL: srv.URL + "/hook?a=b", Body: []byte(`{"a":1}`), Keys: [][]byte{[]byte("new"), []byte("old")}}
	if o := try(t, loopback, d); !o.OK || o.Status != 202 || o.Error != "" {
		t.Fatalf("%+v", o)
	}
	if got.Method != http.MethodPost || got.URL.RequestURI() != "/hook?a=b" || string(body) != `{"a":1}` ||
		got.Header.Get("Content-Type") != "application/json" || got.Header.Get(HeaderID) != "01ABC-3" ||
		got.Header.Get(HeaderTimestamp) != "1700000000" {
		t.Errorf("%s %s %q %v", got.Method, got.URL, body, got.Header)
	}
	signatures := strings.Fields(got.Header.Get(HeaderSignature))
	if len(signatures) != 2 {
		t.Fatalf("signatures %q", signatures)
	}
	for i, key := range []string{"new", "old"} { // as a receiver checks it
		mac := hmac.New(sha256.New, []byte(key))
		mac.Write([]byte(`01ABC-3.1700000000.{"a":1}`))
		if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); signatures[i] != want {
			t.Errorf("signature by %s is %s, want %s", key, signatures[i], want)
		}
	}
	if try(t, loopback, Delivery{ID: "c", URL: srv.URL}); got.Header.Get(HeaderSignature) != "" {
		t.Error("signed without a key")
	}
}

func TestAnswers(t *testing.T) {
	mux := http.NewServeMux()
	srv := httptest.NewServer(mux)
	defer srv.Close()
	followed := false
	mux.HandleFunc("/target", func(http.ResponseWriter, *http.Request) { followed = true })
	mux.HandleFunc("/redirect", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/target", http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("/busy", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "</pre><script>\x1b[31m\nalert(1)</script>\xff")
	})
	endless := make(chan struct{})
	mux.HandleFunc("/endless", func(w http.ResponseWriter, _ *http.Request) {
		defer close(endless)
		for chunk := []byte(strings.Repeat("x", 64<<10)); ; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	for path, want := range map[string]Outcome{
		"/redirect": {Status: 307, Error: "answered 307: redirects are not followed"},
		"/busy":     {Status: 503, Error: "answered 503: </pre><script> [31m alert(1)</script>"},
		"/endless":  {Status: 200, OK: true},
		"/slow":     {Error: "no answer within 300ms"},
		"/nowhere":  {Status: 404, Error: "answered 404: 404 page not found"},
	} {
		limit := time.Minute
		if path == "/slow" {
			limit = 300 * time.Millisecond
		}
		if o := tryFor(t, limit, loopback, Delivery{ID: "c", URL: srv.URL + path}); o != want {
			t.Errorf("%s: %+v, want %+v", path, o, want)
		}
	}
	select {
	case <-endless: // the connection was ended
	case <-time.After(time.Minute):
		t.Error("an endless body is still read")
	}
	if followed {
		t.Error("the redirect was followed")
	}
	if o := try(t, loopback, Delivery{ID: "c", URL: "http://127.0.0.1:1/"}); o.OK || o.Status != 0 || strings.Contains(o.Error, "Post") {
		t.Errorf("no listener: %+v", o)
	}
}

// An answer that is wanted comes to whom it is wanted by, whole or not at all.
func TestAnswersThatAreWanted(t *testing.T) {
	answer, status := "", http.StatusOK
	var asked *http.Request
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	defer srv.Close()
	s := New(Config{Guard: loopback, Timeout: time.Minute, MaxTaken: 10, Now: func() int64 { return 0 }, Logger: slog.New(slog.DiscardHandler)})
	defer s.client.CloseIdleConnections()
	taken := ""
	d := Delivery{
		ID: "c", URL: srv.URL, Header: map[string]string{"Axd-Schedule": "x"},
		Take: func(_ context.Context, body []byte) error {
			if taken = string(body); taken == "bad" {
				return errors.New("is no list")
			}
			return nil
		},
	}
	for _, c := range []struct {
		answer string
		status int
		taken  string
		why    string
	}{
		{"0123456789", 200, "0123456789", ""},
		{"01234567890", 200, "", "longer than 10 bytes"},
		{"bad", 200, "bad", "is no list"},
		{"gone", 410, "", "answered 410: gone"},
		{"", 302, "", "redirects are not followed"},
	} {
		answer, status, taken = c.answer, c.status, ""
		o := s.post(t.Context(), &d)
		if o.OK != (c.why == "") || o.Status != c.status || taken != c.taken || !strings.Contains(o.Error, c.why) {
			t.Errorf("%q: %+v, taken %q", c.answer, o, taken)
		}
	}
	if asked.Method != http.MethodGet || asked.Header.Get("Axd-Schedule") != "x" || asked.Header.Get("Content-Type") != "" {
		t.Errorf("%s %v", asked.Method, asked.Header)
	}
}
