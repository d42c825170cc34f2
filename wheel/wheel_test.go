package wheel

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// drain advances to now and returns what came out.
func drain[T any](w *Wheel[T], now int64) (out []T) {
	w.Advance(now, func(_ int64, v T) { out = append(out, v) })
	return out
}

// Each case is a time on an edge of the wheel's digits, as seen from a start.
func TestEveryTimeComesOutInItsMillisecond(t *testing.T) {
	const year9999 = 253402300799999
	starts := []int64{0, 1, 255, 256, 65535, 1_796_000_000_000, -1, -256, math.MinInt64}
	spans := []int64{
		1, 2, 254, 255, 256, 257, 65534, 65535, 65536, 65537,
		1<<24 - 1, 1 << 24, 1<<24 + 1, 1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32,
		1<<40 - 1, 1 << 40, 1<<48 - 1, 1 << 48, year9999, math.MaxInt64 / 2, math.MaxInt64,
	}
	for _, start := range starts {
		for _, span := range spans {
			due := plus(start, span)
			t.Run(fmt.Sprintf("%d+%d", start, span), func(t *testing.T) {
				w := New[string](start)
				w.Add(due, "x")
				if got := drain(w, due-1); got != nil {
					t.Errorf("came out before its time")
				}
				if at, ok := w.Next(); !ok || at != due {
					t.Errorf("Next is %d, %v a millisecond before the entry at %d", at, ok, due)
				}
				if got := drain(w, due); len(got) != 1 || w.Len() != 0 {
					t.Errorf("got %v, %d left", got, w.Len())
				}
				if _, ok := w.Next(); ok {
					t.Error("Next names a time in an empty wheel")
				}
			})
		}
	}
}

func TestOrderWithinAMillisecondSurvivesCascades(t *testing.T) {
	w := New[int](0)
	const due = 1 << 33
	for i := range 100 {
		w.Add(due, i)
		// Different distances: the later entries go to lower levels at once.
		w.Advance(due-1<<(33-i/4), func(int64, int) { t.Fatal("too early") })
	}
	got := drain(w, due)
	if !slices.IsSorted(got) || len(got) != 100 {
		t.Errorf("order: %v", got)
	}
}

func TestPastTimesComeOutFirstAndInOrder(t *testing.T) {
	w := New[string](1000)
	w.Add(1001, "future")
	w.Add(1000, "now")
	w.Add(-5, "long ago")
	w.Add(500, "past")
	w.Add(500, "past, second")
	w.Add(math.MinInt64, "first of all")
	if at, ok := w.Next(); !ok || at != math.MinInt64 {
		t.Errorf("Next is %d, %v", at, ok)
	}
	want := []string{"first of all", "long ago", "past", "past, second", "now", "future"}
	if got := drain(w, 1001); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestManyPastTimesKeepInsertionOrder(t *testing.T) {
	w := New[int](1000)
	var want []int
	for i := range 200 {
		w.Add(int64(9-i%10), i)
	}
	for ms := range 10 {
		for i := 9 - ms; i < 200; i += 10 {
			want = append(want, i)
		}
	}
	if got := drain(w, 1000); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestTimeStepBackChangesNothing(t *testing.T) {
	w := New[string](1000)
	w.Add(900, "late")
	w.Add(1001, "future")
	if got := drain(w, 999); got != nil {
		t.Errorf("a step back let %q out", got)
	}
	if got := drain(w, 1000); !slices.Equal(got, []string{"late"}) {
		t.Errorf("got %q", got)
	}
}

func TestAddFromWithinAdvance(t *testing.T) {
	w := New[string](0)
	w.Add(10, "a")
	w.Add(20, "b")
	var got []string
	w.Advance(30, func(at int64, v string) {
		got = append(got, v)
		w.Add(at, v+"'")     // already due: the next Advance, else this one would not end
		w.Add(31, v+" soon") // not yet due
	})
	if want := []string{"a", "b"}; !slices.Equal(got, want) {
		t.Errorf("first advance: %q, want %q", got, want)
	}
	if got, want := drain(w, 31), []string{"a'", "b'", "a soon", "b soon"}; !slices.Equal(got, want) {
		t.Errorf("second advance: %q, want %q", got, want)
	}
}

func TestRemoveFromWithinAdvance(t *testing.T) {
	w := New[string](0)
	var hb, hc Handle
	ha := w.Add(10, "a")
	hb = w.Add(10, "b")
	hc = w.Add(4000, "c")
	var got []string
	w.Advance(5000, func(_ int64, v string) {
		got = append(got, v)
		if w.Remove(ha) {
			t.Error("an entry that came out could be removed")
		}
		if v == "a" && (!w.Remove(hb) || !w.Remove(hc)) {
			t.Error("entries that had not come out yet could not be removed")
		}
	})
	if !slices.Equal(got, []string{"a"}) || w.Len() != 0 {
		t.Errorf("got %q, %d left", got, w.Len())
	}
}

func TestHandleOfAnEntryThatLeftRemovesNothing(t *testing.T) {
	w := New[int](0)
	if w.Remove(Handle{}) || w.Remove(Handle{index: 99, generation: 1}) {
		t.Error("a handle of nothing removed something")
	}
	old := w.Add(1, 1)
	drain(w, 1)
	fresh := w.Add(2, 2) // takes the same place
	if fresh.index != old.index {
		t.Fatalf("places are not reused: %v, %v", old, fresh)
	}
	if w.Remove(old) || w.Remove(Handle{index: fresh.index}) {
		t.Error("a stale handle removed a later entry")
	}
	if !w.Remove(fresh) || w.Remove(fresh) {
		t.Error("Remove must answer true once")
	}
}

func TestPlacesAreReused(t *testing.T) {
	w := New[[2]uint64](0)
	for round := range int64(100) {
		for i := range int64(500) {
			w.Add(round*10+i%10, [2]uint64{})
		}
		w.Advance(round*10+9, func(int64, [2]uint64) {})
	}
	if len(w.slab.chunks) != 1 {
		t.Errorf("%d chunks for 500 entries at a time", len(w.slab.chunks))
	}
}

func TestValuesAreLetGo(t *testing.T) {
	w := New[*int](0)
	h := w.Add(5, new(int))
	w.Remove(h)
	if w.slab.at(h.index).value != nil {
		t.Error("a removed value is still held")
	}
}

// A gap of a year must cost what its entries cost: the loop is over used slots.
func TestHugeGapVisitsUsedSlotsOnly(t *testing.T) {
	const year = 365 * 24 * 3600 * 1000
	w := New[int](0)
	for i := range 12 {
		w.Add(int64(i+1)*year/12, i)
	}
	steps := 0
	for w.Len() > 0 {
		at, _ := w.Next()
		w.Advance(at, func(int64, int) {})
		steps++
	}
	if steps > 12*levels {
		t.Errorf("%d steps for 12 entries", steps)
	}
	if got := drain(w, math.MaxInt64); got != nil {
		t.Errorf("got %v from an empty wheel", got)
	}
}

func TestAPanicInDueLosesNoOtherEntry(t *testing.T) {
	w := New[int](0)
	for i := range 5 {
		w.Add(int64(i), i)
	}
	func() {
		defer func() { _ = recover() }()
		w.Advance(10, func(_ int64, v int) {
			if v == 1 {
				panic("in due")
			}
		})
	}()
	if got := drain(w, 10); !slices.Equal(got, []int{2, 3, 4}) {
		t.Errorf("after the panic: %v", got)
	}
}
