package worker

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Cases K4-04 and K4-05: output of any shape and size never blocks a command.
func TestOutputOfAnyShape(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for script, want := range map[string]string{
		"head -c 1048576 /dev/zero | tr '\\0' x":                     strings.Repeat("x", 4096),
		"head -c 1048576 /dev/zero | tr '\\0' x; echo; echo after":   strings.Repeat("x", 4096-7) + "\nafter\n",
		`printf 'ok\n\200\306\000\n\360\237\222\274 end\n'`:          "ok\n\x80\xc6\x00\n\U0001f4bc end\n",
		"head -c 65537 /dev/zero | tr '\\0' x":                       strings.Repeat("x", 4096),
		"i=0; while [ $i -lt 3000 ]; do echo $i; i=$((i+1)); done":   lastLines(3000),
		"head -c 104857600 /dev/zero; printf end >&2; printf finish": strings.Repeat("\x00", 4090) + "finish",
	} {
		r := receive(t, b.start(script).exited, patience)
		if r.Code != 0 || string(r.Stdout) != want {
			t.Errorf("%s: code %d, %d bytes, end %q", script, r.Code, len(r.Stdout), r.Stdout[max(0, len(r.Stdout)-40):])
		}
	}
}

func lastLines(n int) string {
	var out bytes.Buffer
	for i := range n {
		fmt.Fprintln(&out, i)
	}
	return out.String()[out.Len()-4096:]
}

func TestFollowBeginsWithTheTail(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var mu sync.Mutex
	var got bytes.Buffer
	s := b.startWith([]string{"sh", "-c", "printf a; echo ready > ready; read line; printf b; sleep 60"}, func(c chunkReport) {
		mu.Lock()
		defer mu.Unlock()
		if c.Generation == 5 && !c.Stderr {
			got.Write(c.Data)
		}
	}, stdin(""), grace(0))
	text := func() string { mu.Lock(); defer mu.Unlock(); return got.String() }
	b.awaitFile("ready")
	if text() != "" {
		t.Errorf("output came although nobody follows: %q", text())
	}
	b.link.follow(s, 5, true)
	eventually(t, patience, "the tail, then what comes", func() bool { return text() == "ab" })
	b.link.follow(s, 0, false)
	b.link.stop(s, stopCancel, false)
	receive(t, s.exited, patience)
}

// Output that was dropped while nobody waited for it has its end for who comes
// before the command goes on, and for who stays to the command's end.
func TestEndOfDroppedOutputIsMadeGood(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*stream){
		"follow": func(s *stream) { s.follow(firstGeneration, true) },
		"end":    func(s *stream) { s.end() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := newOutbox()
			s := newStream(1, false, nil, out)
			s.follow(firstGeneration, false)
			all := numbers(300_000)
			for at := 0; at < len(all); at += streamBuffer { // the worker reads none of it
				s.take(all[at:min(at+streamBuffer, len(all))])
			}
			end(s)
			var got []byte
			var skipped int64
			for len(out.queue) > 0 {
				r, _ := out.pop(0)
				c := r.Chunk
				if skipped += c.Skipped; c.Skipped > 0 && skipped+int64(len(got)+len(c.Data)) != int64(len(all)) {
					t.Errorf("%d bytes and %d skipped of %d", len(got)+len(c.Data), skipped, len(all))
				}
				got = append(got, c.Data...)
			}
			if skipped == 0 || !bytes.HasSuffix(got, []byte("\n299999\n300000\n")) {
				t.Errorf("%d skipped, the end is %q", skipped, got[max(0, len(got)-20):])
			}
		})
	}
}

// A worker that reads nothing must neither end a command nor make memory grow.
func TestSlowWorkerLosesOutputNotCommands(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	hold := make(chan struct{})
	var total, skipped int64
	s := b.startWith([]string{"sh", "-c", "read line; head -c 20000000 /dev/zero; echo wrote > wrote"}, func(c chunkReport) {
		<-hold
		total += int64(len(c.Data))
		skipped += c.Skipped
	}, stdin("go\n"))
	b.link.follow(s, 1, true)
	release := sync.OnceFunc(func() { close(hold) })
	defer release()
	eventually(t, patience, "the command goes on", func() bool { return exists(fileIn(b.dir, "wrote")) })
	release()
	r := receive(t, s.exited, patience)
	if r.Code != 0 {
		t.Errorf("got %+v", r)
	}
	if total+skipped != 20000000 || skipped == 0 || total > 4<<20 {
		t.Errorf("passed on %d bytes, skipped %d", total, skipped)
	}
}

// A command waits for a stuck follower once and not for long, and without a
// follower not at all.
func TestCommandWaitsWithinBounds(t *testing.T) {
	t.Parallel()
	for wait, want := range map[bool]time.Duration{false: 0, true: streamPatience} {
		synctest.Test(t, func(t *testing.T) {
			s := newStream(1, false, nil, newOutbox())
			s.follow(firstGeneration, wait)
			began := time.Now()
			written := int64(0)
			for i := range 1000 { // small ones find room where large ones don't
				b := make([]byte, 1+i*7919%streamBuffer)
				s.take(b)
				written += int64(len(b))
			}
			if took := time.Since(began); took != want {
				t.Errorf("waiting %v: a command is held up for %v, not %v", wait, took, want)
			}
			told := s.skipped
			for _, r := range s.out.queue {
				told += int64(len(r.Chunk.Data)) + r.Chunk.Skipped
			}
			if s.out.output > maxQueuedOutput || told != written {
				t.Errorf("waiting %v: %d bytes wait, and the worker is told of %d of %d", wait, s.out.output, told, written)
			}
		})
	}
}
