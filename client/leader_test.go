package client_test

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/client"
)

func TestGoesToTheLeader(t *testing.T) {
	for _, c := range []struct {
		name   string
		leader string
		stale  bool
		want   []string
	}{
		{"one of its servers", "b:1", false, []string{"a:1", "b:1", "b:1"}},
		{"a server it wasn't given", "c:1", false, []string{"a:1", "a:1", "a:1"}},
		{"reads that need no leader", "b:1", true, []string{"a:1", "a:1", "a:1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked []string
			serve := func(header ...string) func(*http.Request) *http.Response {
				return func(r *http.Request) *http.Response {
					asked = append(asked, r.URL.Host)
					return answer(200, client.Job{}, header...)
				}
			}
			cl := open(t, cluster{"a:1": serve(client.LeaderHeader, c.leader), "b:1": serve()},
				client.Config{Addresses: []string{"a:1", "b:1"}, Stale: c.stale})
			for range 3 {
				if _, err := cl.Job(t.Context(), "report"); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(asked, c.want) {
				t.Errorf("asked %v, want %v", asked, c.want)
			}
		})
	}
}

// Who can't reach the leader is not sent to it by each answer of the others.
func TestShunsALeaderThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		servers := cluster{"a:1": func(*http.Request) *http.Response {
			return answer(200, client.Job{}, client.LeaderHeader, "b:1")
		}}
		servers["b:1"] = func(*http.Request) *http.Response {
			dials++
			return problem(503, "no_leader")
		}
		cl := open(t, servers, client.Config{Addresses: []string{"a:1", "b:1"}})
		for range 10 {
			if _, err := cl.Job(t.Context(), "report"); err != nil {
				t.Fatal(err)
			}
		}
		if dials != 1 {
			t.Errorf("the leader that doesn't answer was asked %d times, want once", dials)
		}
		time.Sleep(time.Minute)
		for range 2 {
			if _, err := cl.Job(t.Context(), "report"); err != nil {
				t.Fatal(err)
			}
		}
		if dials != 2 {
			t.Errorf("after a minute it was asked %d times in all, want twice", dials)
		}
	})
}
