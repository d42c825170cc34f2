package worker

import (
	"os"
	"strings"
	"testing"
)

func TestMayEnterNamesTheDirectory(t *testing.T) {
	t.Parallel()
	base, err := os.MkdirTemp("/tmp", "axd-enter-") // t.TempDir is closed to others
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(base)
	closed, inside := fileIn(base, "closed"), fileIn(base, "closed/inside")
	if err := os.MkdirAll(inside, 0o700); err != nil {
		t.Fatal(err)
	}
	mode := func(path string, m os.FileMode) {
		t.Helper()
		if err := os.Chmod(path, m); err != nil {
			t.Fatal(err)
		}
	}
	mode(base, 0o711)
	mode(inside, 0o711)
	self, stranger := &identity{UID: uint32(os.Geteuid()), Name: "me"}, &identity{UID: 4_000_000, GID: 4_000_000, Name: "stranger"}
	group := &identity{UID: 4_000_000, GID: 4_000_000, Groups: []uint32{uint32(os.Getegid())}, Name: "friend"}
	for _, c := range []struct {
		who  *identity
		mode os.FileMode
		bar  string
	}{
		{nil, 0o700, ""},
		{self, 0o700, ""},
		{stranger, 0o700, closed},
		{stranger, 0o711, ""},
		{group, 0o701, closed},
		{group, 0o710, ""},
	} {
		mode(closed, c.mode)
		err := c.who.mayEnter(inside)
		if c.bar == "" && err != nil || c.bar != "" && (err == nil || !strings.Contains(err.Error(), "can't enter "+c.bar+":")) {
			t.Errorf("%+v, mode %o: got %v", c.who, c.mode, err)
		}
	}
	mode(closed, 0o711)
	if err := stranger.mayEnter(fileIn(base, "none/below")); err != nil {
		t.Errorf("what isn't there is not judged: %v", err)
	}
}

func TestCommandOfAUserKeptOut(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	if _, err := lookupUser("nobody"); err != nil {
		t.Skip(err)
	}
	l := newLeader(t)
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	startWorker(t, l, withExec(fileIn(dir, "data")))
	x := sh("id")
	x.Exec.User = "nobody"
	l.dispatch(l.item(x))
	if f := receive(t, l.finished, longTTL); !strings.Contains(f.Error, "user nobody can't enter /") {
		t.Errorf("got %+v", f)
	}
}
