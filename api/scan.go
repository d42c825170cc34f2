package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf8"

	"github.com/axd-project/axd/job"
)

// checkJSON refuses what isn't one JSON document in valid UTF-8. Nesting beyond
// the standard library's 10,000 levels is refused too. What passes may be cut
// up by members and elements, which never look for errors again.
func checkJSON(data []byte) *job.Error {
	if len(bytes.TrimLeft(data, " \t\r\n")) == 0 {
		return job.Invalid("body", "must be a JSON document, not empty", "")
	}
	if !utf8.Valid(data) {
		return job.Invalid("body", "must be JSON in valid UTF-8", string(invalidUTF8(data)))
	}
	if json.Valid(data) {
		return nil
	}
	var discard json.RawMessage
	err := json.Unmarshal(data, &discard)
	return job.Invalid("body", "must be one JSON document: "+err.Error(), string(around(data, err)))
}

// around returns the bytes near a syntax error.
func around(data []byte, err error) []byte {
	const before, after = 16, 8
	var s *json.SyntaxError
	if !errors.As(err, &s) {
		return nil
	}
	at := min(int(s.Offset), len(data))
	return data[max(at-before, 0):min(at+after, len(data))]
}

// invalidUTF8 returns the bytes from the first that is no UTF-8.
func invalidUTF8(data []byte) []byte {
	const after = 8
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			return data[i:min(i+after, len(data))]
		}
		i += n
	}
	return nil
}

// members calls fn for each member of the valid JSON object raw until fn
// returns an error. The value is a part of raw, byte for byte.
func members(raw []byte, fn func(key, value []byte) *job.Error) *job.Error {
	for i := skipBlank(raw, 1); raw[i] != '}'; {
		end := skipValue(raw, i)
		key := raw[i:end]
		i = skipBlank(raw, skipBlank(raw, end)+1) // past the colon
		end = skipValue(raw, i)
		if err := fn(key, raw[i:end]); err != nil {
			return err
		}
		if i = skipBlank(raw, end); raw[i] == ',' {
			i = skipBlank(raw, i+1)
		}
	}
	return nil
}

// elements calls fn for each element of the valid JSON array raw until fn
// returns an error.
func elements(raw []byte, fn func(n int, value []byte) *job.Error) *job.Error {
	i := skipBlank(raw, 1)
	for n := 0; raw[i] != ']'; n++ {
		end := skipValue(raw, i)
		if err := fn(n, raw[i:end]); err != nil {
			return err
		}
		if i = skipBlank(raw, end); raw[i] == ',' {
			i = skipBlank(raw, i+1)
		}
	}
	return nil
}

// skipBlank returns the index of the first byte from i on that isn't blank.
func skipBlank(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// skipValue returns the end of the value that begins at i. It doesn't recurse,
// so that no depth of nesting costs stack.
func skipValue(b []byte, i int) int {
	for depth := 0; i < len(b); {
		switch b[i] {
		case '"':
			i = skipString(b, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\t', '\n', '\r':
			i++
			continue // between values: only met inside an object or array
		default:
			i = skipScalar(b, i)
		}
		if depth == 0 {
			return i
		}
	}
	return i
}

// skipString returns the end of the string whose opening quote is at i.
func skipString(b []byte, i int) int {
	i++
	if n := bytes.IndexByte(b[i:], '"'); n >= 0 && bytes.IndexByte(b[i:i+n], '\\') < 0 {
		return i + n + 1
	}
	for ; i < len(b) && b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// skipScalar returns the end of the number or name that begins at i.
func skipScalar(b []byte, i int) int {
	for i < len(b) {
		switch b[i] {
		case ',', ':', ']', '}', ' ', '\t', '\n', '\r':
			return i
		}
		i++
	}
	return i
}

// kindOf names the kind of a valid JSON value for an error message.
func kindOf(raw []byte) string {
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// unquote reads a valid JSON string. Half a surrogate pair has no UTF-8, and the
// decoder would silently put another character in its place: it is refused.
func unquote(raw []byte) (string, bool) {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), true
	}
	var s string
	if json.Unmarshal(raw, &s) != nil || loneSurrogate(raw) {
		return "", false
	}
	return s, true
}

// loneSurrogate tells whether a valid JSON string escapes half a pair.
func loneSurrogate(raw []byte) bool {
	high := false
	for i := 1; i < len(raw)-1; {
		var low bool
		next := i + 1
		if raw[i] == '\\' {
			next = i + 2
			if raw[i+1] == 'u' {
				next = i + 6
				unit, _ := strconv.ParseUint(string(raw[i+2:next]), 16, 16)
				low = unit >= 0xDC00 && unit <= 0xDFFF
				if unit >= 0xD800 && unit <= 0xDBFF {
					if high {
						return true
					}
					high, i = true, next
					continue
				}
			}
		}
		if high != low {
			return true
		}
		high, i = false, next
	}
	return high
}
