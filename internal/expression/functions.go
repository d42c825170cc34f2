package expression

import (
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// function is one that expressions may call, by name or by an operator.
type function struct {
	least, most int // arguments, beside the budget
	run         func(b *budget, args []any) (any, error)
}

// call is what the library sees.
func (f function) call(params ...any) (any, error) {
	return f.run(params[0].(*budget), params[1:])
}

func (f function) arity() string {
	switch {
	case f.most == 1:
		return "1 argument"
	case f.least == f.most:
		return fmt.Sprintf("%d arguments", f.least)
	case f.most == anyNumber:
		return fmt.Sprintf("at least %d arguments", f.least)
	}
	return fmt.Sprintf("%d to %d arguments", f.least, f.most)
}

const anyNumber = math.MaxInt

// The functions that rewriting puts in: no text can spell their names.
const (
	fnBool = "must be bool"
	fnItem = "one item"
	fnList = "must be a list"
)

// functions holds all that may be called. Each counts what it looks at.
var functions = map[string]function{
	fnBool: {1, 1, func(_ *budget, args []any) (any, error) {
		if _, ok := args[0].(bool); !ok {
			return nil, fail("must be true or false, not %s", describe(args[0]))
		}
		return args[0], nil
	}},
	fnItem: {2, 2, func(b *budget, args []any) (any, error) {
		return args[1], b.spend(args[0].(int))
	}},
	fnList: {1, 1, func(b *budget, args []any) (any, error) {
		list, err := listOf(args[0])
		return list, errOr(err, b.spend(1))
	}},

	"len": {1, 1, func(_ *budget, args []any) (any, error) {
		switch v := args[0].(type) {
		case string:
			return utf8.RuneCountInString(v), nil
		case []any:
			return len(v), nil
		case map[string]any:
			return len(v), nil
		}
		return nil, fail("len wants a string, a list or an object, not %s", describe(args[0]))
	}},
	"type":     {1, 1, seen(func(args []any) (any, error) { return typeName(args[0]), nil })},
	"int":      {1, 1, seen(func(args []any) (any, error) { return toInteger(args[0]) })},
	"float":    {1, 1, seen(func(args []any) (any, error) { return toFloat(args[0]) })},
	"string":   {1, 1, seen(func(args []any) (any, error) { return text(args[0]) })},
	"abs":      {1, 1, seen(func(args []any) (any, error) { return abs(args[0]) })},
	"floor":    {1, 1, rounded(math.Floor)},
	"ceil":     {1, 1, rounded(math.Ceil)},
	"round":    {1, 1, rounded(math.Round)},
	"toJSON":   {1, 1, seen(func(args []any) (any, error) { j, err := ToJSON(args[0]); return string(j), err })},
	"fromJSON": {1, 1, seen(fromText)},

	"lower":   {1, 1, onText(strings.ToLower)},
	"upper":   {1, 1, onText(strings.ToUpper)},
	"trim":    {1, 1, onText(strings.TrimSpace)},
	"split":   {2, 2, seen(split)},
	"join":    {1, 2, joined},
	"replace": {3, 3, replaced},

	"first":   {1, 1, onList(func(l []any) (any, error) { return at(l, 0), nil })},
	"last":    {1, 1, onList(func(l []any) (any, error) { return at(l, len(l)-1), nil })},
	"reverse": {1, 1, seen(reversed)},
	"sort":    {1, 1, seen(sorted)},
	"uniq":    {1, 1, uniq},
	"flatten": {1, 1, seen(flattened)},
	"concat":  {1, anyNumber, seen(concat)},
	"sum":     {1, 1, sum},
	"min":     {1, anyNumber, seen(func(args []any) (any, error) { return best(args, -1) })},
	"max":     {1, anyNumber, seen(func(args []any) (any, error) { return best(args, 1) })},
	"keys":    {1, 1, seen(func(args []any) (any, error) { return keys(args[0], false) })},
	"values":  {1, 1, seen(func(args []any) (any, error) { return keys(args[0], true) })},
}

func init() { // apart, since each operator looks others up
	maps.Copy(functions, operators)
}

func fail(format string, args ...any) error { return &Error{Rule: fmt.Sprintf(format, args...)} }

func errOr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// seen counts all that a function's arguments hold before it runs.
func seen(run func(args []any) (any, error)) func(*budget, []any) (any, error) {
	return func(b *budget, args []any) (any, error) {
		for _, a := range args {
			if err := b.see(a); err != nil {
				return nil, err
			}
		}
		return run(args)
	}
}

func onText(run func(string) string) func(*budget, []any) (any, error) {
	return seen(func(args []any) (any, error) {
		s, ok := args[0].(string)
		if !ok {
			return nil, fail("wants a string, not %s", describe(args[0]))
		}
		return run(s), nil
	})
}

func onList(run func([]any) (any, error)) func(*budget, []any) (any, error) {
	return func(_ *budget, args []any) (any, error) {
		l, err := listOf(args[0])
		if err != nil {
			return nil, err
		}
		return run(l)
	}
}

func listOf(v any) ([]any, error) {
	l, ok := v.([]any)
	if !ok {
		return nil, fail("must be a list, not %s", describe(v))
	}
	return l, nil
}

func at(l []any, i int) any {
	if i < 0 || i >= len(l) {
		return nil
	}
	return l[i]
}

func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "bool"
	case string:
		return "string"
	case int, int64, bigInt:
		return "int"
	case float64:
		return "number"
	case []any:
		return "list"
	}
	return "object"
}

func toInteger(v any) (any, error) {
	switch v := v.(type) {
	case int, int64, bigInt:
		return v, nil
	case float64:
		if v != math.Trunc(v) || math.Abs(v) >= 1<<63 {
			return nil, fail("int wants a whole number (got %v): round it first", v)
		}
		return integer(int64(v)), nil
	case string:
		switch i := number(strings.TrimSpace(v)).(type) {
		case int, int64:
			return i, nil
		}
		return nil, fail("int wants the digits of an integer (got %s)", shorten(v))
	}
	return nil, fail("int wants a number or a string, not %s", describe(v))
}

func toFloat(v any) (any, error) {
	if f, ok := asFloat(v); ok {
		return f, nil
	}
	if s, ok := v.(string); ok {
		f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, fail("float wants the digits of a number (got %s)", shorten(s))
		}
		return f, nil
	}
	return nil, fail("float wants a number or a string, not %s", describe(v))
}

// text returns a value as it stands in the middle of a text.
func text(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", fail("null has no text: give one with ?? \"\"")
	case string:
		return v, nil
	}
	j, err := ToJSON(v)
	return string(j), err
}

func abs(v any) (any, error) {
	if i, ok := asInt(v); ok && i >= 0 {
		return v, nil
	} else if f, ok := v.(float64); ok {
		return math.Abs(f), nil
	}
	return negated(v)
}

func rounded(run func(float64) float64) func(*budget, []any) (any, error) {
	return func(_ *budget, args []any) (any, error) {
		if _, ok := asInt(args[0]); ok {
			return args[0], nil
		}
		f, ok := args[0].(float64)
		if !ok {
			return nil, fail("wants a number, not %s", describe(args[0]))
		}
		if f = run(f); math.Abs(f) >= 1<<53 {
			return f, nil
		}
		return integer(int64(f)), nil
	}
}

func fromText(args []any) (any, error) {
	s, ok := args[0].(string)
	if !ok {
		return nil, fail("fromJSON wants a string, not %s", describe(args[0]))
	}
	v, err := FromJSON([]byte(s))
	if err != nil {
		return nil, fail("fromJSON wants one JSON value (got %s)", shorten(s))
	}
	return v, nil
}

func shorten(s string) string {
	if len(s) > 64 {
		return strconv.Quote(s[:64]) + "…"
	}
	return strconv.Quote(s)
}
