// Package tidy holds the house rules of axd as code, and its test applies them
// to the whole repository. Each finding says what is wrong and why the rule
// exists. The exceptions are tables in exceptions.go, each with its reason.
package tidy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// module is the path that our packages' import paths begin with.
const module = "github.com/axd-project/axd"

// Limits of size. Tests get longer functions, since a table is one statement.
const (
	maxFileLines     = 500
	maxFuncLines     = 70
	maxTestFuncLines = 120
)

// Finding is one break of a rule.
type Finding struct {
	Path string // slash-separated, from the repository's root
	Line int    // 0: the whole file or package
	Text string // what is wrong, and why that matters
}

// String renders "path:line: text".
func (f Finding) String() string {
	if f.Line == 0 {
		return f.Path + ": " + f.Text
	}
	return fmt.Sprintf("%s:%d: %s", f.Path, f.Line, f.Text)
}

// file is one source file; Go files are parsed too.
type file struct {
	path  string
	text  string
	fset  *token.FileSet
	ast   *ast.File // nil where not Go
	names map[string]string
}

// newFile parses a file. The path decides what it is.
func newFile(name, text string) (*file, error) {
	f := &file{path: name, text: text, fset: token.NewFileSet()}
	if path.Ext(name) != ".go" {
		return f, nil
	}
	var err error
	if f.ast, err = parser.ParseFile(f.fset, name, text, parser.ParseComments|parser.SkipObjectResolution); err != nil {
		return nil, err
	}
	f.names = importNames(f.ast)
	return f, nil
}

func (f *file) isGo() bool        { return f.ast != nil }
func (f *file) isTest() bool      { return strings.HasSuffix(f.path, "_test.go") }
func (f *file) isGenerated() bool { return f.ast != nil && ast.IsGenerated(f.ast) }
func (f *file) dir() string       { return path.Dir(f.path) }
func (f *file) line(n ast.Node) int {
	return f.fset.Position(n.Pos()).Line
}

func (f *file) find(n ast.Node, format string, args ...any) Finding {
	return Finding{Path: f.path, Line: f.line(n), Text: fmt.Sprintf(format, args...)}
}

// uses calls report for each mention of a package's name, such as time.Now.
func (f *file) uses(report func(pkg, name string, n ast.Node)) {
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := sel.X.(*ast.Ident); ok && f.names[id.Name] != "" {
				report(f.names[id.Name], sel.Sel.Name, sel)
			}
		}
		return true
	})
}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// importNames maps the names by which a file speaks of its imports to their paths.
func importNames(a *ast.File) map[string]string {
	names := map[string]string{}
	for _, spec := range a.Imports {
		p := strings.Trim(spec.Path.Value, `"`)
		name := path.Base(p)
		if majorVersion.MatchString(name) {
			name = path.Base(path.Dir(p))
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = p
	}
	return names
}

// sourceExts are the kinds of file that the rules read.
var sourceExts = map[string]bool{".go": true, ".js": true, ".mjs": true, ".css": true, ".sh": true, ".html": true}

// skipDir tells directories without source of ours: hidden ones, what Go
// ignores, and what is built or run.
func skipDir(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") ||
		name == "testdata" || name == "bin" || name == "axd-data"
}

// load reads every source file of the tree.
func load(tree fs.FS) ([]*file, error) {
	var files []*file
	err := fs.WalkDir(tree, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && p != "." && skipDir(d.Name()):
			return fs.SkipDir
		case d.IsDir() || !sourceExts[path.Ext(d.Name())]:
			return nil
		}
		b, err := fs.ReadFile(tree, p)
		if err != nil {
			return err
		}
		f, err := newFile(p, string(b))
		if err != nil {
			return err
		}
		files = append(files, f)
		return nil
	})
	return files, err
}

// Check applies every rule to a repository, given as the tree below its root.
func Check(tree fs.FS) ([]Finding, error) {
	files, err := load(tree)
	if err != nil {
		return nil, err
	}
	mod, err := fs.ReadFile(tree, "go.mod")
	if err != nil {
		return nil, err
	}
	used := exceptionUse{}
	found := checkGoMod(string(mod))
	for _, f := range files {
		found = append(found, checkFile(f, used)...)
	}
	found = append(found, checkPackages(files)...)
	return append(found, used.stale()...), nil
}

func checkFile(f *file, used exceptionUse) []Finding {
	if f.isGenerated() {
		return nil
	}
	found := checkLength(f)
	found = append(found, checkUnfinished(f)...)
	if !f.isGo() {
		return found
	}
	found = append(found, checkFuncs(f)...)
	found = append(found, checkImports(f)...)
	found = append(found, checkPure(f)...)
	found = append(found, checkKeys(f)...)
	found = append(found, checkExit(f, used)...)
	return append(found, checkSleep(f, used)...)
}
