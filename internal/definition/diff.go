package definition

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/axd-project/axd/job"
)

// Difference is a field that a definition would change. Old or New is absent where
// the field is.
type Difference struct {
	Field string          `json:"field"`
	Old   json.RawMessage `json:"old,omitempty"`
	New   json.RawMessage `json:"new,omitempty"`
	// Hidden: the values may be secrets.
	Hidden bool `json:"hidden,omitempty"`
}

// diff compares two definitions field by field, in the order of their fields.
func diff(before, after any) ([]Difference, error) {
	a, err := tree(before)
	if err != nil {
		return nil, err
	}
	b, err := tree(after)
	if err != nil {
		return nil, err
	}
	return compare(nil, "", a, b), nil
}

// node is a JSON value; an object keeps the order of its members.
type node struct {
	raw    json.RawMessage
	keys   []string
	fields map[string]*node
	items  []*node
}

func tree(v any) (*node, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return parseJSON(bytes.TrimSpace(buf.Bytes()))
}

func parseJSON(raw json.RawMessage) (*node, error) {
	n := &node{raw: raw}
	dec := json.NewDecoder(bytes.NewReader(raw))
	switch {
	case len(raw) > 0 && raw[0] == '{':
		n.fields = map[string]*node{}
		if _, err := dec.Token(); err != nil {
			return nil, err
		}
		for dec.More() {
			name, err := dec.Token()
			if err != nil {
				return nil, err
			}
			key, _ := name.(string)
			var value json.RawMessage
			if err := dec.Decode(&value); err != nil {
				return nil, err
			}
			n.keys = append(n.keys, key)
			if n.fields[key], err = parseJSON(value); err != nil {
				return nil, err
			}
		}
	case len(raw) > 0 && raw[0] == '"': // one way of writing it
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, err
		}
		n.raw = quote(s)
	case len(raw) > 0 && raw[0] == '[':
		var items []json.RawMessage
		if err := dec.Decode(&items); err != nil {
			return nil, err
		}
		n.items = []*node{}
		for _, item := range items {
			child, err := parseJSON(item)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, child)
		}
	}
	return n, nil
}

func compare(to []Difference, path string, a, b *node) []Difference {
	switch {
	case a.fields != nil && b.fields != nil:
		for _, key := range union(a.keys, b.keys) {
			to = compareMember(to, join(path, place(key)), a.fields[key], b.fields[key])
		}
		return to
	case a.items != nil && b.items != nil && len(a.items) == len(b.items) && (len(a.items) == 0 || a.items[0].fields != nil):
		for i := range a.items {
			to = compare(to, path+"["+strconv.Itoa(i)+"]", a.items[i], b.items[i])
		}
		return to
	}
	if !same(a, b) {
		to = append(to, Difference{Field: path, Old: a.raw, New: b.raw, Hidden: secret(path)})
	}
	return to
}

// same compares values; the order of an object's members means nothing.
func same(a, b *node) bool {
	switch {
	case a.fields != nil && b.fields != nil:
		return len(a.fields) == len(b.fields) && !slices.ContainsFunc(a.keys, func(k string) bool {
			return b.fields[k] == nil || !same(a.fields[k], b.fields[k])
		})
	case a.items != nil && b.items != nil:
		return slices.EqualFunc(a.items, b.items, same)
	}
	return bytes.Equal(a.raw, b.raw)
}

func compareMember(to []Difference, path string, a, b *node) []Difference {
	switch {
	case a == nil:
		return append(to, Difference{Field: path, New: b.raw, Hidden: secret(path)})
	case b == nil:
		return append(to, Difference{Field: path, Old: a.raw, Hidden: secret(path)})
	}
	return compare(to, path, a, b)
}

// union lists the keys of both, in b's order with a's own at their places before.
func union(a, b []string) []string {
	out := slices.Clone(a)
	for i, key := range b {
		if slices.Contains(out, key) {
			continue
		}
		at := len(out)
		if i+1 < len(b) {
			if next := slices.Index(out, b[i+1]); next >= 0 {
				at = next
			}
		}
		out = slices.Insert(out, at, key)
	}
	return out
}

// secret tells whether a field's values are kept out of logs: those of environments
// and headers.
func secret(path string) bool {
	return strings.Contains(path, "exec.env") || strings.Contains(path, "http.headers")
}

const maxShown = 60 // bytes of a value in a line for people

// show writes a value for people.
func show(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		if len(text) <= maxShown && text != "" && !json.Valid([]byte(text)) && !strings.ContainsFunc(text, unicode.IsControl) {
			return text
		}
		return cmp.Or(job.Shorten(text), `""`)
	}
	if len(raw) > maxShown {
		return string(raw[:maxShown]) + "…"
	}
	return string(raw)
}

// Text writes the difference on a line for people.
func (d Difference) Text() string {
	was, is := show(d.Old), show(d.New)
	if d.Hidden {
		was, is = "(not shown)", "(not shown)"
	}
	switch {
	case d.Old == nil:
		return "+ " + d.Field + ": " + is
	case d.New == nil:
		return "- " + d.Field + ": " + was
	}
	if d.Hidden {
		return "~ " + d.Field + ": changed (not shown)"
	}
	return "~ " + d.Field + ": " + was + " → " + is
}
