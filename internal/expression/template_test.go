package expression

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestTemplates(t *testing.T) {
	e := env(t)
	for _, c := range []struct{ text, want string }{
		{`{"a": 18446744073709551617, "a":1.10 , "b":"plain"}`, `{"a": 18446744073709551617, "a":1.10 , "b":"plain"}`},
		{`"${{ params.n }}"`, `3`},
		{`{"n": "${{ params.big }}", "x": 1.10}`, `{"n": 9007199254740993, "x": 1.10}`},
		{`["${{ params.huge }}","${{params.list}}" , {"o":"${{ params.o }}"}]`, `[18446744073709551616,[3,1,2] , {"o":{"a":1,"b":[true]}}]`},
		{`"day ${{ params.day }}, n ${{ params.n + 1 }}${{ params.html }}"`, `"day mon, n 4<a&b>"`},
		{`"list: ${{ params.list }}"`, `"list: [3,1,2]"`},
		{`"${{ {"a": {"b": 1}} }}"`, ``},
		{`"${{ {\"a\": {\"b\": 1}} }}"`, `{"a":{"b":1}}`},
		{`"${{ \"}}\" }}x"`, `"}}x"`},
		{`"$${{ '${{' }} }}"`, `"$${{ }}"`},
		{`"\u0024{{ params.n }}"`, `"\u0024{{ params.n }}"`},
		{`{"u\u0000": "\u0001", "v": "${{ params.day }}\n\"\\"}`, `{"u\u0000": "\u0001", "v": "mon\n\"\\"}`},
		{`null`, `null`},
	} {
		tmpl, err := CompileTemplate([]byte(c.text), roots...)
		if c.want == "" {
			if err == nil {
				t.Errorf("accepted %s", c.text)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if got, err := tmpl.Render(e); string(got) != c.want || err != nil {
			t.Errorf("%s: got %s, want %s (%v)", c.text, got, c.want, err)
		}
	}
}

func TestTemplateErrors(t *testing.T) {
	e := env(t)
	for _, c := range []struct{ text, path, want string }{
		{`{"mail": {"to": ["x", "${{ nope }}"]}}`, "mail.to[1]", `mail.to[1]: column 1: unknown name "nope"`},
		{`{"a": "${{ params.n"}`, "a", `a: ${{ is never closed by }}`},
		{`{"${{ params.n }}": 1}`, "${{ params.n }}", `the name of a field must not hold an expression`},
		{`["${{ }}"]`, "[0]", `[0]: must not be empty`},
		{`{"a": "x${{ params.no }}"}`, "a", `a: null has no text`},
		{`{"a": "${{ params.n + params.day }}"}`, "a", `a: column 10: + wants two numbers`},
		{strings.Repeat("[", 200) + `"${{ 1 }}"` + strings.Repeat("]", 200), "", `must nest at most 100 deep`},
		{`[` + strings.Repeat(`"${{ 1 }}",`, MaxExpressions) + `"${{ 1 }}"]`, "[200]", `must hold at most 200 expressions`},
		{`{"a": "${{ map(1..100000, 1) }}", "b": "${{ map(1..100000, 1) }}"}`, "a", `costs more`},
	} {
		tmpl, err := CompileTemplate([]byte(c.text), roots...)
		if err == nil {
			_, err = tmpl.Render(e)
		}
		var own *TemplateError
		if !errors.As(err, &own) || !strings.Contains(err.Error(), c.want) || c.path != "" && own.Path != c.path {
			t.Errorf("%.60s: got %v, want %q", c.text, err, c.want)
		}
	}
}

func TestTemplateRefs(t *testing.T) {
	tmpl, err := CompileTemplate([]byte(`{"a": ["${{ params.n }}"], "b": "x ${{ steps.extract.state }} ${{ item }}"}`), roots...)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range tmpl.Refs() {
		got = append(got, r.Path+" "+r.Root+"/"+r.Name+"/"+r.Field)
	}
	if s, want := strings.Join(got, ", "), "a[0] params/n/, b steps/extract/state, b item//"; s != want {
		t.Errorf("got %s, want %s", s, want)
	}
}

func FuzzTemplate(f *testing.F) {
	for _, s := range []string{`{"a": "${{ params.n }} x", "b": [1, "${{ params.list }}"]}`, `"${{ '}}' }}"`, `["${{"]`, `{"${{": 1}`, `"\ud800${{ params.day }}"`} {
		f.Add(s)
	}
	e := env(f)
	f.Fuzz(func(t *testing.T, text string) {
		tmpl, err := CompileTemplate([]byte(text), roots...)
		if err != nil {
			return
		}
		got, err := tmpl.Render(e)
		if err == nil && json.Valid([]byte(text)) && !json.Valid(got) {
			t.Fatalf("%q became %q", text, got)
		}
	})
}
