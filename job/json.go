package job

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// JSON is a JSON value as it was written: opaque bytes, so that numbers keep all
// their digits. In YAML it is written as any value.
type JSON []byte

// MarshalJSON implements json.Marshaler.
func (j JSON) MarshalJSON() ([]byte, error) {
	if len(j) == 0 {
		return []byte("null"), nil
	}
	return j, nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (j *JSON) UnmarshalJSON(b []byte) error {
	*j = bytes.Clone(b)
	return nil
}

// UnmarshalYAML reads a YAML value as the JSON value that says the same.
func (j *JSON) UnmarshalYAML(decode func(any) error) error {
	var v any
	if err := decode(&v); err != nil {
		return err
	}
	b, err := encodeJSON(v)
	if err != nil {
		return Invalid("", "must be a value that JSON can hold", fmt.Sprint(v))
	}
	*j = b
	return nil
}

// MarshalYAML gives the value to a YAML encoder.
func (j JSON) MarshalYAML() (any, error) {
	if len(j) == 0 {
		return nil, nil
	}
	dec := json.NewDecoder(bytes.NewReader(j))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	return plainNumbers(v), nil
}

// encodeJSON writes a value as people write JSON: <, > and & stay themselves.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// plainNumbers replaces each json.Number, which is a string to others, by the
// number that holds all of it, as far as one does.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		var u uint64
		if err := json.Unmarshal([]byte(v), &u); err == nil {
			return u
		}
		f, _ := v.Float64()
		return f
	case []any:
		for i := range v {
			v[i] = plainNumbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = plainNumbers(v[k])
		}
	}
	return v
}
