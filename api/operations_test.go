package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

// operations notes what an operator asks of the servers.
type operations struct {
	wishes   []string
	refuseOp error
	snapshot string
	cutOff   bool // the snapshot ends before its end
}

func (o *operations) note(format string, args ...any) error {
	o.wishes = append(o.wishes, fmt.Sprintf(format, args...))
	return o.refuseOp
}

func (o *operations) JoinServer(_ context.Context, name, address string) error {
	return o.note("join %s %s", name, address)
}

func (o *operations) RemoveServer(_ context.Context, name string, force bool) error {
	return o.note("remove %s %v", name, force)
}

func (o *operations) TransferLeadership(_ context.Context, to string) (client.Transfer, error) {
	return client.Transfer{From: "s1", Leader: "s2", Term: 4}, o.note("transfer %q", to)
}

func (o *operations) CheckCluster(context.Context) (client.ClusterCheck, error) {
	return client.ClusterCheck{OK: true, Servers: []client.ServerCheck{{Name: "s1", Agrees: true}}}, o.note("check")
}

func (o *operations) SaveSnapshot(_ context.Context, begin func(int64) io.Writer) error {
	if err := o.note("save"); err != nil {
		return err
	}
	text := o.snapshot
	w := begin(int64(len(text)))
	if o.cutOff {
		text = text[:len(text)/2]
	}
	if _, err := io.WriteString(w, text); err != nil || !o.cutOff {
		return err
	}
	return errors.New("the disk failed")
}

func (o *operations) RestoreSnapshot(_ context.Context, r io.Reader, force bool) (client.Restored, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return client.Restored{}, err
	}
	return client.Restored{Applied: 7, Epoch: 9}, o.note("restore %s %v", b, force)
}

func TestOperationsReachTheServers(t *testing.T) {
	w := newWorld(t)
	w.snapshot = "all of it"
	for _, tt := range []struct {
		method, path, body string
		status             int
		asked              string
	}{
		{"POST", "/v1/cluster/join", `{"name": "s4", "rpc_address": "10.0.0.4:7481"}`, http.StatusNoContent, "join s4 10.0.0.4:7481"},
		{"POST", "/v1/cluster/remove", `{"name": "s3"}`, http.StatusNoContent, "remove s3 false"},
		{"POST", "/v1/cluster/remove", `{"name": "s3", "force": true}`, http.StatusNoContent, "remove s3 true"},
		{"POST", "/v1/cluster/transfer", `{"to": "s2"}`, http.StatusOK, `transfer "s2"`},
		{"POST", "/v1/cluster/transfer", ``, http.StatusOK, `transfer ""`},
		{"GET", "/v1/cluster/check", ``, http.StatusOK, "check"},
		{"GET", "/v1/snapshot", ``, http.StatusOK, "save"},
		{"POST", "/v1/snapshot", `bytes`, http.StatusOK, "restore bytes false"},
		{"POST", "/v1/snapshot?force=true", `bytes`, http.StatusOK, "restore bytes true"},
	} {
		w.wishes = nil
		r := newRequest(tt.method, tt.path, tt.body)
		if tt.path != "/v1/cluster/transfer" && strings.HasPrefix(tt.path, snapshotPath) && tt.method == "POST" {
			r.Header.Set("Content-Type", mediaSnapshot)
		}
		rec := w.serve(r)
		if rec.Code != tt.status || strings.Join(w.wishes, ";") != tt.asked {
			t.Errorf("%s %s %s: %d %s, asked %q", tt.method, tt.path, tt.body, rec.Code, rec.Body, w.wishes)
		}
	}
	rec := w.do("GET", "/v1/snapshot", "")
	if rec.Body.String() != "all of it" || rec.Header().Get("Content-Length") != "9" || rec.Header().Get("Content-Type") != mediaSnapshot {
		t.Errorf("snapshot %q, %v", rec.Body, rec.Header())
	}
}

func TestOperationsRefuse(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct {
		method, path, body string
		status             int
		code               job.Code
		field              string
	}{
		{"POST", "/v1/cluster/join", `{"rpc_address": "a:1"}`, 400, job.CodeInvalid, "name"},
		{"POST", "/v1/cluster/join", `{"name": "s4"}`, 400, job.CodeInvalid, "rpc_address"},
		{"POST", "/v1/cluster/remove", `{}`, 400, job.CodeInvalid, "name"},
		{"POST", "/v1/snapshot", `{}`, 415, job.CodeInvalid, "Content-Type"},
		{"POST", "/v1/snapshot?force=perhaps", ``, 400, job.CodeInvalid, "force"},
		{"GET", "/v1/snapshot?force=true", ``, 400, job.CodeInvalid, "query.force"},
	} {
		r := newRequest(tt.method, tt.path, tt.body)
		if strings.Contains(tt.path, "force") {
			r.Header.Set("Content-Type", mediaSnapshot)
		}
		wantProblem(t, w.serve(r), tt.status, tt.code, tt.field)
	}
	if len(w.wishes) > 0 {
		t.Errorf("asked %q", w.wishes)
	}
	w.refuseOp = job.Conflict("server", "can't be removed", "s2")
	wantProblem(t, w.do("POST", "/v1/cluster/remove", `{"name": "s2"}`), 409, job.CodeConflict, "server")
	wantProblem(t, w.do("GET", "/v1/snapshot", ""), 409, job.CodeConflict, "server")
}

// A snapshot goes out and in over a real connection; one that is cut off is told
// from a whole one.
func TestSnapshotOverHTTP(t *testing.T) {
	w := newWorld(t)
	w.snapshot = strings.Repeat("0123456789", 100_000)
	srv := httptest.NewServer(w.api)
	defer srv.Close()
	c, err := client.New(client.Config{Addresses: []string{srv.URL}, RetryTime: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var got strings.Builder
	if n, err := c.SaveSnapshot(t.Context(), &got); err != nil || got.String() != w.snapshot || n != int64(len(w.snapshot)) {
		t.Errorf("saved %d bytes of %d, %v", got.Len(), len(w.snapshot), err)
	}
	in := strings.NewReader(w.snapshot)
	out, err := c.RestoreSnapshot(t.Context(), in, in.Size(), true)
	if err != nil || out.Epoch != 9 || w.wishes[1] != "restore "+w.snapshot+" true" {
		t.Errorf("restored %+v, %v", out, err)
	}
	w.cutOff = true
	if _, err := c.SaveSnapshot(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), "broke off after 500000 bytes") {
		t.Errorf("a snapshot that is cut off: %v", err)
	}
}
