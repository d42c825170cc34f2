package server

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/notify"
)

// keyFile writes a key, each time another one.
func keyFile(t *testing.T, fill byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	text := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, secretKeyBytes)) + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSecretKeyFile(t *testing.T) {
	t.Parallel()
	good := keyFile(t, 1)
	box, err := readSecretKey(good)
	if err != nil {
		t.Fatal(err)
	}
	sealed := box.seal("default", "hooks", []byte("a value of some bytes"))
	if bytes.Contains(sealed, []byte("value")) {
		t.Error("the value is in what is kept")
	}
	if got, err := box.open("default", "hooks", sealed); err != nil || string(got) != "a value of some bytes" {
		t.Errorf("%q, %v", got, err)
	}
	other, err := readSecretKey(keyFile(t, 2))
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Clone(sealed)
	changed[len(changed)-1] ^= 1
	for name, open := range map[string]func() ([]byte, error){
		"another key":       func() ([]byte, error) { return other.open("default", "hooks", sealed) },
		"another name":      func() ([]byte, error) { return box.open("default", "other", sealed) },
		"another namespace": func() ([]byte, error) { return box.open("d", "efaulthooks", sealed) },
		"a changed byte":    func() ([]byte, error) { return box.open("default", "hooks", changed) },
		"its begin alone":   func() ([]byte, error) { return box.open("default", "hooks", sealed[:5]) },
	} {
		if _, err := open(); err == nil {
			t.Errorf("%s opens it", name)
		}
	}
	if err := os.Chmod(good, 0o644); err != nil {
		t.Fatal(err)
	}
	short := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(short, []byte("c2hvcnQ="), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{good, short, filepath.Join(t.TempDir(), "none")} {
		var e *job.Error
		if _, err := readSecretKey(path); !errors.As(err, &e) || e.Field != "secret-key-file" {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A callback is signed with both values of its secret while there are two, and the
// values are nowhere on the disk.
func TestCallbacksAreSigned(t *testing.T) {
	gossip, dir := freeAddress(t), t.TempDir()
	n := start(t, Config{Name: "s1", DataDir: dir, Gossip: gossip, CallbackAllow: allowLoopback, SecretKeyFile: keyFile(t, 7)})
	n.await(t)
	startWorker(t, "w1", []string{gossip})
	c, ctx := clientOf(t, n), context.Background()
	const first, second = "the-first-value-0123456789", "the-second-value-9876543210"
	type delivery struct {
		header http.Header
		body   []byte
	}
	got := make(chan delivery, 8)
	h := newHookOf(t, func(r *http.Request, body []byte) { got <- delivery{r.Header, body} })
	req := client.SubmitRequest{Executor: job.Executor{Handler: "ok"}}
	req.CallbackURL, req.CallbackSecret = h, "hooks"
	var refused *client.Error
	if _, err := c.Submit(ctx, req); !errors.As(err, &refused) || refused.Problem.Field != "callback_secret" {
		t.Fatalf("without the secret: %v", err)
	}
	for i, step := range []struct {
		put  client.SecretRequest
		keys []string
	}{
		{client.SecretRequest{Value: first}, []string{first}},
		{client.SecretRequest{Value: second}, []string{second, first}},
		{client.SecretRequest{Retire: true}, []string{second}},
	} {
		s, err := c.PutSecret(ctx, "hooks", step.put)
		if err != nil || s.TwoValues != (len(step.keys) == 2) {
			t.Fatalf("step %d: %+v, %v", i, s, err)
		}
		submitWith(t, c, req)
		var d delivery
		select {
		case d = <-got:
		case <-time.After(within):
			t.Fatal("no callback")
		}
		var keys [][]byte
		for _, k := range step.keys {
			keys = append(keys, []byte(k))
		}
		at, _ := strconv.ParseInt(d.header.Get(notify.HeaderTimestamp), 10, 64)
		if want := notify.Sign(keys, d.header.Get(notify.HeaderID), at, d.body); d.header.Get(notify.HeaderSignature) != want {
			t.Errorf("step %d: signature %q, want %q", i, d.header.Get(notify.HeaderSignature), want)
		}
	}
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{first, second} {
		if where := find(t, dir, value); where != "" {
			t.Errorf("a value is in %s", where)
		}
	}
}

// find returns the file below a directory that holds a text.
func find(t *testing.T, dir, text string) (where string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if strings.Contains(string(b), text) {
			where = path
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return where
}

// Without a key nothing is put, and what is owed says why it is not sent.
func TestWithoutAKeyNoSecret(t *testing.T) {
	gossip, dir := freeAddress(t), t.TempDir()
	cfg := Config{Name: "s1", DataDir: dir, Gossip: gossip, CallbackAllow: allowLoopback, SecretKeyFile: keyFile(t, 7)}
	n := start(t, cfg)
	n.await(t)
	c, ctx := clientOf(t, n), context.Background()
	if _, err := c.PutSecret(ctx, "hooks", client.SecretRequest{Value: "0123456789abcdef"}); err != nil {
		t.Fatal(err)
	}
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	cfg.SecretKeyFile = ""
	n = start(t, cfg)
	n.await(t)
	startWorker(t, "w1", []string{gossip})
	c = clientOf(t, n)
	if _, err := c.PutSecret(ctx, "hooks", client.SecretRequest{Value: "0123456789abcdef"}); err == nil || !strings.Contains(err.Error(), "--secret-key-file") {
		t.Errorf("a secret is put without a key: %v", err)
	}
	req := client.SubmitRequest{Executor: job.Executor{Handler: "ok"}}
	req.CallbackURL, req.CallbackSecret = newHookOf(t, func(*http.Request, []byte) { t.Error("it was sent") }), "hooks"
	task := submitWith(t, c, req)
	var got client.Task
	var err error
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		got, err = c.Task(ctx, task.ID)
		if err == nil && got.Callback != nil && strings.Contains(got.Callback.LastError, "has no --secret-key-file") && got.Callback.State == "owed" {
			return
		}
	}
	t.Fatalf("its callback: %+v, %v", got.Callback, err)
}
