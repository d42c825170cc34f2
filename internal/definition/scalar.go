package definition

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/axd-project/axd/job"
)

// maxJSON bounds what one document may become as JSON.
const maxJSON = 8 << 20

// scalar returns the text of a node that is one value, as it is written.
func scalar(n ast.Node) (string, bool) {
	switch s := n.(type) {
	case *ast.StringNode:
		return s.Value, true
	case *ast.LiteralNode:
		return s.Value.Value, true
	case *ast.NullNode:
		return "", false
	case *ast.MergeKeyNode:
		return "<<", true
	case *ast.MappingKeyNode:
		return scalar(s.Value)
	case ast.ScalarNode:
		return s.GetToken().Value, true
	}
	return "", false
}

func isNull(n ast.Node) bool {
	_, null := n.(*ast.NullNode)
	return null
}

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// numeral returns the number that a node is, in JSON's grammar. The letters that
// are written stay, so that no digit is lost.
func numeral(n ast.Node) (string, bool) {
	switch s := n.(type) {
	case *ast.IntegerNode:
		if text := s.Token.Value; jsonNumber.MatchString(text) {
			return text, true
		}
		return fmt.Sprint(s.Value), true // hexadecimal and the like
	case *ast.FloatNode:
		if text := s.Token.Value; jsonNumber.MatchString(text) {
			return text, true
		}
		return strconv.FormatFloat(s.Value, 'g', -1, 64), true
	case *ast.StringNode: // past the range of the parser's numbers
		if s.Token != nil && s.Token.Type == token.StringType && jsonNumber.MatchString(s.Value) {
			return s.Value, true
		}
	}
	return "", false
}

// json appends a node as JSON.
func (d *decoder) json(n ast.Node, path string, to []byte) ([]byte, *fault) {
	n, f := d.resolve(n, path)
	if f != nil {
		return nil, f
	}
	if len(to) > maxJSON {
		return nil, faultAt(n, path, "must be at most 8 MiB as JSON", "")
	}
	d.depth++
	defer func() { d.depth-- }()
	switch s := n.(type) {
	case *ast.NullNode:
		return append(to, "null"...), nil
	case *ast.BoolNode:
		return strconv.AppendBool(to, s.Value), nil
	case *ast.SequenceNode:
		to = append(to, '[')
		for i, value := range s.Values {
			if i > 0 {
				to = append(to, ',')
			}
			if to, f = d.json(value, path, to); f != nil {
				return nil, f
			}
		}
		return append(to, ']'), nil
	case *ast.MappingNode, *ast.MappingValueNode:
		return d.jsonObject(n, path, to)
	}
	if number, ok := numeral(n); ok {
		return append(to, number...), nil
	}
	text, ok := scalar(n)
	switch n.(type) {
	case *ast.InfinityNode, *ast.NanNode:
		ok = false
	}
	if !ok {
		return nil, faultAt(n, path, "must be a value that JSON knows", "")
	}
	return append(to, quote(text)...), nil
}

func (d *decoder) jsonObject(n ast.Node, path string, to []byte) ([]byte, *fault) {
	to = append(to, '{')
	seen := map[string]bool{}
	f := d.members(n, path, func(key string, at, value ast.Node) (f *fault) {
		if seen[key] {
			return faultAt(at, join(path, place(key)), "must appear once", "")
		}
		if len(seen) > 0 {
			to = append(to, ',')
		}
		seen[key] = true
		to = append(append(to, quote(key)...), ':')
		to, f = d.json(value, join(path, place(key)), to)
		return f
	})
	if f != nil {
		return nil, f
	}
	return append(to, '}'), nil
}

// quote writes a text as a JSON string.
func quote(s string) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return []byte(job.Shorten(s)) // a string always encodes
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}
