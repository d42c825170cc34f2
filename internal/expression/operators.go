package expression

import (
	"cmp"
	"math"
	"regexp"
	"regexp/syntax"
	"strings"
)

// operators stand in for the library's own: they count, integers stay exact, and an
// overflow is an error.
var operators = map[string]function{
	"operator +":  {2, 2, plus},
	"operator -":  math2("-"),
	"operator *":  math2("*"),
	"operator /":  math2("/"),
	"operator %":  math2("%"),
	"unary -":     {1, 1, func(_ *budget, args []any) (any, error) { return negated(args[0]) }},
	"unary +":     {1, 1, func(_ *budget, args []any) (any, error) { return arithmetic("+", 0, args[0]) }},
	"operator ..": {2, 2, span},

	"operator ==": {2, 2, func(b *budget, args []any) (any, error) { return equal(b, args[0], args[1]) }},
	"operator !=": {2, 2, func(b *budget, args []any) (any, error) { is, err := equal(b, args[0], args[1]); return !is, err }},
	"operator <":  comparison(func(c int) bool { return c < 0 }),
	"operator <=": comparison(func(c int) bool { return c <= 0 }),
	"operator >":  comparison(func(c int) bool { return c > 0 }),
	"operator >=": comparison(func(c int) bool { return c >= 0 }),
	"operator in": {2, 2, func(b *budget, args []any) (any, error) { return contains(b, args[1], args[0]) }},

	"operator contains":   textTest(strings.Contains),
	"operator startsWith": textTest(strings.HasPrefix),
	"operator endsWith":   textTest(strings.HasSuffix),
	"operator matches":    {2, 2, matches},
}

func asInt(v any) (int64, bool) {
	switch v := v.(type) {
	case int:
		return int64(v), true
	case int64:
		return v, true
	}
	return 0, false
}

func asFloat(v any) (float64, bool) {
	if f, ok := v.(float64); ok {
		return f, true
	}
	i, ok := asInt(v)
	return float64(i), ok
}

func plus(b *budget, args []any) (any, error) {
	x, ok := args[0].(string)
	y, ok2 := args[1].(string)
	if ok && ok2 {
		return x + y, b.spend(1 + (len(x)+len(y))/64)
	}
	return arithmetic("+", args[0], args[1])
}

func math2(op string) function {
	return function{2, 2, func(_ *budget, args []any) (any, error) { return arithmetic(op, args[0], args[1]) }}
}

// arithmetic computes with two numbers: integers where both are, else floats.
// Division always gives a number, as 5 / 2 is 2.5.
func arithmetic(op string, a, b any) (any, error) {
	x, ok := asInt(a)
	y, ok2 := asInt(b)
	if ok && ok2 && op != "/" {
		return integers(op, x, y)
	}
	f, ok := asFloat(a)
	g, ok2 := asFloat(b)
	if !ok || !ok2 {
		return nil, fail("%s wants two numbers%s, not %s and %s", op, map[bool]string{true: " or two strings"}[op == "+"], describe(a), describe(b))
	}
	if g == 0 && (op == "/" || op == "%") {
		return nil, fail("must not divide by zero")
	}
	var r float64
	switch op {
	case "+":
		r = f + g
	case "-":
		r = f - g
	case "*":
		r = f * g
	case "/":
		r = f / g
	default:
		return nil, fail("%% wants two integers")
	}
	if math.IsInf(r, 0) || math.IsNaN(r) {
		return nil, fail("the result of %s is too large", op)
	}
	return r, nil
}

func integers(op string, x, y int64) (any, error) {
	var r int64
	over := false
	switch op {
	case "+":
		r = x + y
		over = (r > x) != (y > 0) && y != 0
	case "-":
		r = x - y
		over = (r < x) != (y > 0) && y != 0
	case "*":
		r = x * y
		over = x != 0 && (r/x != y || x == -1 && y == math.MinInt64)
	case "%":
		if y == 0 {
			return nil, fail("must not divide by zero")
		}
		if y != -1 { // whose remainder is 0, and which overflows with the least integer
			r = x % y
		}
	}
	if over {
		return nil, fail("the result of %s is too large for an integer of 64 bits", op)
	}
	return integer(r), nil
}

func negated(v any) (any, error) { return arithmetic("-", 0, v) }

// span is a..b: the integers from a to b.
func span(b *budget, args []any) (any, error) {
	from, ok := asInt(args[0])
	to, ok2 := asInt(args[1])
	if !ok || !ok2 {
		return nil, fail(".. wants two integers, not %s and %s", describe(args[0]), describe(args[1]))
	}
	if to < from {
		return []any{}, nil
	}
	if uint64(to)-uint64(from) >= MaxCost { //nolint:gosec // the difference of two integers fits, whatever their signs
		return nil, fail("makes more than %d items", MaxCost)
	}
	n := int(to-from) + 1
	if err := b.spend(n); err != nil {
		return nil, err
	}
	list := make([]any, n)
	for i := range list {
		list[i] = integer(from + int64(i))
	}
	return list, nil
}

// equal compares by value: 1 equals 1.0, and what is of two types is not equal.
func equal(b *budget, x, y any) (bool, error) {
	if err := b.spend(1); err != nil {
		return false, err
	}
	switch x := x.(type) {
	case string:
		y, ok := y.(string)
		return ok && x == y, b.spend(len(x) / 64)
	case []any:
		y, ok := y.([]any)
		if !ok || len(x) != len(y) {
			return false, nil
		}
		for i := range x {
			if is, err := equal(b, x[i], y[i]); !is || err != nil {
				return false, err
			}
		}
		return true, nil
	case map[string]any:
		y, ok := y.(map[string]any)
		if !ok || len(x) != len(y) {
			return false, nil
		}
		for name := range x {
			other, ok := y[name]
			if !ok {
				return false, nil
			}
			if is, err := equal(b, x[name], other); !is || err != nil {
				return false, err
			}
		}
		return true, nil
	}
	return scalarsEqual(x, y), nil
}

func scalarsEqual(x, y any) bool {
	i, ok := asInt(x)
	j, ok2 := asInt(y)
	if ok && ok2 {
		return i == j
	}
	f, ok := asFloat(x)
	g, ok2 := asFloat(y)
	if ok && ok2 {
		return f == g
	}
	switch x.(type) {
	case nil, bool, bigInt:
		switch y.(type) {
		case nil, bool, bigInt:
			return x == y
		}
	}
	return false
}

func comparison(holds func(int) bool) function {
	return function{2, 2, func(b *budget, args []any) (any, error) {
		if s, ok := args[0].(string); ok {
			if err := b.spend(len(s) / 64); err != nil {
				return nil, err
			}
		}
		c, err := compared(args[0], args[1])
		return err == nil && holds(c), err
	}}
}

// compared orders two numbers or two strings.
func compared(x, y any) (int, error) {
	if s, ok := x.(string); ok {
		if t, ok := y.(string); ok {
			return cmp.Compare(s, t), nil
		}
	}
	i, ok := asInt(x)
	j, ok2 := asInt(y)
	if ok && ok2 {
		return cmp.Compare(i, j), nil
	}
	f, ok := asFloat(x)
	g, ok2 := asFloat(y)
	if ok && ok2 {
		return cmp.Compare(f, g), nil
	}
	return 0, fail("%s and %s have no order", describe(x), describe(y))
}

// contains tells whether a list holds the value, or an object a field of that name.
func contains(b *budget, in, v any) (bool, error) {
	switch in := in.(type) {
	case []any:
		for _, item := range in {
			if is, err := equal(b, item, v); is || err != nil {
				return is, err
			}
		}
		return false, nil
	case map[string]any:
		name, ok := v.(string)
		if !ok {
			return false, fail("the name of a field must be a string, not %s", describe(v))
		}
		_, ok = in[name]
		return ok, b.spend(1)
	}
	return false, fail("in wants a list or an object, not %s", describe(in))
}

func textTest(holds func(s, t string) bool) function {
	return function{2, 2, func(b *budget, args []any) (any, error) {
		s, ok := args[0].(string)
		t, ok2 := args[1].(string)
		if !ok || !ok2 {
			return nil, fail("wants two strings, not %s and %s", describe(args[0]), describe(args[1]))
		}
		return holds(s, t), b.spend(1 + (len(s)+len(t))/64)
	}}
}

const maxPattern = 256 // bytes of a regular expression

// matches tests a text against a regular expression. Its time is the product of the
// text's length and of what the expression is compiled to, and that is what it costs.
func matches(b *budget, args []any) (any, error) {
	s, ok := args[0].(string)
	p, ok2 := args[1].(string)
	if !ok || !ok2 {
		return nil, fail("matches wants two strings, not %s and %s", describe(args[0]), describe(args[1]))
	}
	if len(p) > maxPattern {
		return nil, fail("a regular expression must be at most %d bytes long", maxPattern)
	}
	tree, err := syntax.Parse(p, syntax.Perl)
	if err != nil {
		return nil, fail("wants a regular expression: %v", err)
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, fail("wants a regular expression: %v", err)
	}
	if err := b.spend(100 + len(prog.Inst)*(1+len(s)/64)); err != nil {
		return nil, err
	}
	re, err := regexp.Compile(p)
	if err != nil {
		return nil, fail("wants a regular expression: %v", err)
	}
	return re.MatchString(s), nil
}
