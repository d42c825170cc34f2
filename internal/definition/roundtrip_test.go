package definition

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/goccy/go-yaml/parser"
	"pgregory.net/rapid"

	"github.com/axd-project/axd/job"
)

// everything a definition may be made of.
type sample struct {
	Text    string            `json:"text,omitempty"`
	Map     map[string]string `json:"map,omitempty"`
	List    []string          `json:"list,omitempty"`
	Nested  []sample          `json:"nested,omitempty"`
	Payload json.RawMessage   `json:"payload,omitempty"`
	Span    *job.Duration     `json:"span,omitempty"`
	Number  float64           `json:"number,omitempty"`
	Whole   int64             `json:"whole,omitempty"`
	Yes     *bool             `json:"yes,omitempty"`
}

// awkward are texts that YAML likes to take for something else.
var awkward = []string{
	"", " ", "a: b", "- a", "#", "a #b", "~", "null", "Null", "true", "yes", "on", "1", "1e3", "0x10", "0o7", "1_000", ".5", "-", "--- ", "---", "...",
	"a\nb", "a\nb\n", "a\n\nb\n\n\n", "\na", "\n", "\n\n", " a\nb", "a \nb", "a\n b\n  c", "a\tb", "\ta\nb", "a\r\nb", "a\u2028b", "\ufeffa", "é\nü",
	"'", "\"", "a'b", "\\", "a\\nb", "{a}", "[a]", "*a", "&a", "!a", "|", ">", "%a", "@a", "`a", "?", "? a", ":", "a:", ":a", ",", "a, b",
	"${{ params.day }}", "${{ a }}\nb", "12:30:45", "2026-01-01", "0123", "=", "<<", "a\x00b", "a\x01", "😀", "\u0085", "no\u00a0break", "#a\nb", "- a\n- b",
	"#!/bin/sh\nset -e\n\techo \"$1\"\n", "key: |\n  x\n", "trailing\n \n", "a\n\t\n", "NaN", ".inf", "1.", "+1", "1.0e+5", "\\u0041", "-c", "--all", "-1", "http://a:1/b", "http://a:", "1h30m", "1d", "2e5", "-x: y", "/usr/bin:/bin", "a:b", "a:b:", "a :b", "a:/b c:d", "the shop's", "a'", "a:30", "x:y: z", "(a", "a (b)", "a)",
}

func texts() *rapid.Generator[string] {
	return rapid.OneOf(rapid.SampledFrom(awkward), rapid.String(), rapid.StringMatching(`[a-z:# \n-]{0,20}`), rapid.StringMatching(`[a-z]{1,8}`))
}

func values(depth int) *rapid.Generator[json.RawMessage] {
	return rapid.Custom(func(t *rapid.T) json.RawMessage {
		choice := rapid.IntRange(0, 6).Draw(t, "kind")
		if depth == 0 {
			choice %= 4
		}
		switch choice {
		case 0:
			return json.RawMessage(rapid.SampledFrom([]string{"null", "true", "false"}).Draw(t, "word"))
		case 1:
			return json.RawMessage(rapid.SampledFrom([]string{
				"0", "-1", "9007199254740993", "18446744073709551616", "-123456789012345678901234567890", "1.10", "1e400", "-0", "1E+2", "0.1", "12345678901234567.5",
			}).Draw(t, "number"))
		case 2, 3:
			return quote(texts().Draw(t, "text"))
		case 4:
			items := rapid.SliceOfN(values(depth-1), 0, 4).Draw(t, "items")
			return append(append([]byte("["), bytes.Join(raws(items), []byte(","))...), ']')
		default:
			var members [][]byte
			for _, key := range rapid.SliceOfNDistinct(texts(), 0, 4, rapid.ID).Draw(t, "keys") {
				members = append(members, append(append(quote(key), ':'), values(depth-1).Draw(t, "value")...))
			}
			return append(append([]byte("{"), bytes.Join(members, []byte(","))...), '}')
		}
	})
}

func raws(in []json.RawMessage) (out [][]byte) {
	for _, r := range in {
		out = append(out, r)
	}
	return out
}

func samples(depth int) *rapid.Generator[sample] {
	return rapid.Custom(func(t *rapid.T) sample {
		s := sample{
			Text: texts().Draw(t, "text"), Number: rapid.Float64().Draw(t, "number"), Whole: rapid.Int64().Draw(t, "whole"),
			List: rapid.SliceOfN(texts(), 0, 4).Draw(t, "list"), Map: rapid.MapOfN(texts(), texts(), 0, 4).Draw(t, "map"),
		}
		if rapid.Bool().Draw(t, "payload") {
			s.Payload = values(3).Draw(t, "payload")
		}
		if rapid.Bool().Draw(t, "span") {
			s.Span = new(job.Duration(rapid.Int64Range(0, 1<<50).Draw(t, "span")))
		}
		if rapid.Bool().Draw(t, "yes") {
			s.Yes = new(rapid.Bool().Draw(t, "yes"))
		}
		if depth > 0 {
			s.Nested = rapid.SliceOfN(samples(depth-1), 0, 2).Draw(t, "nested")
		}
		return s
	})
}

// What is written as YAML is read as the same, down to the digits of a payload.
func TestYAMLKeepsEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkRoundTrip(t, samples(2).Draw(t, "sample"))
	})
}

func TestYAMLKeepsAwkwardTexts(t *testing.T) {
	for _, text := range awkward {
		s := sample{Text: text, List: []string{text, "x"}, Map: map[string]string{text: text}, Payload: quote(text)}
		s.Nested = []sample{{Text: text}, {List: []string{text}}}
		checkRoundTrip(t, s)
	}
}

type failer interface {
	Fatalf(format string, args ...any)
}

func checkRoundTrip(t failer, in sample) {
	n, err := tree(in)
	if err != nil {
		t.Fatalf("%v", err)
	}
	var w bytes.Buffer
	writeFields(&w, n, 0)
	if len(n.keys) == 0 {
		return
	}
	file, err := parser.ParseBytes(w.Bytes(), 0)
	if err != nil || len(file.Docs) != 1 {
		t.Fatalf("%q can't be read: %v", w.String(), err)
	}
	var out sample
	if f := newDecoder(0).value(file.Docs[0].Body, reflect.ValueOf(&out).Elem(), ""); f != nil {
		t.Fatalf("%q: line %d: %v", w.String(), f.line, f.err)
	}
	m, err := tree(out)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if d := compare(nil, "", n, m); len(d) > 0 {
		t.Fatalf("%q reads as another: %v", w.String(), d[0].Text())
	}
}
