package expression

import (
	"errors"
	"fmt"
	"strings"

	"github.com/expr-lang/expr/file"
)

// Pos is a place in an expression's text, counted in characters from 1; the zero
// Pos is the whole.
type Pos struct{ Line, Column int }

// position returns where a character of the text stands.
func position(text string, offset int) Pos {
	p := Pos{Line: 1, Column: 1}
	for i, r := range []rune(text) {
		if i >= offset {
			break
		}
		p.Column++
		if r == '\n' {
			p.Line, p.Column = p.Line+1, 1
		}
	}
	return p
}

// Error says what of an expression breaks which rule.
type Error struct {
	Pos  Pos
	Rule string
}

// Error renders "column 8: rule", with the line where there are several.
func (e *Error) Error() string {
	switch {
	case e.Pos == Pos{}:
		return e.Rule
	case e.Pos.Line > 1:
		return fmt.Sprintf("line %d, column %d: %s", e.Pos.Line, e.Pos.Column, e.Rule)
	}
	return fmt.Sprintf("column %d: %s", e.Pos.Column, e.Rule)
}

// compileError gives an error of the library our form.
func compileError(err error) error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	var f *file.Error
	switch {
	case strings.Contains(err.Error(), "exceeds maximum allowed nodes"):
		return &Error{Rule: fmt.Sprintf("must hold at most %d parts", MaxNodes)}
	case errors.As(err, &f):
		return &Error{Pos: Pos{f.Line, f.Column + 1}, Rule: f.Message}
	}
	first, _, _ := strings.Cut(err.Error(), "\n") // the rest draws the place
	return &Error{Rule: first}
}

// evalError does so for what failed while computing: its text is for who wrote the
// expression, not for who wrote the library.
func evalError(err error) error {
	var f *file.Error
	if !errors.As(err, &f) {
		return &Error{Rule: err.Error()}
	}
	pos := Pos{f.Line, f.Column + 1}
	var own *Error
	if errors.As(f.Prev, &own) {
		return &Error{Pos: pos, Rule: own.Rule}
	}
	rule := f.Message
	switch {
	case strings.HasPrefix(rule, "cannot fetch"):
		rule = noSuch(strings.TrimPrefix(rule, "cannot fetch "))
	case strings.HasPrefix(rule, "memory budget exceeded"):
		rule = "makes more values than one evaluation may hold"
	case strings.HasPrefix(rule, "reflect"), strings.HasPrefix(rule, "runtime error"), strings.Contains(rule, "interface conversion"):
		rule = "a value is not of the type that is wanted here"
	}
	return &Error{Pos: pos, Rule: rule}
}

// noSuch says again what the library says of a field as "x from int".
func noSuch(rule string) string {
	name, from, ok := cutLast(rule, " from ")
	if !ok {
		return rule
	}
	of := map[string]string{
		"<nil>": "null", "int": "an integer", "int64": "an integer", "float64": "a number", "bool": "a bool", "string": "a string",
		"[]interface {}": "a list", "map[string]interface {}": "an object",
	}[from]
	if of == "" {
		of = "what stands here"
	}
	return of + " has no " + name
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
