package api

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/axd-project/axd/job"
)

// declaredCodes reads the codes that package job declares.
func declaredCodes(t *testing.T) map[job.Code]bool {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../job/errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[job.Code]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Code" {
			lit, ok := spec.Values[0].(*ast.BasicLit)
			if !ok {
				t.Fatalf("%v is no literal", spec.Names)
			}
			name, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			found[job.Code(name)] = true
		}
		return true
	})
	return found
}

func TestEveryCodeHasAnAnswer(t *testing.T) {
	declared := declaredCodes(t)
	if len(declared) < 10 {
		t.Fatalf("only %d codes found", len(declared))
	}
	for code := range declared {
		a, ok := answers[code]
		if !ok {
			t.Errorf("%s has no answer", code)
			continue
		}
		if a.status < 400 || a.title == "" {
			t.Errorf("%s: %+v", code, a)
		}
		if wants := a.status == 429 || a.status == 503; wants != (a.retryAfter > 0) {
			t.Errorf("%s: Retry-After %d with status %d", code, a.retryAfter, a.status)
		}
	}
	for code := range answers {
		if !declared[code] {
			t.Errorf("%s is not a code", code)
		}
	}
}
