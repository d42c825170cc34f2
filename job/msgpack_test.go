package job

import (
	"math"
	"reflect"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
)

// The sizes are part of what makes ten million waiting tasks fit a small box.
func TestMsgpackIsCompactAndRoundTrips(t *testing.T) {
	timeout := Duration(90e9)
	cases := []struct {
		in   any
		size int // bytes at most
	}{
		{NewID(1, 2, 3), 18},
		{Token{}, 4},
		{Token{Epoch: 1, Index: 1 << 31, Offset: 200}, 9},
		{Token{Epoch: math.MaxUint32, Index: math.MaxUint64, Offset: math.MaxUint32}, 20},
		{High, 1},
		{Duration(0), 1},
		{Duration(math.MinInt64), 9},
		{timeout, 9},
		{Policy{Timeout: &timeout, Priority: Low}, 20},
	}
	for _, c := range cases {
		b, err := msgpack.Marshal(c.in)
		if err != nil {
			t.Fatalf("%#v: %v", c.in, err)
		}
		if len(b) > c.size {
			t.Errorf("%#v takes %d bytes (%q), want at most %d", c.in, len(b), b, c.size)
		}
		out := reflect.New(reflect.TypeOf(c.in))
		if err := msgpack.Unmarshal(b, out.Interface()); err != nil {
			t.Fatalf("%#v: decode: %v", c.in, err)
		}
		if !reflect.DeepEqual(out.Elem().Interface(), c.in) {
			t.Errorf("%#v came back as %#v", c.in, out.Elem().Interface())
		}
	}
}

func TestMsgpackRefusesWhatItDidNotWrite(t *testing.T) {
	cases := []struct {
		name string
		out  any
		in   []byte
	}{
		{"short id", new(ID), []byte{0xc4, 2, 1, 2}},
		{"id of claimed 4 GiB", new(ID), []byte{0xc6, 0xff, 0xff, 0xff, 0xff}},
		{"truncated id", new(ID), []byte{0xc4, 16, 1, 2}},
		{"token of two", new(Token), []byte{0x92, 1, 2}},
		{"token with a wide epoch", new(Token), []byte{0x93, 0xcf, 1, 0, 0, 0, 0, 0, 0, 0, 2, 3}},
		{"token of strings", new(Token), []byte{0x93, 0xa1, 'a', 1, 1}},
		{"priority 4", new(Priority), []byte{4}},
		{"duration as text", new(Duration), []byte{0xa2, '5', 's'}},
	}
	for _, c := range cases {
		if err := msgpack.Unmarshal(c.in, c.out); err == nil {
			t.Errorf("%s: accepted as %v", c.name, c.out)
		}
	}
}
