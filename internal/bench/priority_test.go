package bench

import (
	"testing"
	"time"
)

func TestLongestGapBetweenStarts(t *testing.T) {
	begin := time.Unix(1000, 0)
	at := func(ms int) int64 { return begin.Add(time.Duration(ms) * time.Millisecond).UnixNano() }
	s := &starts{At: []int64{at(-5), at(300), at(100), 0, at(1200)}, Count: []uint8{1, 1, 2, 0, 1}}
	if n, gap := s.between(begin, begin.Add(time.Second)); n != 2 || gap != 700*time.Millisecond {
		t.Errorf("%d started, the longest gap is %v; want 2 and 700ms", n, gap)
	}
	if _, gap := (&starts{At: s.At[:3], Count: s.Count[:3]}).between(begin, begin.Add(time.Second)); gap != 200*time.Millisecond {
		t.Errorf("where all have begun the gap is %v, want 200ms", gap)
	}
	if n := s.begun(); n != 4 {
		t.Errorf("%d have begun, want 4", n)
	}
	if _, gap := (&starts{}).between(begin, begin.Add(time.Second)); gap != time.Second {
		t.Errorf("where none starts the gap is %v", gap)
	}
}
