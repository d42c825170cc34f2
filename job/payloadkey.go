package job

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// PayloadKey reads the value that a path leads to in a payload: of a string its
// text, of a number, true or false how it is written. A value that is absent or null
// is the empty key, which all such tasks share. Objects, arrays and long texts are
// refused. Where a name occurs twice the last one holds.
func PayloadKey(payload []byte, path string) (string, *Error) {
	if path == "" {
		return "", nil
	}
	steps, ok := keySteps(path)
	if !ok {
		return "", Invalid("key", "is no path", path)
	}
	value := cutValue(payload)
	for _, step := range steps {
		if value = child(value, step); value == nil {
			return "", nil
		}
	}
	rule := "at " + path + " must be a string of at most 255 bytes without control characters, a number, true or false, since a limit's key is taken from there"
	switch value[0] {
	case '{', '[':
		return "", Invalid("payload", rule, string(value))
	case 'n':
		return "", nil
	case '"':
		var s string
		if json.Unmarshal(value, &s) != nil || len(s) > maxKeyValue || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
			return "", Invalid("payload", rule, string(value))
		}
		return s, nil
	}
	if len(value) > maxKeyValue {
		return "", Invalid("payload", rule, string(value))
	}
	return string(value), nil
}

// The functions below walk over JSON without recursion and without keeping
// anything. What isn't JSON ends the walk: it then leads nowhere.

// cutValue returns the value at the beginning of b, nil where there is none.
func cutValue(b []byte) []byte {
	b = skipSpace(b)
	n := valueLen(b)
	if n == 0 {
		return nil
	}
	return b[:n]
}

func skipSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t' || b[0] == '\n' || b[0] == '\r') {
		b = b[1:]
	}
	return b
}

// valueLen is the length of the value that b begins with; 0: there is none.
func valueLen(b []byte) int {
	depth := 0
	for i := 0; i < len(b); {
		switch b[i] {
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		case '"':
			n := stringLen(b[i:])
			if n == 0 {
				return 0
			}
			i += n
		case ' ', '\t', '\n', '\r', ',', ':':
			i++
			continue
		default:
			for i < len(b) && strings.IndexByte(" \t\r\n,:{}[]\"", b[i]) < 0 {
				i++
			}
		}
		if depth <= 0 {
			return i
		}
	}
	return 0
}

// stringLen is the length of a string with its quotes; 0: it has no end.
func stringLen(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return 0
}

// child returns a member of an object or an element of an array, nil where there
// is none.
func child(value []byte, step string) (found []byte) {
	if len(value) < 2 || value[0] != '{' && value[0] != '[' {
		return nil
	}
	rest, want := value[1:len(value)-1], -1
	if value[0] == '[' {
		n, err := strconv.Atoi(step)
		if err != nil || n < 0 || strconv.Itoa(n) != step {
			return nil
		}
		want = n
	}
	for at := 0; ; at++ {
		if rest = skipSpace(rest); len(rest) == 0 {
			return found
		}
		named := want < 0
		if named {
			n := valueLen(rest)
			name := rest[:n]
			if n == 0 || name[0] != '"' {
				return nil
			}
			if rest = skipSpace(rest[n:]); len(rest) == 0 || rest[0] != ':' {
				return nil
			}
			rest = rest[1:]
			named = isText(name, step)
		}
		v := cutValue(rest)
		if v == nil {
			return nil
		}
		if named {
			found = v
		} else if at == want {
			return v
		}
		rest = skipSpace(skipSpace(rest)[len(v):])
		if len(rest) > 0 && rest[0] == ',' {
			rest = rest[1:]
		}
	}
}

// isText reports whether a quoted string says s.
func isText(quoted []byte, s string) bool {
	inner := quoted[1 : len(quoted)-1]
	if string(inner) == s {
		return true
	}
	if strings.IndexByte(string(inner), '\\') < 0 {
		return false
	}
	var text string
	return json.Unmarshal(quoted, &text) == nil && text == s
}
