package timeslice

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
)

// The threads of a process and what they start get the short slice; what Usual
// starts has that of any other process.
func TestShorten(t *testing.T) {
	usual := of(os.Getpid())
	if usual == 0 {
		t.Skip("this kernel doesn't tell of slices")
	}
	if os.Getenv("SHORTEN") == "" { // in a process of its own: it can't be undone for threads to come
		cmd := exec.Command(os.Args[0], "-test.run=^TestShorten$", "-test.v")
		cmd.Env = append(os.Environ(), "SHORTEN=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	Shorten()
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		if id, _ := strconv.Atoi(thread.Name()); of(id) != Short {
			t.Errorf("thread %d has a slice of %s", id, of(id))
		}
	}
	start := func() int {
		child := exec.Command("sleep", "60")
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = child.Process.Kill(); _ = child.Wait() })
		return child.Process.Pid
	}
	if got := of(start()); got != Short {
		t.Errorf("a child has a slice of %s", got)
	}
	Usual(func() {
		if got := of(start()); got != usual {
			t.Errorf("a child of the usual slice has one of %s, others have %s", got, usual)
		}
	})
	if got := of(start()); got != Short {
		t.Errorf("a child after that has a slice of %s", got)
	}
}
