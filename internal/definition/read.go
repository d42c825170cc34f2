package definition

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/axd-project/axd/job"
)

// The limits of what is read.
const (
	maxFile    = 4 << 20 // bytes
	maxObjects = 100_000
)

// Object is one definition of a file.
type Object struct {
	Kind      *Kind
	Namespace string // empty: the file doesn't say
	Name      string
	Spec      any // what the kind reads into, such as *job.Spec
	File      string
	Line      int
	lines     map[string]int
}

// at puts an error about a field where the field stands in its file.
func (o *Object) at(err error) error {
	var e *job.Error
	if !errors.As(err, &e) {
		return fmt.Errorf("%s: %w", where(o.File, o.Line, ""), err)
	}
	return &job.Error{Code: e.Code, Field: where(o.File, o.line(e.Field), e.Field), Rule: e.Rule, Value: e.Value}
}

// line is that of a field, or of the nearest one around it.
func (o *Object) line(path string) int {
	for path != "" {
		if n, ok := o.lines[path]; ok {
			return n
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return o.Line
}

func where(file string, line int, path string) string {
	if line > 0 {
		file += ":" + strconv.Itoa(line)
	}
	if path != "" {
		file += ": " + path
	}
	return file
}

// Read reads and checks the definitions of one file; "-" is stdin. A document
// without kind is one of the kind usual, if that isn't empty. All that is wrong is
// told at once, each with its line.
func Read(name string, stdin io.Reader, usual string) ([]*Object, error) {
	data, err := content(name, stdin)
	if err != nil {
		return nil, err
	}
	found, err := parse(name, data, usual, kindNamed)
	if err == nil && len(found) == 0 {
		err = job.Invalid(name, "holds no definition", "")
	}
	return found, err
}

// ReadKind reads the definitions of one kind, for one namespace.
func ReadKind(name string, stdin io.Reader, kind, namespace string) ([]*Object, error) {
	found, err := Read(name, stdin, kind)
	if err != nil {
		return nil, err
	}
	for _, o := range found {
		if o.Kind.Name != kind {
			return nil, o.at(job.Invalid("kind", "must be "+kind+" here; 'axd apply' takes all kinds", o.Kind.Name))
		}
	}
	return found, (&Set{Objects: found}).In(namespace)
}

func content(name string, stdin io.Reader) ([]byte, error) {
	in := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, fileError(err)
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return nil, fileError(err)
	}
	if len(data) > maxFile {
		return nil, job.Invalid(name, "must be at most 4 MiB", "")
	}
	return data, nil
}

func fileError(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return job.Invalid(at.Path, "can't be read: "+at.Err.Error(), "")
	}
	return job.Invalid("FILE", "can't be read: "+err.Error(), "")
}

// parse reads the documents of a file.
func parse(file string, data []byte, usual string, known func(string) *Kind) ([]*Object, error) {
	var found []*Object
	var wrong []error
	for _, part := range split(string(data)) {
		tree, err := parser.ParseBytes([]byte(part.text), 0)
		if err != nil {
			wrong = append(wrong, syntax(file, part.before, err))
			continue
		}
		for _, doc := range tree.Docs {
			if doc.Body == nil || doc.Body.Type() == ast.CommentType || isNull(doc.Body) {
				continue
			}
			o, err := document(file, part.before, doc.Body, usual, known)
			if err != nil {
				wrong = append(wrong, err)
				continue
			}
			found = append(found, o)
		}
	}
	return found, errors.Join(wrong...)
}

// part is a document of a file with how many lines stand before it.
type part struct {
	text   string
	before int
}

// split cuts a file at its lines of ---, which nothing inside a document looks like.
// The parser could do that, but an empty document costs it the next one.
func split(text string) []part {
	var parts []part
	start, first, at, number := 0, 0, 0, 0
	empty := true
	end := func() {
		if !empty {
			parts = append(parts, part{text[start:at], first})
		}
	}
	for line := range strings.Lines(text) {
		said := line
		if rest, marked := strings.CutPrefix(line, "---"); marked && (rest == "" || strings.ContainsAny(rest[:1], " \t\r\n")) {
			end()
			start, first, empty, said = at, number, true, rest
		}
		if said = strings.TrimSpace(said); said != "" && said[0] != '#' && said[0] != '%' {
			empty = false
		}
		at += len(line)
		number++
	}
	end()
	return parts
}

// syntax tells where a file isn't YAML.
func syntax(file string, before int, err error) error {
	var bad yaml.Error
	if errors.As(err, &bad) && bad.GetToken() != nil && bad.GetToken().Position != nil {
		return job.Invalid(where(file, before+bad.GetToken().Position.Line, ""), bad.GetMessage(), "")
	}
	return job.Invalid(file, "must be YAML: "+err.Error(), "")
}

// document reads one definition and checks what can be told from it alone.
func document(file string, before int, body ast.Node, usual string, known func(string) *Kind) (*Object, error) {
	o := &Object{File: file, Line: before + lineOf(body)}
	fail := func(f *fault) error {
		line := o.Line
		if f.line > 0 {
			line = before + f.line
		}
		return &job.Error{Code: f.err.Code, Field: where(file, line, f.err.Field), Rule: f.err.Rule, Value: f.err.Value}
	}
	kind := usual
	d := newDecoder(before)
	for _, head := range []struct {
		name string
		to   *string
	}{{"kind", &kind}, {"namespace", &o.Namespace}, {"name", &o.Name}} {
		if f := d.head(body, head.name, head.to); f != nil {
			return nil, fail(f)
		}
	}
	o.lines = d.lines
	line := o.line
	switch o.Kind = known(kind); {
	case kind == "":
		return nil, job.Invalid(where(file, o.Line, "kind"), "is missing: it "+kindRule(), "")
	case o.Kind == nil:
		return nil, job.Invalid(where(file, line("kind"), "kind"), kindRule(), kind)
	case o.Name == "":
		return nil, job.Invalid(where(file, o.Line, "name"), "is missing", "")
	}
	if e := job.ValidateName("name", o.Name); e != nil {
		return nil, job.Invalid(where(file, line("name"), "name"), e.Rule, o.Name)
	}
	if o.Namespace != "" {
		if e := job.ValidateNamespace(o.Namespace); e != nil {
			return nil, job.Invalid(where(file, line("namespace"), "namespace"), e.Rule, o.Namespace)
		}
	}
	o.Spec = o.Kind.spec()
	if f := d.value(body, reflect.ValueOf(o.Spec).Elem(), ""); f != nil {
		return nil, fail(f)
	}
	if err := o.Kind.check(o.Spec); err != nil {
		return nil, o.at(err)
	}
	return o, nil
}

// head reads a field that every kind has, and leaves it out of what follows.
func (d *decoder) head(body ast.Node, name string, to *string) *fault {
	values, ok := pairs(body)
	if !ok {
		return d.wrong(body, "", "must be a map of fields")
	}
	d.heads = append(d.heads, name)
	for _, m := range values {
		if key, _ := scalar(m.Key); key != name {
			continue
		}
		if _, doubled := d.lines[name]; doubled {
			return faultAt(m, name, "must appear once", "")
		}
		d.lines[name] = d.before + lineOf(m)
		if isNull(m.Value) {
			continue
		}
		if f := d.value(m.Value, reflect.ValueOf(to).Elem(), name); f != nil {
			return f
		}
	}
	return nil
}

// extensions are those of files that a directory is searched for.
var extensions = []string{".yaml", ".yml", ".json"}

// Files lists the files that names stand for: a file itself, and of a directory
// all definitions at any depth, but for hidden ones. The order is the same each time.
func Files(names []string) ([]string, error) {
	var found []string
	for _, name := range names {
		info, err := os.Stat(name)
		if name == "-" || err == nil && !info.IsDir() {
			found = append(found, name)
			continue
		}
		if err != nil {
			return nil, fileError(err)
		}
		before := len(found)
		err = filepath.WalkDir(name, func(path string, e fs.DirEntry, err error) error {
			hidden := path != name && strings.HasPrefix(e.Name(), ".")
			switch {
			case err != nil:
				return err
			case e.IsDir() && hidden:
				return filepath.SkipDir
			case !e.IsDir() && !hidden && slices.Contains(extensions, filepath.Ext(path)):
				found = append(found, path)
			}
			return nil
		})
		if err != nil {
			return nil, fileError(err)
		}
		if len(found) == before {
			return nil, job.Invalid(name, "holds no file that ends with "+strings.Join(extensions, ", "), "")
		}
	}
	return found, nil
}
