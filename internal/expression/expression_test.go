package expression

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
)

func env(t testing.TB) Env {
	t.Helper()
	e := Env{}
	for root, text := range map[string]string{
		"params": `{"day":"mon","n":3,"big":9007199254740993,"huge":18446744073709551616,"f":1.5,"list":[3,1,2],"o":{"a":1,"b":[true]},"no":null,"html":"<a&b>"}`,
		"steps":  `{"extract":{"output":{"files":["a.csv","b.csv"],"ok":true},"state":"success","exit_code":0},"a-b":{"output":7}}`,
		"item":   `{"id":9223372036854775807}`,
	} {
		v, err := FromJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		e[root] = v
	}
	return e
}

var roots = []string{"params", "steps", "item"}

func TestValues(t *testing.T) {
	e := env(t)
	for _, c := range []struct{ text, want string }{
		{`params.day`, `"mon"`},
		{`params.day != "sun" && steps.extract.output.ok`, `true`},
		{`params["day"] == 'mon' or false`, `true`},
		{`params.n + 1`, `4`},
		{`params.n / 2`, `1.5`},
		{`-params.n % 2`, `-1`},
		{`params.big`, `9007199254740993`},
		{`params.big + 1`, `9007199254740994`},
		{`params.big == 9007199254740992`, `false`},
		{`params.huge`, `18446744073709551616`},
		{`params.huge == params.huge`, `true`},
		{`[params.huge, item.id]`, `[18446744073709551616,9223372036854775807]`},
		{`item.id`, `9223372036854775807`},
		{`item.id - 1`, `9223372036854775806`},
		{`item.id > 9223372036854775806`, `true`},
		{`params.f * 2`, `3`},
		{`1 == 1.0`, `true`},
		{`params.o == {"b": [true], "a": 1}`, `true`},
		{`params.list == [3, 1]`, `false`},
		{`params.no`, `null`},
		{`params.missing ?? "x"`, `"x"`},
		{`params.missing?.deep ?? 4`, `4`},
		{`params.no == nil`, `true`},
		{`steps["a-b"].output`, `7`},
		{`steps.extract.output.files[-1]`, `"b.csv"`},
		{`params.list[1:]`, `[1,2]`},
		{`"mon" in ["sat", "mon"]`, `true`},
		{`"a" in params.o and "z" not in params.o`, `true`},
		{`params.day startsWith "m" ? "yes" : "no"`, `"yes"`},
		{`if params.n > 2 { "many" } else { "few" }`, `"many"`},
		{`params.day matches "^m.n$"`, `true`},
		{`filter(params.list, # > 1)`, `[3,2]`},
		{`map(params.list, ({"i": #index, "v": # * 10}))`, `[{"i":0,"v":30},{"i":1,"v":10},{"i":2,"v":20}]`},
		{`all(params.list, # > 0) && any(params.list, # == 3) && none(params.list, # > 3) && one(params.list, # == 2)`, `true`},
		{`count(params.list, # > 1) + findIndex(params.list, # == 2) + find(params.list, # < 2)`, `5`},
		{`reduce(params.list, #acc + #, 10)`, `16`},
		{`params.list | map(# + 1) | filter(# > 2)`, `[4,3]`},
		{`let n = params.n; n * n`, `9`},
		{`1..4`, `[1,2,3,4]`},
		{`map(1..3, # * 2)`, `[2,4,6]`},
		{`3..1`, `[]`},
		{`len("äö") + len(params.list) + len(params.o)`, `7`},
		{`sort(params.list)`, `[1,2,3]`},
		{`reverse(sort(params.list))`, `[3,2,1]`},
		{`params.list`, `[3,1,2]`}, // what sort and reverse were given stays as it was
		{`min(params.list) + max(1, 5)`, `6`},
		{`sum(params.list)`, `6`},
		{`first(params.list) + last(params.list)`, `5`},
		{`first([])`, `null`},
		{`uniq([1, 1.0, "1", nil, nil])`, `[1,"1",null]`},
		{`flatten([1, [2, [3]]])`, `[1,2,3]`},
		{`concat([1], params.list)`, `[1,3,1,2]`},
		{`keys(params.o)`, `["a","b"]`},
		{`values(params.o)`, `[1,[true]]`},
		{`join(["a", 1, true], "-")`, `"a-1-true"`},
		{`split("a,b", ",")`, `["a","b"]`},
		{`replace(upper(trim(" a b ")), " ", "_") + lower("X")`, `"A_Bx"`},
		{`int("42") + int(3.0)`, `45`},
		{`string(params.big) + string(1.5)`, `"90071992547409931.5"`},
		{`float("1.5") + float(1)`, `2.5`},
		{`[floor(1.5), ceil(1.2), round(1.5), abs(-3), abs(-1.5), round(7)]`, `[1,2,2,3,1.5,7]`},
		{`[type(1), type(1.5), type(""), type(nil), type([]), type({}), type(true), type(params.huge)]`,
			`["int","number","string","null","list","object","bool","int"]`},
		{`toJSON(params.o)`, `"{\"a\":1,\"b\":[true]}"`},
		{`fromJSON("{\"a\": 9007199254740993}").a`, `9007199254740993`},
		{`params.html`, `"<a&b>"`},
		{"`a\\b`", `"a\\b"`},
	} {
		x, err := Compile(c.text, roots...)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		v, err := x.Eval(e)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if got, err := ToJSON(v); string(got) != c.want || err != nil {
			t.Errorf("%s: got %s, want %s (%v)", c.text, got, c.want, err)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{``, `must not be empty`},
		{strings.Repeat("1", MaxText+1), `must be at most 4096 bytes long`},
		{"\"\xff\"", `must be UTF-8`},
		{`params.day ==`, `column 13: unexpected token EOF`},
		{`prams.day`, `column 1: unknown name "prams": here may stand params, steps, item`},
		{"true &&\n nope", `line 2, column 2: unknown name "nope"`},
		{`now()`, `column 1: unknown function "now"`},
		{`1 + rand()`, `column 5: unknown function "rand"`},
		{`repeat("a", 5)`, `unknown function "repeat"`},
		{`sortBy(params.list, #)`, `unknown function "sortBy"`},
		{`$env`, `unknown name "$env"`},
		{`len`, `len is a function: it must be called`},
		{`len(1, 2)`, `column 1: len takes 1 argument (got 2)`},
		{`params.day.foo()`, `only functions may be called`},
		{`2 ** 3`, `unknown operator "**"`},
		{`let params = 1; params`, `let must not name params`},
		{`let x = 1; 2 + y`, `unknown name "y"`},
		{`1; 2`, `must be one expression`},
		{`b"ab"`, `must not hold`},
		{"[" + strings.Repeat("1,", MaxNodes) + "1]", `must hold at most 1000 parts`},
		{strings.Repeat("(", 2000) + "1" + strings.Repeat(")", 2000), ``},
	} {
		_, err := Compile(c.text, roots...)
		if c.want == "" {
			continue // it must come back at all
		}
		var own *Error
		if !errors.As(err, &own) || !strings.HasPrefix(err.Error(), c.want) && !strings.Contains(err.Error(), ": "+c.want) {
			t.Errorf("%.40q: got %v, want %q", c.text, err, c.want)
		}
	}
}

func TestFailures(t *testing.T) {
	e := env(t)
	for _, c := range []struct{ text, want string }{
		{`item.id + 1`, `column 9: the result of + is too large for an integer of 64 bits`},
		{`-item.id - 2`, `the result of - is too large`},
		{`item.id * 2`, `the result of * is too large`},
		{`params.huge + 1`, `wants two numbers or two strings, not an integer too large to compute with and an integer`},
		{`1 / 0`, `must not divide by zero`},
		{`1 % 0`, `must not divide by zero`},
		{`params.day + 1`, `not a string and an integer`},
		{`params.day && true`, `column 8: must be true or false, not a string`},
		{`params.n ? 1 : 2`, `must be true or false, not an integer`},
		{`!params.n`, `must be true or false`},
		{`filter(params.list, #)`, `must be true or false, not an integer`},
		{`map(params.day, #)`, `must be a list, not a string`},
		{`params.missing.deep`, `null has no deep`},
		{`params.list[7]`, `index out of range: 7`},
		{`params.list["x"]`, `column 12: `},
		{`params.o[1]`, `not of the type that is wanted`},
		{`1 < "a"`, `an integer and a string have no order`},
		{`sort([1, "a"])`, `have no order`},
		{`"a" matches "("`, `wants a regular expression`},
		{`int("x")`, `int wants the digits of an integer (got "x")`},
		{`fromJSON("{")`, `fromJSON wants one JSON value`},
		{`string(nil)`, `null has no text`},
		{`sum(["a"])`, `sum wants numbers`},
	} {
		x, err := Compile(c.text, roots...)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		v, err := x.Eval(e)
		var own *Error
		if !errors.As(err, &own) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, %v, want %q", c.text, v, err, c.want)
		}
	}
	if _, err := must(t, `params.n`).EvalBool(e); err == nil || err.Error() != "must be true or false, not an integer" {
		t.Error(err)
	}
	if _, err := must(t, `params.n`).EvalList(e); err == nil || err.Error() != "must be a list, not an integer" {
		t.Error(err)
	}
}

func must(t testing.TB, text string) *Expr {
	t.Helper()
	x, err := Compile(text, roots...)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return x
}

// Whatever a text asks for, an evaluation ends soon and with an error that says why.
func TestCostIsBounded(t *testing.T) {
	long, many := strings.Repeat("a", 200_000), make([]any, 50_000)
	for i := range many {
		many[i] = i
	}
	e := Env{"params": map[string]any{"text": long, "list": many}}
	doubled := "let a = [1, 1]; "
	for _, v := range "bcdefghijklmnopqrst" {
		doubled += "let " + string(v) + " = [" + string(v-1) + ", " + string(v-1) + "]; "
	}
	for name, text := range map[string]string{
		"nested loops":    `all(1..1000, all(1..1000, all(1..1000, true)))`,
		"loops of a list": `count(params.list, count(params.list, true) > 0)`,
		"growing text":    `reduce(1..200, #acc + #acc, "xxxx")`,
		"growing list":    `reduce(1..200, concat(#acc, #acc), [1])`,
		"replace":         `replace(params.text, "a", params.text)`,
		"join":            `join(params.list, params.text)`,
		"range":           `1..100000000000`,
		"expression":      `params.text matches "(a*)*(a*)*(a*)*b{900}$"`,
		"uniq":            `uniq(params.list)`,
		"shared parts":    doubled + "flatten(t)",
		"shared result":   doubled + "t",
		"same text":       `map(1..5000, params.text)`,
		"big bodies":      `map(1..5000, [` + strings.Repeat("#,", 500) + `1])`,
		"looking often":   `all(1..1000, params.text contains "b" == false)`,
		"deep look":       `map(1..1000, toJSON(params.list) != "")`,
		"a map of ranges": `map(1..1000, 1..1000)`,
	} {
		x := must(t, text)
		start := time.Now()
		v, err := x.Eval(e)
		var own *Error
		if !errors.As(err, &own) || !strings.Contains(own.Rule, "costs more") && !strings.Contains(own.Rule, "more values") &&
			!strings.Contains(own.Rule, "makes more than") {
			t.Errorf("%s: got %.80v, %v", name, v, err)
		}
		if took := time.Since(start); took > 5*time.Second { // some 20 ms; a runaway takes minutes
			t.Errorf("%s: took %v", name, took)
		}
	}
}

func TestRefs(t *testing.T) {
	x := must(t, `params.day == "x" && steps.extract.output.ok and steps["a-b"].state == "failed" or len(params) > item`)
	var got []string
	for _, r := range x.Refs() {
		got = append(got, r.Root+"/"+r.Name+"/"+r.Field)
	}
	if s, want := strings.Join(got, " "), "params/day/ steps/extract/output steps/a-b/state params// item//"; s != want {
		t.Errorf("got %s, want %s", s, want)
	}
	if p := x.Refs()[1].Pos; p != (Pos{1, 22}) {
		t.Errorf("second stands at %v", p)
	}
	for text, want := range map[string]string{
		`steps[params.day].output`:      "steps// params/day/", // a name that is computed is no name
		`params[steps.a.output]`:        "params// steps/a/output",
		`(true ? params : item).x`:      "params// item//",
		`params?.day?.x`:                "params/day/x",
		`map(params.list, .steps)`:      "params/list/",
		`let steps2 = params; steps2.x`: "params//",
	} {
		var got []string
		for _, r := range must(t, text).Refs() {
			got = append(got, r.Root+"/"+r.Name+"/"+r.Field)
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: got %s, want %s", text, s, want)
		}
	}
}

func TestOneExpressionForMany(t *testing.T) {
	x := must(t, `sum(map(params.list, # * 2)) == 12`)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if is, err := x.EvalBool(env(t)); !is || err != nil {
					t.Error(is, err)
				}
			}
		})
	}
	wg.Wait()
}

func FuzzCompile(f *testing.F) {
	for _, s := range []string{
		`params.day != "sun" && steps.extract.output.ok`, `map(1..3, # * 2) | filter(# > 1)`, `let a = 1; a + params.n`,
		`reduce(params.list, #acc + #, 0)`, `params?.a ?? [1, {"b": 2}]`, `if true { 1 } else { 2 }`, `"a" matches "[a-z]+"`,
		`steps["a-b"].output[1:2]`, `not (1 in 2..3)`, `1e400`, `toJSON(fromJSON("1e999"))`, `0x7fffffffffffffff + 1`,
		`all(params.list, {let x = #; x > 1})`, "params.\n day", `item.id.x()`, `-9223372036854775808`, `params.list[9:1]`,
	} {
		f.Add(s)
	}
	e := env(f)
	f.Fuzz(func(t *testing.T, text string) {
		x, err := Compile(text, roots...)
		var own *Error
		if err != nil {
			if !errors.As(err, &own) {
				t.Fatalf("%q: %T %v", text, err, err)
			}
			return
		}
		v, err := x.Eval(e)
		if err != nil {
			if !errors.As(err, &own) {
				t.Fatalf("%q: %T %v", text, err, err)
			}
			return
		}
		if j, err := ToJSON(v); err == nil {
			if _, err := FromJSON(j); err != nil {
				t.Fatalf("%q gives %s, which is no JSON: %v", text, j, err)
			}
		}
	})
}
