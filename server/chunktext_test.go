package server

import (
	"strings"
	"testing"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/rpc"
)

func TestChunksDontBreakCharacters(t *testing.T) {
	const text = "plain, caf\u00e9, \u65e5\u5831, \U0001F4BC, end"
	for size := 1; size <= 7; size++ {
		got := [2]strings.Builder{}
		c := chunkText{send: func(l client.LogChunk) error {
			i := 0
			if l.Stream == "stderr" {
				i = 1
			}
			got[i].WriteString(l.Data)
			return nil
		}}
		for i := 0; i < len(text); i += size {
			piece := []byte(text[i:min(i+size, len(text))])
			for _, stderr := range []bool{false, true} { // the streams are apart
				if err := c.output(rpc.Output{Stderr: stderr, Data: piece}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := c.end(); err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if got[i].String() != text {
				t.Errorf("in pieces of %d bytes %s gave %q", size, streamNames[i], got[i].String())
			}
		}
	}
}

func TestBrokenOutputBecomesReplacementCharacters(t *testing.T) {
	var got strings.Builder
	c := chunkText{send: func(l client.LogChunk) error {
		got.WriteString(l.Data)
		return nil
	}}
	for _, out := range []rpc.Output{
		{Data: []byte("a\x80b\xe6\x97")},  // a stray byte, and the beginning of a character
		{Data: []byte("c"), Skipped: 100}, // whose rest was skipped
		{Data: []byte("d\xf0\x9f")},       // the output ends inside another
	} {
		if err := c.output(out); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.end(); err != nil {
		t.Fatal(err)
	}
	if want := "a\uFFFDb\uFFFDcd\uFFFD"; got.String() != want {
		t.Errorf("got %q, want %q", got.String(), want)
	}
}
