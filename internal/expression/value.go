package expression

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
)

// bigInt is an integer too large to compute with: it may be compared with its like
// and passed on, digit by digit.
type bigInt string

// FromJSON returns the value of a JSON text as expressions see it: null, bool,
// string, integer, number, list ([]any) or object (map[string]any).
func FromJSON(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	return fromNumbers(v), nil
}

// fromNumbers turns the numbers of a decoded value into ours, in place.
func fromNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		return number(v.String())
	case []any:
		for i := range v {
			v[i] = fromNumbers(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = fromNumbers(v[name])
		}
	}
	return v
}

func number(digits string) any {
	if i, err := strconv.ParseInt(digits, 10, 64); err == nil {
		return integer(i)
	} else if errors.Is(err, strconv.ErrRange) {
		return bigInt(digits)
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil { // too large a power of ten
		return bigInt(digits)
	}
	return f
}

// integer returns the Go type in which the library and we keep an integer.
func integer(i int64) any {
	if int64(int(i)) == i {
		return int(i)
	}
	return i // where an int has 32 bits
}

// plain returns a value with nothing in it but the types of FromJSON, or an error
// where it is something that has no JSON form.
func plain(v any) (any, error) {
	switch v := v.(type) {
	case nil, bool, string, int, int64, float64, bigInt, []any, map[string]any:
		return v, nil
	case uint8: // an index into a text
		return string([]byte{v}), nil
	}
	return nil, &Error{Rule: "must be a value, not a part of the language"}
}

// ToJSON returns the JSON form of a value, objects in the order of their names.
func ToJSON(v any) ([]byte, error) { return appendJSON(nil, v) }

func appendJSON(b []byte, v any) ([]byte, error) {
	var err error
	switch v := v.(type) {
	case nil:
		return append(b, "null"...), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case int:
		return strconv.AppendInt(b, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case bigInt:
		return append(b, v...), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, &Error{Rule: "a number must be finite"}
		}
		text, err := json.Marshal(v)
		return append(b, text...), err
	case string:
		return appendString(b, v), nil
	case []any:
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendJSON(b, item); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case map[string]any:
		b = append(b, '{')
		for i, name := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, name), ':')
			if b, err = appendJSON(b, v[name]); err != nil {
				return nil, err
			}
		}
		return append(b, '}'), nil
	}
	if v, err = plain(v); err != nil {
		return nil, err
	}
	return appendJSON(b, v)
}

// appendString writes a text without the escapes that only HTML needs.
func appendString(b []byte, s string) []byte {
	var w bytes.Buffer
	e := json.NewEncoder(&w)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a text always has a form
	return append(b, bytes.TrimSuffix(w.Bytes(), []byte{'\n'})...)
}

// describe names the type of a value in a message.
func describe(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a bool"
	case string:
		return "a string"
	case int, int64:
		return "an integer"
	case bigInt:
		return "an integer too large to compute with"
	case float64:
		return "a number"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "something that is not a value"
}
