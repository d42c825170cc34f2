package api

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/axd-project/axd/job"
)

// maxElements bounds the elements of one array and the members of one map.
const maxElements = job.MaxBatch

// decode reads one JSON document into v, a pointer to a struct, and refuses what
// encoding/json lets pass: unknown and doubled names, names in another case,
// null inside arrays, data behind the document, and text that is no Unicode.
// A null member counts as absent; only a json.RawMessage tells the two apart,
// and keeps the very bytes that were sent.
func decode(data []byte, v any) *job.Error {
	if err := checkJSON(data); err != nil {
		return err
	}
	raw := data[skipBlank(data, 0):]
	return decodeValue(raw[:skipValue(raw, 0)], "", reflect.ValueOf(v).Elem())
}

// decodePart is decode for a part of a document that was checked: field names in
// errors begin with path, the part's place.
func decodePart(raw []byte, path string, v any) *job.Error {
	return decodeValue(raw, path, reflect.ValueOf(v).Elem())
}

var (
	rawMessageType      = reflect.TypeFor[json.RawMessage]()
	jsonUnmarshalerType = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func decodeValue(raw []byte, path string, v reflect.Value) *job.Error {
	t := v.Type()
	if t == rawMessageType {
		v.SetBytes(raw[:len(raw):len(raw)])
		return nil
	}
	if t.Kind() == reflect.Pointer {
		v.Set(reflect.New(t.Elem()))
		return decodeValue(raw, path, v.Elem())
	}
	if p := reflect.PointerTo(t); p.Implements(textUnmarshalerType) || p.Implements(jsonUnmarshalerType) {
		return decodeOwn(raw, path, v.Addr().Interface())
	}
	switch t.Kind() {
	case reflect.Struct:
		return decodeStruct(raw, path, v)
	case reflect.Slice:
		return decodeSlice(raw, path, v)
	case reflect.Map:
		return decodeMap(raw, path, v)
	case reflect.String:
		s, err := text(raw, path)
		v.SetString(s)
		return err
	case reflect.Bool:
		if raw[0] != 't' && raw[0] != 'f' {
			return wrongKind(raw, path, "true or false")
		}
		v.SetBool(raw[0] == 't')
		return nil
	default:
		return decodeNumber(raw, path, v)
	}
}

// decodeOwn lets a type read itself: from a string where it can, else from JSON.
func decodeOwn(raw []byte, path string, target any) *job.Error {
	var err error
	if u, ok := target.(encoding.TextUnmarshaler); ok && raw[0] == '"' {
		s, wrong := text(raw, path)
		if wrong != nil {
			return wrong
		}
		err = u.UnmarshalText([]byte(s))
	} else if u, ok := target.(json.Unmarshaler); ok {
		err = u.UnmarshalJSON(raw)
	} else {
		return wrongKind(raw, path, "a string")
	}
	if err == nil {
		return nil
	}
	e := *job.AsError(err)
	e.Code, e.Field = job.CodeInvalid, path
	return &e
}

func text(raw []byte, path string) (string, *job.Error) {
	if raw[0] != '"' {
		return "", wrongKind(raw, path, "a string")
	}
	s, ok := unquote(raw)
	if !ok {
		return "", job.Invalid(path, "must be Unicode text: half a surrogate pair is none", string(raw))
	}
	return s, nil
}

func wrongKind(raw []byte, path, want string) *job.Error {
	return job.Invalid(path, "must be "+want+", not "+kindOf(raw), string(raw))
}

func decodeNumber(raw []byte, path string, v reflect.Value) *job.Error {
	integer := v.CanInt() || v.CanUint()
	if kindOf(raw) != "a number" {
		if integer {
			return wrongKind(raw, path, "an integer")
		}
		return wrongKind(raw, path, "a number")
	}
	var err error
	switch bits := v.Type().Bits(); {
	case v.CanInt():
		var n int64
		n, err = strconv.ParseInt(string(raw), 10, bits)
		v.SetInt(n)
	case v.CanUint():
		var n uint64
		n, err = strconv.ParseUint(string(raw), 10, bits)
		v.SetUint(n)
	default:
		var f float64
		f, err = strconv.ParseFloat(string(raw), bits)
		v.SetFloat(f)
	}
	switch {
	case err == nil:
		return nil
	case integer:
		return job.Invalid(path, "must be an integer of at most "+strconv.Itoa(v.Type().Bits())+" bits, without fraction or exponent", string(raw))
	default:
		return job.Invalid(path, "must be a number that 64-bit floating point can hold", string(raw))
	}
}

func decodeSlice(raw []byte, path string, v reflect.Value) *job.Error {
	if raw[0] != '[' {
		return wrongKind(raw, path, "an array")
	}
	count := 0
	_ = elements(raw, func(int, []byte) *job.Error { count++; return nil })
	if count > maxElements {
		return tooMany(path, count)
	}
	v.Set(reflect.MakeSlice(v.Type(), count, count))
	nullable := v.Type().Elem() == rawMessageType
	return elements(raw, func(n int, value []byte) *job.Error {
		at := path + "[" + strconv.Itoa(n) + "]"
		if value[0] == 'n' && !nullable {
			return job.Invalid(at, "must not be null", "null")
		}
		return decodeValue(value, at, v.Index(n))
	})
}

func decodeMap(raw []byte, path string, v reflect.Value) *job.Error {
	if raw[0] != '{' {
		return wrongKind(raw, path, "an object")
	}
	count := 0
	_ = members(raw, func(_, _ []byte) *job.Error { count++; return nil })
	if count > maxElements {
		return tooMany(path, count)
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), count))
	return members(raw, func(key, value []byte) *job.Error {
		name, err := text(key, path)
		if err != nil {
			return err
		}
		at := path + "[" + job.Shorten(name) + "]"
		k := reflect.ValueOf(name).Convert(v.Type().Key())
		if v.MapIndex(k).IsValid() {
			return doubled(at)
		}
		if value[0] == 'n' {
			return job.Invalid(at, "must not be null", "null")
		}
		elem := reflect.New(v.Type().Elem()).Elem()
		if err := decodeValue(value, at, elem); err != nil {
			return err
		}
		v.SetMapIndex(k, elem)
		return nil
	})
}

func decodeStruct(raw []byte, path string, v reflect.Value) *job.Error {
	if raw[0] != '{' {
		return wrongKind(raw, path, "an object")
	}
	fields := fieldsOf(v.Type())
	seen := make(map[string]bool, len(fields))
	return members(raw, func(key, value []byte) *job.Error {
		name, err := text(key, path)
		if err != nil {
			return err
		}
		f, known := fields[name]
		switch {
		case !known:
			return unknownField(join(path, name), name, fields)
		case seen[name]:
			return doubled(join(path, name))
		}
		seen[name] = true
		target := v.FieldByIndex(f.index)
		if value[0] == 'n' && target.Type() != rawMessageType {
			return nil
		}
		return decodeValue(value, join(path, name), target)
	})
}

func unknownField(path, name string, fields map[string]field) *job.Error {
	rule := "is not a field that axd knows here"
	for known := range fields {
		if strings.EqualFold(known, name) {
			rule += "; it is written " + strconv.Quote(known)
		}
	}
	return job.Invalid(path, rule, "")
}

func doubled(path string) *job.Error { return job.Invalid(path, "must appear once", "") }

func tooMany(path string, got int) *job.Error {
	return tooLarge(path, "must have at most "+strconv.Itoa(maxElements)+" entries", strconv.Itoa(got))
}

// tooLarge is the error for what passes a size limit: it names both numbers.
func tooLarge(field, rule, got string) *job.Error {
	return &job.Error{Code: job.CodeTooLarge, Field: field, Rule: rule, Value: got}
}

// maxPathPart bounds what one name adds to a field's path, since a path is
// repeated in errors.
const maxPathPart = 64 // bytes

// join appends a member's name to a field's path. A name that could be taken
// for a path of its own, or is long, is quoted.
func join(path, name string) string {
	if name == "" || len(name) > maxPathPart || strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r == '.' || r == '[' || r == ']' || r == '"' || r == 0x7F
	}) {
		if name == "" {
			return path + `[""]`
		}
		return path + "[" + job.Shorten(name) + "]"
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// field is a struct's field as JSON knows it.
type field struct {
	index    []int
	name     string
	optional bool // left out of answers when empty
	typ      reflect.Type
}

var fieldCache sync.Map // reflect.Type -> map[string]field

// fieldsOf returns a struct's fields by their JSON name; those of embedded
// structs count as the struct's own.
func fieldsOf(t reflect.Type) map[string]field {
	if m, ok := fieldCache.Load(t); ok {
		return m.(map[string]field) //nolint:forcetypeassert // the only type stored
	}
	m := map[string]field{}
	for _, f := range reflect.VisibleFields(t) {
		tag, tagged := f.Tag.Lookup("json")
		name, options, _ := strings.Cut(tag, ",")
		if !f.IsExported() || name == "-" || (f.Anonymous && !tagged) {
			continue
		}
		if name == "" {
			name = f.Name
		}
		m[name] = field{
			index: f.Index, name: name, typ: f.Type,
			optional: strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero"),
		}
	}
	fieldCache.Store(t, m)
	return m
}
