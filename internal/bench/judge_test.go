package bench

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/worker"
)

// seenAll is what workers saw of n tasks, each due at its number of seconds and
// started a millisecond late.
func seenAll(n int) *starts {
	s := &starts{}
	for i := range n {
		due := int64(i) * 1000
		s.add(i, (due+1)*int64(time.Millisecond), due)
	}
	return s
}

func TestJudgeFindsWhatIsWrong(t *testing.T) {
	cases := []struct {
		name                 string
		spoil                func(s *starts)
		early, lost, doubled int
	}{
		{"nothing", func(*starts) {}, 0, 0, 0},
		{"one that never started", func(s *starts) { s.Count[3] = 0 }, 0, 1, 0},
		{"the last never started", func(s *starts) { s.At, s.Due, s.Count = s.At[:9], s.Due[:9], s.Count[:9] }, 0, 1, 0},
		{"one that started twice", func(s *starts) { s.add(4, 4_500*int64(time.Millisecond), 4000) }, 0, 0, 1},
		{"one that started early", func(s *starts) { s.At[5] = s.Due[5]*int64(time.Millisecond) - 1 }, 1, 0, 0},
		{"two workers started it", func(s *starts) { s.merge(seenAll(1)) }, 0, 0, 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := seenAll(10)
			c.spoil(s)
			v := s.judge(10)
			if v.early != c.early || v.lost != c.lost || v.doubled != c.doubled {
				t.Errorf("early %d, lost %d, doubled %d; want %d, %d, %d", v.early, v.lost, v.doubled, c.early, c.lost, c.doubled)
			}
			r := newResult("x")
			v.report(r)
			r.sound()
			if good := c.early+c.lost+c.doubled == 0; r.Reached() != good {
				t.Errorf("the targets are reached: %t, want %t", r.Reached(), good)
			}
		})
	}
}

func TestJudgeMeasuresTheFirstStart(t *testing.T) {
	s := seenAll(1)
	s.add(0, 9_000*int64(time.Millisecond), 0)
	s.add(0, 500_000, 0)
	if v := s.judge(1); v.late[0] != 500*time.Microsecond || v.doubled != 2 {
		t.Errorf("late %v, doubled %d; want 500µs and 2", v.late, v.doubled)
	}
}

func TestOnlyTasksDueInAnOutageCount(t *testing.T) {
	s := seenAll(10)
	s.Count[4] = 0
	got := s.dueIn([]span{{time.UnixMilli(3000), time.UnixMilli(5000)}, {time.UnixMilli(8500), time.UnixMilli(9500)}})
	if len(got) != 3 { // 3, 5 and 9; the fourth never started
		t.Errorf("%d tasks came due in the outages, want 3", len(got))
	}
}

func TestWorkersAnswerWithWhatTheySaw(t *testing.T) {
	var seen recorder
	for n := range 3 {
		task := worker.Task{Payload: fill(7, n, 100), Due: time.UnixMilli(int64(n))}
		if _, err := seen.note(&task); err != nil {
			t.Fatal(err)
		}
	}
	for _, bad := range []string{`{`, `{"phase":7,"n":-1}`, `{"phase":7,"n":20000000}`} {
		if _, err := seen.note(&worker.Task{Payload: []byte(bad)}); err == nil {
			t.Errorf("the payload %s was taken", bad)
		}
	}
	var out strings.Builder
	if err := seen.serve(strings.NewReader("7\n8\n"), &out); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	var got []int
	dec := json.NewDecoder(strings.NewReader(out.String()))
	for range 2 {
		var r report
		if err := dec.Decode(&r); err != nil {
			t.Fatal(err)
		}
		s, err := r.unpack()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, len(s.Count))
		for n := range s.Count {
			if s.Due[n] != int64(n) || s.At[n] == 0 || s.Count[n] != 1 {
				t.Errorf("task %d: due %d, started at %d, %d times", n, s.Due[n], s.At[n], s.Count[n])
			}
		}
	}
	if !slices.Equal(got, []int{3, 0}) {
		t.Errorf("phases 7 and 8 had %v tasks, want 3 and none", got)
	}
}

func TestPayloadHasItsSize(t *testing.T) {
	for _, size := range []int{0, 100, 250} {
		b := fill(12, 345_678, size)
		var p payload
		if err := json.Unmarshal(b, &p); err != nil || p.Phase != 12 || p.Number != 345_678 {
			t.Errorf("payload %s: %v", b, err)
		}
		if size > 0 && len(b) != size {
			t.Errorf("the payload has %d bytes, want %d", len(b), size)
		}
	}
}

func TestQuantiles(t *testing.T) {
	s := samples{}
	for i := 100; i >= 1; i-- {
		s = append(s, time.Duration(i)*time.Millisecond)
	}
	r := newResult("x")
	s.spread(r, "")
	for key, want := range map[string]float64{"p50_ms": 50, "p99_ms": 99, "max_ms": 100} {
		if got, _ := r.Value(key); got != want {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
	}
	if (samples{}).quantile(0.5) != 0 {
		t.Error("no samples have a quantile")
	}
}

func TestResultIsOneFlatObject(t *testing.T) {
	r := newResult("drain")
	r.set("tasks_per_s", 15_000.4)
	r.set("p99_ms", 1.23456)
	r.set("tasks", 100_000)
	r.fast(15_000)
	r.atMost("p99_ms", 1)
	r.atMost("lost", 0)
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"scenario":"drain","tasks":100000,"tasks_per_s":15000,"p99_ms":1.235,` +
		`"targets":[{"key":"tasks_per_s","limit":15000,"reached":true},{"key":"p99_ms","limit":1,"reached":false},` +
		`{"key":"lost","limit":0,"reached":false}]}`
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
	if r.Reached() {
		t.Error("a missed target and one that was not measured count as reached")
	}
	text := strings.Join(r.verdicts(), "\n")
	for _, part := range []string{"tasks_per_s = 15000, target ≥ 15000: reached", "p99_ms = 1.235, target ≤ 1: missed", "lost = not measured"} {
		if !strings.Contains(text, part) {
			t.Errorf("the verdicts lack %q:\n%s", part, text)
		}
	}
}

// TestEveryFigureIsExplained keeps docs/performance.md complete.
func TestEveryFigureIsExplained(t *testing.T) {
	data, err := os.ReadFile("../../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if !strings.Contains(string(data), "`"+key+"`") {
			t.Errorf("docs/performance.md doesn't explain %s", key)
		}
	}
}

func TestScheduleWaitsForNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		late := make([]time.Duration, 20)
		n, err := pace(t.Context(), t.Context(), len(late), 10, func(_ context.Context, n int, sent time.Time) error {
			late[n] = time.Since(sent)
			if want := begin.Add(time.Duration(n) * 100 * time.Millisecond); !sent.Equal(want) {
				t.Errorf("call %d is due at %s, want %s", n, sent, want)
			}
			time.Sleep(5 * time.Second) // a slow answer
			return nil
		})
		if err != nil || n != len(late) {
			t.Fatal(n, err)
		}
		if slices.Max(late) != 0 {
			t.Errorf("a call waited %s for earlier ones", slices.Max(late))
		}
	})
}

func TestElectionsThatNoKillExplains(t *testing.T) {
	var e elections
	e.see(3) // where it began
	e.see(3)
	e.excused++
	e.see(5) // a split vote costs two terms
	e.excused--
	e.see(4) // a server that is behind
	if e.all != 2 || e.needless != 0 {
		t.Errorf("%d elections, %d needless; want 2 and 0", e.all, e.needless)
	}
	e.see(6)
	if e.all != 3 || e.needless != 1 {
		t.Errorf("%d elections, %d needless; want 3 and 1", e.all, e.needless)
	}
}

func TestGapsBetweenWrites(t *testing.T) {
	at := time.UnixMilli
	var b probes
	for _, ms := range []int64{0, 4, 8, 58, 62, 5000, 5030} {
		b.acks = append(b.acks, span{at(ms), at(ms)})
	}
	near, apart := b.gaps([]time.Time{at(5040)}, 20*time.Millisecond)
	if near != 30*time.Millisecond || apart != 4938*time.Millisecond {
		t.Errorf("near %s, apart %s; want 30ms and 4.938s", near, apart)
	}
}

func TestFirstWriteAfterAKill(t *testing.T) {
	kill := time.Now()
	b := probes{fresh: make(chan struct{}, 1)}
	b.ack(span{kill.Add(-time.Millisecond), kill.Add(time.Millisecond)}) // it was begun before
	b.ack(span{kill.Add(time.Second), kill.Add(2 * time.Second)})
	got, err := b.acceptedAfter(t.Context(), kill)
	if err != nil || got.Sub(kill) != 2*time.Second {
		t.Errorf("writes were accepted after %s (%v), want 2s", got.Sub(kill), err)
	}
}

func TestGrowth(t *testing.T) {
	level := []int64{1, 5, 9, 10, 10, 11, 10, 10}
	growing := []int64{1, 2, 4, 8, 16, 32, 64, 128}
	if g := growth(level); g > 1.1 {
		t.Errorf("a level series grows by %v", g)
	}
	if g := growth(growing); g < 2 {
		t.Errorf("a growing series grows by %v", g)
	}
}

func TestFarTasksNeverComeDueMeanwhile(t *testing.T) {
	for n := range 1000 {
		if d := far(n); d < farDelay || d > farDelay+farSpread {
			t.Fatalf("task %d is due in %s", n, d)
		}
	}
}
