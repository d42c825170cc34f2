package expression

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

const (
	opens  = "${{"
	closes = "}}"
	// MaxExpressions is how many expressions one template may hold.
	MaxExpressions = 200
)

// Template is a JSON text whose strings may hold ${{ expression }}. A string that is
// one expression and nothing else becomes that expression's value, of whatever type;
// in the middle of a string a value stands as text. All other bytes stay as they are.
type Template struct {
	parts  []part
	holdsN int // expressions
}

// part is a piece of the text as it is, or a string made of expressions.
type part struct {
	raw    []byte
	pieces []piece // of one JSON string; nil: raw
	path   string  // of that string in the document: "mail.to[0]"
}

// piece is a text as it is, or an expression.
type piece struct {
	text string
	expr *Expr
}

// Holds tells whether a JSON text may hold expressions.
func Holds(text []byte) bool { return bytes.Contains(text, []byte(opens)) }

// CompileTemplate reads a template. Its errors name the path within the document.
func CompileTemplate(text []byte, roots ...string) (*Template, error) {
	t := &Template{}
	if !Holds(text) {
		t.parts = []part{{raw: text}}
		return t, nil
	}
	w := &walk{text: text, d: json.NewDecoder(bytes.NewReader(text)), roots: roots, made: t}
	w.d.UseNumber()
	if err := w.value("", 0); err != nil {
		return nil, err
	}
	t.parts = append(t.parts, part{raw: text[w.done:]})
	return t, nil
}

// Refs returns what the template's expressions read, each with the path of its string.
func (t *Template) Refs() []TemplateRef {
	var refs []TemplateRef
	for _, p := range t.parts {
		for _, piece := range p.pieces {
			if piece.expr == nil {
				continue
			}
			for _, r := range piece.expr.Refs() {
				refs = append(refs, TemplateRef{Ref: r, Path: p.path, Text: piece.expr.String()})
			}
		}
	}
	return refs
}

// TemplateRef is a Ref with where in the document it stands.
type TemplateRef struct {
	Ref
	Path string // "mail.to[0]"
	Text string // of the expression
}

// TemplateError is an Error with where in the document it stands.
type TemplateError struct {
	Path string
	Text string // of the expression
	Err  error
}

// Error renders "mail.to[0]: column 3: rule".
func (e *TemplateError) Error() string {
	if e.Path == "" {
		return e.Err.Error()
	}
	return e.Path + ": " + e.Err.Error()
}

// Unwrap returns the *Error within.
func (e *TemplateError) Unwrap() error { return e.Err }

// maxDepth is how deep a template may nest.
const maxDepth = 100

// walk goes through a JSON text and notes its strings that hold expressions.
type walk struct {
	text  []byte
	d     *json.Decoder
	roots []string
	made  *Template
	done  int // bytes of the text that are in the template
}

func (w *walk) fail(path, text, format string, args ...any) error {
	return &TemplateError{Path: path, Text: text, Err: &Error{Rule: fmt.Sprintf(format, args...)}}
}

func (w *walk) token(path string) (json.Token, error) {
	t, err := w.d.Token()
	if err != nil {
		return nil, w.fail(path, "", "must be JSON: %v", err)
	}
	return t, nil
}

func (w *walk) value(path string, depth int) error {
	if depth > maxDepth {
		return w.fail(path, "", "must nest at most %d deep", maxDepth)
	}
	from := w.d.InputOffset()
	t, err := w.token(path)
	if err != nil {
		return err
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '[' {
			for i := 0; w.d.More() && err == nil; i++ {
				err = w.value(fmt.Sprintf("%s[%d]", path, i), depth+1)
			}
		} else {
			for w.d.More() && err == nil {
				err = w.field(path, depth)
			}
		}
		if err == nil {
			_, err = w.token(path) // what closes it
		}
		return err
	case string:
		if strings.Contains(t, opens) {
			return w.template(path, t, int(from))
		}
	}
	return nil
}

func (w *walk) field(path string, depth int) error {
	t, err := w.token(path)
	if err != nil {
		return err
	}
	name, ok := t.(string)
	if !ok {
		return w.fail(path, "", "must be JSON")
	}
	if path != "" {
		path += "."
	}
	if strings.Contains(name, opens) {
		return w.fail(path+name, "", "the name of a field must not hold an expression")
	}
	return w.value(path+name, depth+1)
}

// template adds a string, which ends where the decoder is and begins at the first
// quote after where it was.
func (w *walk) template(path, s string, from int) error {
	pieces, err := w.pieces(path, s)
	if err != nil {
		return err
	}
	from += bytes.IndexByte(w.text[from:], '"')
	w.made.parts = append(w.made.parts, part{raw: w.text[w.done:from]}, part{pieces: pieces, path: path})
	w.done = int(w.d.InputOffset())
	return nil
}

func (w *walk) pieces(path, s string) ([]piece, error) {
	var pieces []piece
	for {
		before, rest, found := strings.Cut(s, opens)
		if before != "" {
			pieces = append(pieces, piece{text: before})
		}
		if !found {
			return pieces, nil
		}
		n := end(rest)
		if n < 0 {
			return nil, w.fail(path, rest, "%s is never closed by %s", opens, closes)
		}
		if w.made.holdsN++; w.made.holdsN > MaxExpressions {
			return nil, w.fail(path, "", "must hold at most %d expressions", MaxExpressions)
		}
		expr, err := Compile(strings.TrimSpace(rest[:n]), w.roots...)
		if err != nil {
			return nil, &TemplateError{Path: path, Text: strings.TrimSpace(rest[:n]), Err: err}
		}
		pieces = append(pieces, piece{expr: expr})
		s = rest[n+len(closes):]
	}
}

// end returns where the closing braces of an expression are: not those of an object
// or of a text within it.
func end(s string) int {
	depth := 0
	var quote byte
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0:
			if c == '\\' && quote != '`' {
				i++
			} else if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'' || c == '`':
			quote = c
		case c == '{':
			depth++
		case c == '}' && depth > 0:
			depth--
		case c == '}' && strings.HasPrefix(s[i:], closes):
			return i
		}
	}
	return -1
}

// Render computes the template, within the cost of one evaluation. Its errors are of
// type *TemplateError.
func (t *Template) Render(env Env) ([]byte, error) {
	b := &budget{left: MaxCost}
	var made []byte
	for _, p := range t.parts {
		if p.pieces == nil {
			made = append(made, p.raw...)
			continue
		}
		var err error
		if made, err = p.render(made, env, b); err != nil {
			return nil, err
		}
	}
	return made, nil
}

func (p part) render(to []byte, env Env, b *budget) ([]byte, error) {
	var s strings.Builder
	for _, piece := range p.pieces {
		if piece.expr == nil {
			s.WriteString(piece.text)
			continue
		}
		v, err := piece.expr.eval(env, b)
		if err == nil && len(p.pieces) == 1 {
			var made []byte
			if made, err = appendJSON(to, v); err == nil {
				return made, nil
			}
		}
		var inText string
		if err == nil {
			inText, err = text(v)
		}
		if err != nil {
			return nil, &TemplateError{Path: p.path, Text: piece.expr.String(), Err: err}
		}
		s.WriteString(inText)
	}
	return appendString(to, s.String()), nil
}
