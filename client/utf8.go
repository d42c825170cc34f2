package client

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/axd-project/axd/job"
)

// checkText refuses what JSON can't carry: text that isn't UTF-8. encoding/json
// would replace its bad bytes in silence, and another command would run, or two
// idempotency keys become one. The error names the field by its JSON path.
func checkText(body any) *job.Error { return checkValue("", reflect.ValueOf(body)) }

func checkValue(path string, v reflect.Value) *job.Error {
	switch v.Kind() {
	case reflect.String:
		if s := v.String(); !utf8.ValidString(s) {
			return notText(path, s)
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return checkValue(path, v.Elem())
		}
	case reflect.Slice, reflect.Array:
		return checkItems(path, v)
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			key := it.Key().String()
			if !utf8.ValidString(key) {
				return notText(path, key)
			}
			if e := checkValue(path+"["+strconv.Quote(key)+"]", it.Value()); e != nil {
				return e
			}
		}
	case reflect.Struct:
		return checkFields(path, v)
	}
	return nil
}

func checkItems(path string, v reflect.Value) *job.Error {
	if v.Type().Elem().Kind() == reflect.Uint8 { // a json.RawMessage
		if v.Kind() == reflect.Slice && !utf8.Valid(v.Bytes()) {
			return notText(path, string(v.Bytes()))
		}
		return nil
	}
	for i := range v.Len() {
		if e := checkValue(fmt.Sprintf("%s[%d]", path, i), v.Index(i)); e != nil {
			return e
		}
	}
	return nil
}

func checkFields(path string, v reflect.Value) *job.Error {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		at := path // an embedded struct's fields are its holder's
		if name != "" && path != "" {
			at += "."
		}
		if e := checkValue(at+name, v.Field(i)); e != nil {
			return e
		}
	}
	return nil
}

func notText(path, value string) *job.Error {
	return job.Invalid(path, "must be valid UTF-8, since requests are JSON", value)
}
