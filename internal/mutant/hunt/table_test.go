package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

const root = "../../.."

// TestEveryMutantIsHunted: each fault that there is in plain builds as a constant is
// there in the others, breaks something, and is looked for.
func TestEveryMutantIsHunted(t *testing.T) {
	plain, others := declared(t, "../off.go", token.CONST), declared(t, "../on.go", token.VAR)
	if len(plain) < 15 || !slices.Equal(plain, others) {
		t.Errorf("off.go has %v, on.go %v", plain, others)
	}
	var hunted []string
	for _, m := range mutants {
		hunted = append(hunted, m.name)
		if len(m.checks) == 0 {
			t.Errorf("%s: no check looks for it", m.name)
		}
	}
	var named []string
	for _, name := range plain {
		named = append(named, kebab(name))
	}
	if !slices.Equal(named, hunted) {
		t.Errorf("the faults are\n%v, hunted, in their order, are\n%v", named, hunted)
	}
	uses := used(t)
	for _, name := range plain {
		if uses[name] == 0 {
			t.Errorf("nothing asks for mutant.%s", name)
		}
	}
}

// TestChecksExist: every test that a mutant is looked for by is there.
func TestChecksExist(t *testing.T) {
	for _, m := range mutants {
		for _, c := range m.checks {
			first, _, _ := strings.Cut(c.run, "/") // the rest names subtests
			match := regexp.MustCompile(first)
			if !slices.ContainsFunc(testsOf(t, c.pkg), match.MatchString) {
				t.Errorf("%s: package %s has no test that matches %s", m.name, c.pkg, c.run)
			}
		}
	}
}

func TestVerdictNamesTheInnermostTest(t *testing.T) {
	out := "--- FAIL: TestA (0.1s)\n    --- FAIL: TestA/b (0.1s)\n        x_test.go:5: AXD_SIM_SEED=1\n        y_test.go:9: time=2026-11-30T17:45:17Z level=INFO msg=x\n        x_test.go:7: two tasks\nFAIL\n"
	if got := verdict(out); got != "TestA/b two tasks" {
		t.Errorf("%q", got)
	}
	if got := verdict("--- FAIL: TestA (0.1s)\npanic: oh [recovered]\n"); got != "TestA panic: oh [recovered]" {
		t.Errorf("%q", got)
	}
}

func parse(t *testing.T, path string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func declared(t *testing.T, path string, kind token.Token) (names []string) {
	t.Helper()
	for _, d := range parse(t, path).Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == kind {
			for _, spec := range g.Specs {
				for _, name := range spec.(*ast.ValueSpec).Names {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}

// kebab writes AnyToken as any-token.
func kebab(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// used counts where axd asks for each fault.
func used(t *testing.T) map[string]int {
	t.Helper()
	uses := map[string]int{}
	mention := regexp.MustCompile(`\bmutant\.([A-Z]\w+)`)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2 || d.Name() == "mutant"):
			return fs.SkipDir
		case filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		b, err := os.ReadFile(path)
		for _, m := range mention.FindAllSubmatch(b, -1) {
			uses[string(m[1])]++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return uses
}

func testsOf(t *testing.T, pkg string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		for _, d := range parse(t, file).Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}
