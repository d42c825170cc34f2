package worker

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/rpc"
)

// followed is what a follower got.
type followed struct {
	data    bytes.Buffer
	skipped int64
	err     error
}

// followTo follows an attempt to its end; each is called for every chunk.
func (l *leader) followTo(ref rpc.Ref, each func(rpc.Output)) <-chan *followed {
	l.mu.Lock()
	conn := l.conn
	l.mu.Unlock()
	done := make(chan *followed, 1)
	go func() {
		f := &followed{}
		f.err = conn.Stream(l.t.Context(), rpc.MethodFollow, rpc.Follow{Ref: ref}, func(decode func(any) error) error {
			var o rpc.Output
			if err := decode(&o); err != nil {
				return err
			}
			f.data.Write(o.Data)
			f.skipped += o.Skipped
			each(o)
			return nil
		})
		done <- f
	}()
	return done
}

func numbers(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintln(&b, i+1)
	}
	return b.Bytes()
}

// A fast command's output reaches whoever follows it from its beginning and
// without a gap, whether the follower was there first, came after much of it was
// written, or is slower than the command.
func TestFastOutputIsWhole(t *testing.T) {
	t.Parallel()
	want := numbers(100_000)
	for name, c := range map[string]struct {
		script string
		late   bool
		each   func(rpc.Output)
	}{
		"followed before it starts": {script: "seq 1 100000"},
		"followed after the start":  {script: `seq 1 60000; echo > "$AXD_OUTPUT_FILE"; while ! test -e go; do sleep 0.02; done; seq 60001 100000`, late: true},
		"followed slowly":           {script: "seq 1 100000", each: func(rpc.Output) { time.Sleep(20 * time.Millisecond) }},
		"unbuffered":                {script: "seq 1 100000 | while read -r i; do echo $i; done"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLeader(t)
			dir := t.TempDir()
			w, _ := startWorker(t, l, withExec(dir))
			item := l.item(sh(c.script))
			each := c.each
			if each == nil {
				each = func(rpc.Output) {}
			}
			var done <-chan *followed
			if c.late {
				l.dispatch(item)
				awaitOutputFile(t, w, item)
				done = l.followTo(item.Ref, each)
				letGo(t, dir, item)
			} else {
				done = l.followTo(item.Ref, each)
				l.dispatch(item)
			}
			f := receive(t, done, patience)
			if f.err != nil || f.skipped != 0 || !bytes.Equal(f.data.Bytes(), want) {
				t.Errorf("got %d of %d bytes, %d skipped, error %v", f.data.Len(), len(want), f.skipped, f.err)
			}
		})
	}
}

// awaitOutputFile waits until an attempt's output file has something in it.
func awaitOutputFile(t *testing.T, w *Worker, item rpc.DispatchItem) {
	t.Helper()
	eventually(t, patience, "the command has written", func() bool {
		output, _ := w.dir.attempt(item.Ref).readOutput()
		return len(output) > 0
	})
}

// Who comes late to much output gets its beginning and its end, and is told how
// much lies between.
func TestLateFollowerGetsBeginningAndEnd(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	dir := t.TempDir()
	w, _ := startWorker(t, l, withExec(dir))
	item := l.item(sh(`seq 1 1000000; echo > "$AXD_OUTPUT_FILE"; while ! test -e go; do sleep 0.02; done; echo end`))
	l.dispatch(item)
	awaitOutputFile(t, w, item)
	followers := make([]<-chan *followed, 2) // the first is given the beginning, and then it is not kept any more
	for i := range followers {
		got := make(chan struct{}, 1)
		followers[i] = l.followTo(item.Ref, func(rpc.Output) {
			select {
			case got <- struct{}{}:
			default: // it must not hold the follower up
			}
		})
		receive(t, got, patience)
	}
	letGo(t, dir, item)
	all := append(numbers(1_000_000), "end\n"...)
	for i, done := range followers {
		f := receive(t, done, patience)
		text := f.data.Bytes()
		if f.err != nil || int64(len(text))+f.skipped != int64(len(all)) || !bytes.HasSuffix(text, []byte("999999\n1000000\nend\n")) {
			t.Errorf("follower %d: %d bytes, %d skipped of %d, error %v", i, len(text), f.skipped, len(all), f.err)
		}
		if i == 0 && !bytes.HasPrefix(text, all[:maxHead/2]) {
			t.Error("the first follower did not get the beginning")
		}
	}
}

// sourceLog notes what a hub asks of its source.
type sourceLog struct {
	waits bool
	gen   uint64
	taken int64
}

func (s *sourceLog) follow(generation uint64, wait bool)    { s.gen, s.waits = generation, wait }
func (s *sourceLog) took(generation uint64, taken [2]int64) { s.taken = taken[0] }

// A follower that takes nothing holds the others up for its patience and no
// longer; it is told what it missed.
func TestStuckFollowerLosesAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var source sourceLog
		h := newHub(new(headRoom))
		h.attach(&source)
		stuck, quick := h.follow(), h.follow()
		if !source.waits {
			t.Error("the command does not wait for its followers")
		}
		const n, size = 200, 1000
		told := func() int64 { h.mu.Lock(); defer h.mu.Unlock(); return source.taken }
		take := func(f *follower) (bytes int, skipped int64) {
			for {
				out, ok, _ := f.next()
				if !ok {
					return bytes, skipped
				}
				bytes += len(out.Data)
				skipped += out.Skipped
			}
		}
		for range n {
			h.chunk(chunkReport{Generation: firstGeneration, Data: make([]byte, size)})
		}
		if got, _ := take(quick); got != n*size || told() != 0 {
			t.Errorf("the quick one took %d, the source was told of %d while the other waits", got, told())
		}
		time.Sleep(followerPatience)
		synctest.Wait()
		if told() < n*size-tookEvery {
			t.Errorf("the source is held up after the patience: told of %d", told())
		}
		h.chunk(chunkReport{Generation: firstGeneration, Data: make([]byte, size)})
		h.close()
		if got, skipped := take(stuck); got != 0 || skipped != (n+1)*size {
			t.Errorf("the stuck one got %d, skipped %d", got, skipped)
		}
		if got, skipped := take(quick); got != size || skipped != 0 {
			t.Errorf("the quick one got %d, skipped %d", got, skipped)
		}
		h.leave(stuck)
		h.leave(quick)
	})
}

// What is kept of all attempts' output is bounded and given back.
func TestHeadsAreBounded(t *testing.T) {
	t.Parallel()
	room := new(headRoom)
	hubs := make([]*hub, 2*maxHeads/maxHead)
	for i := range hubs {
		hubs[i] = newHub(room)
		hubs[i].attach(new(sourceLog))
		for range 2 * maxHead / streamBuffer {
			hubs[i].chunk(chunkReport{Generation: firstGeneration, Data: make([]byte, streamBuffer)})
		}
	}
	if used := room.used.Load(); used > maxHeads || used < maxHeads/2 {
		t.Errorf("%d bytes are kept", used)
	}
	for _, h := range hubs {
		h.close()
		h.forget()
	}
	if used := room.used.Load(); used != 0 {
		t.Errorf("%d bytes are kept after the end", used)
	}
}
