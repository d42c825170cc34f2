package api

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

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
	return decodePart(raw[:skipValue(raw, 0)], v)
}

// decodePart is decode for a part of a document that was checked.
func decodePart(raw []byte, v any) *job.Error {
	target := reflect.ValueOf(v).Elem()
	return decodeValue(raw, target, readerOf(target.Type()))
}

var (
	rawMessageType      = reflect.TypeFor[json.RawMessage]()
	jsonUnmarshalerType = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// reader tells how values of a type are read.
type reader uint8

const (
	readNumber reader = iota
	readRaw
	readPointer
	readOwn
	readStruct
	readSlice
	readMap
	readText
	readBool
)

var readers sync.Map // reflect.Type -> reader

func readerOf(t reflect.Type) reader {
	if r, ok := readers.Load(t); ok {
		return r.(reader) //nolint:forcetypeassert // the only type stored
	}
	r := newReader(t)
	readers.Store(t, r)
	return r
}

func newReader(t reflect.Type) reader {
	p := reflect.PointerTo(t)
	switch {
	case t == rawMessageType:
		return readRaw
	case t.Kind() == reflect.Pointer:
		return readPointer
	case p.Implements(textUnmarshalerType), p.Implements(jsonUnmarshalerType):
		return readOwn
	}
	switch t.Kind() {
	case reflect.Struct:
		return readStruct
	case reflect.Slice:
		return readSlice
	case reflect.Map:
		return readMap
	case reflect.String:
		return readText
	case reflect.Bool:
		return readBool
	}
	return readNumber
}

// decodeValue reads a value. Its errors name fields from here on down; who holds
// the value puts its name before them.
func decodeValue(raw []byte, v reflect.Value, how reader) *job.Error {
	switch how {
	case readRaw:
		v.SetBytes(raw[:len(raw):len(raw)])
		return nil
	case readPointer:
		elem := v.Type().Elem()
		v.Set(reflect.New(elem))
		return decodeValue(raw, v.Elem(), readerOf(elem))
	case readOwn:
		return decodeOwn(raw, v.Addr().Interface())
	case readStruct:
		return decodeStruct(raw, v)
	case readSlice:
		return decodeSlice(raw, v)
	case readMap:
		return decodeMap(raw, v)
	case readText:
		s, err := text(raw)
		v.SetString(s)
		return err
	case readBool:
		if raw[0] != 't' && raw[0] != 'f' {
			return wrongKind(raw, "true or false")
		}
		v.SetBool(raw[0] == 't')
		return nil
	default:
		return decodeNumber(raw, v)
	}
}

// decodeOwn lets a type read itself: from a string where it can, else from JSON.
func decodeOwn(raw []byte, target any) *job.Error {
	var err error
	if t, ok := target.(*time.Time); ok { // its own errors speak of Go
		s, wrong := text(raw)
		if wrong != nil {
			return wrong
		}
		var ms int64
		ms, err = job.ParseTime(s)
		*t = time.UnixMilli(ms).UTC()
	} else if u, ok := target.(encoding.TextUnmarshaler); ok && raw[0] == '"' {
		s, wrong := text(raw)
		if wrong != nil {
			return wrong
		}
		err = u.UnmarshalText([]byte(s))
	} else if u, ok := target.(json.Unmarshaler); ok {
		err = u.UnmarshalJSON(raw)
	} else {
		return wrongKind(raw, "a string")
	}
	if err == nil {
		return nil
	}
	e := *job.AsError(err)
	e.Code, e.Field = job.CodeInvalid, ""
	return &e
}

func text(raw []byte) (string, *job.Error) {
	if raw[0] != '"' {
		return "", wrongKind(raw, "a string")
	}
	s, ok := unquote(raw)
	if !ok {
		return "", job.Invalid("", "must be Unicode text: half a surrogate pair is none", string(raw))
	}
	return s, nil
}

func wrongKind(raw []byte, want string) *job.Error {
	return job.Invalid("", "must be "+want+", not "+kindOf(raw), string(raw))
}

func decodeNumber(raw []byte, v reflect.Value) *job.Error {
	integer := v.CanInt() || v.CanUint()
	if kindOf(raw) != "a number" {
		if integer {
			return wrongKind(raw, "an integer")
		}
		return wrongKind(raw, "a number")
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
		return job.Invalid("", "must be an integer of at most "+strconv.Itoa(v.Type().Bits())+" bits, without fraction or exponent", string(raw))
	default:
		return job.Invalid("", "must be a number that 64-bit floating point can hold", string(raw))
	}
}

func decodeSlice(raw []byte, v reflect.Value) *job.Error {
	if raw[0] != '[' {
		return wrongKind(raw, "an array")
	}
	count := 0
	_ = elements(raw, func(int, []byte) *job.Error { count++; return nil })
	if count > maxElements {
		return tooMany(count)
	}
	v.Set(reflect.MakeSlice(v.Type(), count, count))
	how := readerOf(v.Type().Elem())
	return elements(raw, func(n int, value []byte) *job.Error {
		var err *job.Error
		if value[0] == 'n' && how != readRaw {
			err = notNull()
		} else {
			err = decodeValue(value, v.Index(n), how)
		}
		if err != nil {
			return err.At("[" + strconv.Itoa(n) + "]")
		}
		return nil
	})
}

func decodeMap(raw []byte, v reflect.Value) *job.Error {
	if raw[0] != '{' {
		return wrongKind(raw, "an object")
	}
	count := 0
	_ = members(raw, func(_, _ []byte) *job.Error { count++; return nil })
	if count > maxElements {
		return tooMany(count)
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), count))
	how := readerOf(v.Type().Elem())
	return members(raw, func(key, value []byte) *job.Error {
		name, err := text(key)
		if err != nil {
			return err
		}
		k := reflect.ValueOf(name).Convert(v.Type().Key())
		elem := reflect.New(v.Type().Elem()).Elem()
		switch {
		case v.MapIndex(k).IsValid():
			err = doubled()
		case value[0] == 'n':
			err = notNull()
		default:
			err = decodeValue(value, elem, how)
		}
		if err != nil {
			return err.At("[" + job.Shorten(name) + "]")
		}
		v.SetMapIndex(k, elem)
		return nil
	})
}

func decodeStruct(raw []byte, v reflect.Value) *job.Error {
	if raw[0] != '{' {
		return wrongKind(raw, "an object")
	}
	fields := fieldsOf(v.Type())
	var seen uint64 // fields by number
	return members(raw, func(key, value []byte) *job.Error {
		f, known := fields[string(key[1:len(key)-1])]
		if !known { // or written with escapes
			name, err := text(key)
			if err != nil {
				return err
			}
			if f, known = fields[name]; !known {
				return unknownField(name, fields)
			}
		}
		if seen&(1<<f.number) != 0 {
			return doubled().At(place(f.name))
		}
		seen |= 1 << f.number
		if value[0] == 'n' && f.how != readRaw {
			return nil
		}
		if err := decodeValue(value, v.FieldByIndex(f.index), f.how); err != nil {
			return err.At(place(f.name))
		}
		return nil
	})
}

func unknownField(name string, fields map[string]field) *job.Error {
	rule := "is not a field that axd knows here"
	for known := range fields {
		if strings.EqualFold(known, name) {
			rule += "; it is written " + strconv.Quote(known)
		}
	}
	return job.Invalid(place(name), rule, "")
}

func doubled() *job.Error { return job.Invalid("", "must appear once", "") }

func notNull() *job.Error { return job.Invalid("", "must not be null", "null") }

func tooMany(got int) *job.Error {
	return tooLarge("", "must have at most "+strconv.Itoa(maxElements)+" entries", strconv.Itoa(got))
}

// tooLarge is the error for what passes a size limit: it names both numbers.
func tooLarge(field, rule, got string) *job.Error {
	return &job.Error{Code: job.CodeTooLarge, Field: field, Rule: rule, Value: got}
}

// maxPathPart bounds what one name adds to a field's path, since a path is
// repeated in errors.
const maxPathPart = 64 // bytes

// place is how an error's path shows a member. A name that could be taken for a
// path of its own, or is long, is quoted.
func place(name string) string {
	if name == "" {
		return `[""]`
	}
	if len(name) > maxPathPart || strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r == '.' || r == '[' || r == ']' || r == '"' || r == 0x7F
	}) {
		return "[" + job.Shorten(name) + "]"
	}
	return name
}

// maxFields is how many fields decodeStruct can tell apart.
const maxFields = 64

// field is a struct's field as JSON knows it.
type field struct {
	index    []int
	number   int // within the struct, at most maxFields
	how      reader
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
	m, number := map[string]field{}, 0
	for _, f := range reflect.VisibleFields(t) {
		tag, tagged := f.Tag.Lookup("json")
		name, options, _ := strings.Cut(tag, ",")
		if !f.IsExported() || name == "-" || (f.Anonymous && !tagged) {
			continue
		}
		if name == "" {
			name = f.Name
		}
		if number == maxFields {
			panic("api: " + t.String() + " has too many fields")
		}
		m[name] = field{
			index: f.Index, number: number, how: readerOf(f.Type), name: name, typ: f.Type,
			optional: strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero"),
		}
		number++
	}
	fieldCache.Store(t, m)
	return m
}
