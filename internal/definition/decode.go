package definition

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/axd-project/axd/job"
)

// The limits of one document. Aliases can name the same node many times, so what
// is counted is what is read, not what is written.
const (
	maxNodes = 500_000
	maxDepth = 200
)

// decoder reads one document into a Go value by the names of its JSON tags. A
// json.RawMessage keeps its numbers as they are written; a text may be written as a
// number or a boolean, which keeps its letters.
type decoder struct {
	before  int            // lines of the file above what the parser was given
	lines   map[string]int // of each field, by its path
	anchors map[string]ast.Node
	heads   []string // fields of the document that were read before
	nodes   int
	depth   int
}

func newDecoder(before int) *decoder {
	return &decoder{before: before, lines: map[string]int{}, anchors: map[string]ast.Node{}}
}

// fault is an error with the line that it is about.
type fault struct {
	line int
	err  *job.Error
}

func faultAt(n ast.Node, path, rule, value string) *fault {
	return &fault{line: lineOf(n), err: job.Invalid(path, rule, value)}
}

func lineOf(n ast.Node) int {
	switch m := n.(type) {
	case *ast.MappingValueNode: // its own token is the colon
		return lineOf(m.Key)
	case *ast.MappingNode:
		if len(m.Values) > 0 {
			return lineOf(m.Values[0])
		}
	case *ast.MappingKeyNode:
		return lineOf(m.Value)
	}
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return 0
	}
	return n.GetToken().Position.Line
}

var (
	rawType  = reflect.TypeFor[json.RawMessage]()
	textType = reflect.TypeFor[encoding.TextUnmarshaler]()
	jsonType = reflect.TypeFor[json.Unmarshaler]()
)

// value reads a node into v.
func (d *decoder) value(n ast.Node, v reflect.Value, path string) *fault {
	n, f := d.resolve(n, path)
	if f != nil {
		return f
	}
	d.depth++
	defer func() { d.depth-- }()
	t := v.Type()
	switch {
	case t == rawType:
		raw, f := d.json(n, path, nil)
		if f == nil {
			v.SetBytes(raw)
		}
		return f
	case t.Kind() == reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		return d.value(n, v.Elem(), path)
	case v.CanAddr() && (v.Addr().Type().Implements(textType) || v.Addr().Type().Implements(jsonType)):
		return d.own(n, v, path)
	}
	switch t.Kind() {
	case reflect.Struct:
		return d.structure(n, v, path)
	case reflect.Map:
		return d.mapping(n, v, path)
	case reflect.Slice:
		return d.list(n, v, path)
	case reflect.String:
		text, ok := scalar(n)
		if !ok {
			return faultAt(n, path, "must be a text", "")
		}
		v.SetString(text)
		return nil
	case reflect.Interface:
		raw, f := d.json(n, path, nil)
		if f == nil {
			v.Set(reflect.ValueOf(json.RawMessage(raw)))
		}
		return f
	case reflect.Bool:
		if b, ok := n.(*ast.BoolNode); ok {
			v.SetBool(b.Value)
			return nil
		}
		return d.wrong(n, path, "must be true or false")
	}
	return d.number(n, v, path)
}

// resolve follows anchors, aliases and tags, and counts what is read.
func (d *decoder) resolve(n ast.Node, path string) (ast.Node, *fault) {
	for {
		if d.nodes++; d.nodes > maxNodes {
			return nil, faultAt(n, path, "a document must hold at most "+strconv.Itoa(maxNodes)+" values, aliases counted as often as they are used", "")
		}
		if d.depth > maxDepth {
			return nil, faultAt(n, path, "must be nested at most "+strconv.Itoa(maxDepth)+" deep", "")
		}
		switch m := n.(type) {
		case *ast.AnchorNode:
			d.anchors[m.Name.String()] = m.Value
			n = m.Value
		case *ast.AliasNode:
			target, ok := d.anchors[m.Value.String()]
			if !ok {
				return nil, faultAt(n, path, "must be the alias of an anchor before it", m.Value.String())
			}
			n = target
		case *ast.TagNode:
			switch tag := token.ReservedTagKeyword(m.Start.Value); tag {
			case token.StringTag, token.IntegerTag, token.FloatTag, token.BooleanTag, token.NullTag, token.MappingTag, token.SequenceTag:
				n = m.Value
				if text, ok := scalar(n); ok && tag == token.StringTag {
					return &ast.StringNode{BaseNode: &ast.BaseNode{}, Token: n.GetToken(), Value: text}, nil
				}
			default:
				return nil, faultAt(n, path, "must have no tag", m.Start.Value)
			}
		case nil:
			return nil, &fault{err: job.Invalid(path, "must have a value", "")}
		default:
			return n, nil
		}
	}
}

// own lets a type read itself: from a scalar's text where it can, else from JSON.
func (d *decoder) own(n ast.Node, v reflect.Value, path string) *fault {
	target := v.Addr().Interface()
	text, isScalar := scalar(n)
	var err error
	if u, ok := target.(encoding.TextUnmarshaler); ok && isScalar {
		err = u.UnmarshalText([]byte(text))
	} else if u, ok := target.(json.Unmarshaler); ok {
		raw, f := d.json(n, path, nil)
		if f != nil {
			return f
		}
		err = u.UnmarshalJSON(raw)
	} else {
		return faultAt(n, path, "must be one value", "")
	}
	if err == nil {
		return nil
	}
	e := *job.AsError(err)
	e.Code, e.Field = job.CodeInvalid, path
	return &fault{line: lineOf(n), err: &e}
}

func (d *decoder) structure(n ast.Node, v reflect.Value, path string) *fault {
	fields := fieldsOf(v.Type())
	return d.members(n, path, func(key string, at, value ast.Node) *fault {
		if path == "" && slices.Contains(d.heads, key) {
			return nil
		}
		here := join(path, place(key))
		index, known := fields[key]
		if !known {
			return d.unknown(at, here, key, fields)
		}
		if _, doubled := d.lines[here]; doubled {
			return faultAt(at, here, "must appear once", "")
		}
		d.lines[here] = d.before + lineOf(at)
		if isNull(value) && v.FieldByIndex(index).Type() != rawType {
			return nil
		}
		return d.value(value, v.FieldByIndex(index), here)
	})
}

func (d *decoder) unknown(at ast.Node, path, key string, fields map[string][]int) *fault {
	rule := "is not a field that axd knows here"
	for known := range fields {
		if strings.EqualFold(known, key) {
			rule += "; it is written " + known
		}
	}
	return faultAt(at, path, rule, "")
}

func (d *decoder) mapping(n ast.Node, v reflect.Value, path string) *fault {
	v.Set(reflect.MakeMap(v.Type()))
	return d.members(n, path, func(key string, at, value ast.Node) *fault {
		here := path + "[" + job.Shorten(key) + "]"
		k := reflect.ValueOf(key).Convert(v.Type().Key())
		if v.MapIndex(k).IsValid() {
			return faultAt(at, here, "must appear once", "")
		}
		d.lines[here] = d.before + lineOf(at)
		if isNull(value) && v.Type().Elem() != rawType {
			return faultAt(at, here, `must have a value; an empty text is ""`, "")
		}
		elem := reflect.New(v.Type().Elem()).Elem()
		if f := d.value(value, elem, here); f != nil {
			return f
		}
		v.SetMapIndex(k, elem)
		return nil
	})
}

func (d *decoder) list(n ast.Node, v reflect.Value, path string) *fault {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		return d.wrong(n, path, "must be a list")
	}
	v.Set(reflect.MakeSlice(v.Type(), len(seq.Values), len(seq.Values)))
	for i, value := range seq.Values {
		here := path + "[" + strconv.Itoa(i) + "]"
		d.lines[here] = d.before + lineOf(value)
		if isNull(value) && v.Type().Elem() != rawType {
			return faultAt(value, here, `must have a value; an empty text is ""`, "")
		}
		if f := d.value(value, v.Index(i), here); f != nil {
			return f
		}
	}
	return nil
}

func (d *decoder) number(n ast.Node, v reflect.Value, path string) *fault {
	rule := "must be a whole number"
	if v.CanFloat() {
		rule = "must be a number"
	}
	if strings.HasSuffix(path, "limits.memory") {
		rule += " of bytes, such as 67108864 for 64 MiB"
	}
	text, plain := numeral(n)
	if !plain {
		return d.wrong(n, path, rule)
	}
	var err error
	switch bits := v.Type().Bits(); {
	case v.CanInt():
		var i int64
		i, err = strconv.ParseInt(text, 10, bits)
		v.SetInt(i)
	case v.CanUint():
		var u uint64
		u, err = strconv.ParseUint(text, 10, bits)
		v.SetUint(u)
	default:
		var x float64
		x, err = strconv.ParseFloat(text, bits)
		v.SetFloat(x)
	}
	if err != nil {
		return faultAt(n, path, rule+" within its range", text)
	}
	return nil
}

// wrong is the fault of a value of another type; what isn't one value is not repeated.
func (d *decoder) wrong(n ast.Node, path, rule string) *fault {
	text, _ := scalar(n)
	return faultAt(n, path, rule, text)
}

// members calls fn for each member of a map, those it merges with << included
// unless the map has them itself.
func (d *decoder) members(n ast.Node, path string, fn func(key string, at, value ast.Node) *fault) *fault {
	values, ok := pairs(n)
	if !ok {
		return d.wrong(n, path, "must be a map of fields")
	}
	own := map[string]bool{}
	for _, m := range values {
		if !m.Key.IsMergeKey() {
			key, ok := scalar(m.Key)
			if !ok {
				return faultAt(m, path, "must have names that are one value", "")
			}
			own[key] = true
			if f := fn(key, m, m.Value); f != nil {
				return f
			}
		}
	}
	for _, m := range values {
		if !m.Key.IsMergeKey() {
			continue
		}
		merged, f := d.resolve(m.Value, path)
		if f != nil {
			return f
		}
		sources := []ast.Node{merged}
		if seq, ok := merged.(*ast.SequenceNode); ok {
			sources = seq.Values
		}
		for _, source := range sources {
			if f := d.merge(source, path, own, fn); f != nil {
				return f
			}
		}
	}
	return nil
}

func (d *decoder) merge(source ast.Node, path string, own map[string]bool, fn func(key string, at, value ast.Node) *fault) *fault {
	source, f := d.resolve(source, path)
	if f != nil {
		return f
	}
	d.depth++
	defer func() { d.depth-- }()
	return d.members(source, path, func(key string, at, value ast.Node) *fault {
		if own[key] {
			return nil
		}
		own[key] = true
		return fn(key, at, value)
	})
}

func pairs(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch m := n.(type) {
	case *ast.MappingNode:
		return m.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{m}, true
	}
	return nil, false
}

var fieldCache sync.Map // reflect.Type -> map[string][]int

// fieldsOf returns a struct's fields by their JSON name; those of embedded structs
// count as the struct's own.
func fieldsOf(t reflect.Type) map[string][]int {
	if m, ok := fieldCache.Load(t); ok {
		return m.(map[string][]int) //nolint:forcetypeassert // the only type stored
	}
	m := map[string][]int{}
	for _, f := range reflect.VisibleFields(t) {
		tag, tagged := f.Tag.Lookup("json")
		name, _, _ := strings.Cut(tag, ",")
		if !f.IsExported() || name == "-" || f.Anonymous && !tagged {
			continue
		}
		if name == "" {
			name = f.Name
		}
		m[name] = f.Index
	}
	fieldCache.Store(t, m)
	return m
}

func join(path, name string) string {
	if path == "" || strings.HasPrefix(name, "[") {
		return path + name
	}
	return path + "." + name
}

// place is how a path shows a member; a name that could be taken for a path of its
// own is quoted.
func place(name string) string {
	if name == "" {
		return `[""]`
	}
	if len(name) > 64 || strings.ContainsAny(name, " .[]\"\t\n\r") {
		return "[" + job.Shorten(name) + "]"
	}
	return name
}
