package bench

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestWire(t *testing.T) {
	calls, remotes := 0, map[string]bool{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls++
		remotes[r.RemoteAddr] = true
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if calls == 3 {
			w.Header().Set("Connection", "close")
		}
		_, _ = fmt.Fprintf(w, "%s %s", r.URL.Path, b)
	}))
	defer s.Close()
	c := &http.Client{Transport: newWire()}
	defer c.CloseIdleConnections()
	for n := range 5 {
		resp, err := c.Post(s.URL+"/x", "text/plain", strings.NewReader(fmt.Sprint("body", n)))
		if err != nil {
			t.Fatal(err)
		}
		if n%2 == 0 { // the other answers are left unread
			got, err := io.ReadAll(resp.Body)
			if want := fmt.Sprint("/x body", n); err != nil || string(got) != want {
				t.Fatalf("answer %q, %v; want %q", got, err, want)
			}
		}
		if err := resp.Body.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if calls != 5 || len(remotes) != 2 {
		t.Errorf("%d calls over %d connections, want 5 over 2: the server closed one", calls, len(remotes))
	}
}
