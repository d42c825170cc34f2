package job

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestIDKeepsItsPartsAndSortsByThem(t *testing.T) {
	draw := func(t *rapid.T) (ID, [3]uint64) {
		ms := rapid.Int64Range(0, MaxTime).Draw(t, "ms")
		index := rapid.Uint64Range(0, 1<<48-1).Draw(t, "index")
		offset := rapid.Uint32().Draw(t, "offset")
		return NewID(ms, index, offset), [3]uint64{uint64(ms), index, uint64(offset)}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, pa := draw(t)
		b, pb := draw(t)
		if a.Time() != int64(pa[0]) {
			t.Fatalf("time %d, want %d", a.Time(), pa[0])
		}
		if back, err := ParseID(strings.ToLower(a.String())); err != nil || back != a {
			t.Fatalf("%s came back as %s, %v", a, back, err)
		}
		want := 0
		for i := range pa {
			if pa[i] != pb[i] {
				want = 1
				if pa[i] < pb[i] {
					want = -1
				}
				break
			}
		}
		if got := strings.Compare(a.String(), b.String()); got != want {
			t.Fatalf("%s against %s: %d, want %d", a, b, got, want)
		}
	})
}

func TestParseIDRefuses(t *testing.T) {
	for _, s := range []string{
		"", "01ARZ3NDEKTSV4RRFFQ69G5FA", "01ARZ3NDEKTSV4RRFFQ69G5FAVX",
		"8ZZZZZZZZZZZZZZZZZZZZZZZZZ",                              // more than 128 bits
		"01ARZ3NDEKTSV4RRFFQ69G5FAU",                              // U is no digit
		"01ARZ3NDEKTSV4RRFFQ69G5FAI", "01ARZ3NDEKTSſ4RRFFQ69G5FA", // ſ in upper case is S
		"01ARZ3ND-KTSV4RRFFQ69G5FAV", "01ARZ3NDEKTSV4RRFFQ69G5FA\x00", // 26 bytes
	} {
		if id, err := ParseID(s); err == nil {
			t.Errorf("%q: accepted as %s", s, id)
		}
	}
	id, err := ParseID("7ZZZZZZZZZZZZZZZZZZZZZZZZZ")
	if err != nil || id.Time() != 1<<48-1 {
		t.Errorf("the last id: %v, %d", err, id.Time())
	}
}

func TestTokenOrderIsItsTextOrder(t *testing.T) {
	part := rapid.OneOf(rapid.Uint64Range(0, 2), rapid.Uint64())
	token := rapid.Custom(func(t *rapid.T) Token {
		return Token{uint32(part.Draw(t, "epoch")), part.Draw(t, "index"), uint32(part.Draw(t, "offset"))}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := token.Draw(t, "a"), token.Draw(t, "b")
		if got, want := a.Compare(b), strings.Compare(a.String(), b.String()); got != want {
			t.Fatalf("%v against %v: %d, by text %d", a, b, got, want)
		}
		if back, err := ParseToken(a.String()); err != nil || back != a {
			t.Fatalf("%v came back as %v, %v", a, back, err)
		}
	})
	if s := (Token{Epoch: 1, Index: math.MaxUint64, Offset: 10}).String(); s != "00000001ffffffffffffffff0000000a" {
		t.Error(s)
	}
}

func FuzzParseID(f *testing.F) {
	f.Add("01ARZ3NDEKTSV4RRFFQ69G5FAV")
	f.Add("8ZZZZZZZZZZZZZZZZZZZZZZZZZ")
	f.Fuzz(func(t *testing.T, s string) {
		if id, err := ParseID(s); err == nil && !strings.EqualFold(id.String(), s) {
			t.Errorf("%q was read as %s", s, id)
		}
	})
}

func FuzzParseToken(f *testing.F) {
	f.Add("00000001ffffffffffffffff0000000a")
	f.Fuzz(func(t *testing.T, s string) {
		if token, err := ParseToken(s); err == nil && !strings.EqualFold(token.String(), s) {
			t.Errorf("%q was read as %s", s, token)
		}
	})
}
