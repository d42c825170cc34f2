package tidy

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mayRange lists the functions of fsm that go over a map, and why the order in which
// they do shows nowhere. A map's order differs from server to server.
var mayRange = map[string]string{
	"apply.flushOwed":      "it sorts what it found before it writes",
	"apply.forgetBreakers": "it sorts what it found before it writes",
	"apply.evictBreaker":   "it takes the least by an order in which no two are equal",
	"Counts.Sum":           "a sum has no order",
	"RunStateCounts.Sum":   "a sum has no order",
}

// TestApplyGoesOverNoMap: what apply writes must not follow the order of a map.
func TestApplyGoesOverNoMap(t *testing.T) {
	const pkg = module + "/fsm"
	found := mapRanges(t, pkg, "../../fsm", nil)
	for _, f := range found {
		if mayRange[f] == "" && !strings.HasPrefix(f, "checker.") { // Check only reports
			t.Errorf("fsm: %s goes over a map, whose order differs from server to server: sort its keys "+
				"(slices.Sorted(maps.Keys(m))), or say in mayRange why the order shows nowhere", f)
		}
	}
	for f := range mayRange {
		if !slices.Contains(found, f) {
			t.Errorf("fsm: %s goes over no map any more: take it out of mayRange", f)
		}
	}
}

func TestMapRangesAreFound(t *testing.T) {
	const body = `package fsm
import ("maps"; "slices")
type set map[string]int
func plain(m map[string]int) { for range m {} }
func named(m set) { for k := range m { _ = k } }
func field(s struct{ m set }) { for range s.m {} }
func keys(m set) { for range maps.Keys(m) {} }
func collected(m set) { _ = slices.Collect(maps.Values(m)) }
func sorted(m set) { for range slices.Sorted(maps.Keys(m)) {} }
func list(l []int) { for range l {} }
`
	got := mapRanges(t, module+"/fsm", "", map[string]string{"a.go": body})
	want := []string{"collected", "field", "keys", "named", "plain"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("found %v, want %v", got, want)
	}
}

// mapRanges names the functions of a package that go over a map otherwise than sorted.
// The sources are those of a directory, tests left out, or the given ones.
func mapRanges(t *testing.T, pkg, dir string, sources map[string]string) []string {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	add := func(name string, text any) {
		f, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	for name, text := range sources {
		add(name, text)
	}
	if dir != "" {
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if !strings.HasSuffix(name, "_test.go") {
				add(name, nil)
			}
		}
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: compiled(t, fset, pkg)}
	if _, err := conf.Check(pkg, fset, files, info); err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, f := range files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && goesOverMap(fn, info) {
				found = append(found, nameOf(fn))
			}
		}
	}
	slices.Sort(found)
	return found
}

// nameOf is the function's, behind its receiver's.
func nameOf(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	of := fn.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	return types.ExprString(of) + "." + fn.Name.Name
}

// goesOverMap also knows what package maps yields, unless it is sorted at once.
func goesOverMap(fn *ast.FuncDecl, info *types.Info) (does bool) {
	sorted := map[ast.Expr]bool{}
	called := func(n ast.Node) (pkg, name string) {
		if call, ok := n.(*ast.CallExpr); ok {
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
				if f, ok := info.Uses[sel.Sel].(*types.Func); ok && f.Pkg() != nil {
					return f.Pkg().Path(), f.Name()
				}
			}
		}
		return "", ""
	}
	ast.Inspect(fn, func(n ast.Node) bool {
		switch pkg, name := called(n); {
		case pkg == "slices" && strings.HasPrefix(name, "Sorted"):
			sorted[n.(*ast.CallExpr).Args[0]] = true
		case pkg == "maps" && slices.Contains([]string{"Keys", "Values", "All"}, name):
			does = does || !sorted[n.(*ast.CallExpr)]
		}
		if loop, ok := n.(*ast.RangeStmt); ok {
			if _, ok := info.Types[loop.X].Type.Underlying().(*types.Map); ok {
				does = true
			}
		}
		return true
	})
	return does
}

// compiled imports what a package imports as the compiler left it.
func compiled(t *testing.T, fset *token.FileSet, pkg string) types.Importer {
	t.Helper()
	out, err := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", pkg).Output()
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[path] = file
	}
	return importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
}
