package tidy

import (
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
)

// imports says which packages of ours each may import, as ARCHITECTURE.md does;
// "*" stands for all. A folder stands for what is below it, unless that has a
// row of its own. Tests may import more, since they join what the design keeps
// apart; the compiler refuses cycles.
var imports = map[string][]string{
	"job":       {},
	"wheel":     {},
	"rpc":       {"internal"},
	"fsm":       {"job", "internal/packshape", "internal/mutant"}, // never internal/expression: apply computes no formulas
	"store":     {"fsm", "internal/mutant"},
	"raftnode":  {"fsm", "job", "store", "internal/mutant"},
	"cluster":   {},
	"worker":    {"job", "rpc", "cluster", "internal"},
	"scheduler": {"fsm", "job", "wheel", "internal/expression", "internal/mutant"},
	"client":    {"job"},
	"notify":    {},
	"api":       {"fsm", "job", "client", "internal/expression"}, // client: it holds the JSON shapes that api serves
	"server":    {"*"},
	"cmd": {
		"server", "worker", "client", "job", "chaos/trial", "internal/bench", "internal/crontab", "internal/definition", "internal/expression", "internal/timeslice",
	},
	"examples": {"client", "worker", "job", "chaos/process"},
	"internal": {},

	// chaos runs whole servers, on its own network, disks and clocks.
	"chaos":         {"server", "worker", "client", "fsm", "job", "cluster", "raftnode", "store"},
	"chaos/process": {"client"}, // it runs the binary as an operator does
	"chaos/proxy":   {},
	"chaos/trial": { // judges real processes as the simulation judges its own
		"chaos", "chaos/process", "chaos/proxy", "client", "fsm", "job", "raftnode", "store", "internal/definition",
	},
	// The leader computes and proposes; apply never does, and job stays without it.
	"internal/expression": {"job"},
	"internal/bench":      {"chaos/process", "client", "worker", "job"},

	"internal/definition": {"client", "job", "internal/expression"},
	"internal/crontab":    {"job"},
}

// row returns the row of the table that a package falls under; empty: none.
func row(pkg string) string {
	for p := pkg; p != "."; p = path.Dir(p) {
		if _, ok := imports[p]; ok {
			return p
		}
	}
	return ""
}

// within tells whether a package is one of a row's, or below one.
func within(pkg string, allowed []string) bool {
	return slices.ContainsFunc(allowed, func(a string) bool {
		return a == "*" || pkg == a || strings.HasPrefix(pkg, a+"/")
	})
}

func checkImports(f *file) []Finding {
	if f.isTest() {
		return nil
	}
	top, _, _ := strings.Cut(f.path, "/")
	from := row(f.dir())
	if from == "" {
		return []Finding{{Path: f.path, Text: top + " is not in the import table: say in internal/tidy/rules.go what it may import, " +
			"so that imports keep going one way"}}
	}
	var found []Finding
	for _, spec := range f.ast.Imports {
		p, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module+"/")
		if !ours {
			continue
		}
		if row(p) != from && !within(p, imports[from]) {
			found = append(found, f.find(spec, "%s must not import %s: imports go one way; siblings meet through small "+
				"interfaces declared by the one that calls, joined in server", from, p))
		}
	}
	return found
}

// pure names the packages that replicas run alike: what they do must follow
// from their arguments alone.
var pure = []string{"job", "fsm", "wheel"}

// impureImports are forbidden in pure packages with all below them, except what
// pureImports names.
var (
	impureImports = []string{"math/rand", "crypto/rand", "os", "net", "syscall", "log", "golang.org/x/sys"}
	pureImports   = []string{"net/url", "net/netip"}
	clockFuncs    = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
)

func checkPure(f *file) []Finding {
	top, _, _ := strings.Cut(f.path, "/")
	if f.isTest() || !slices.Contains(pure, top) {
		return nil
	}
	const why = "the state machine runs it on every server, and all must come to the same state"
	var found []Finding
	for _, spec := range f.ast.Imports {
		p := strings.Trim(spec.Path.Value, `"`)
		for _, bad := range impureImports {
			if (p == bad || strings.HasPrefix(p, bad+"/")) && !slices.Contains(pureImports, p) {
				found = append(found, f.find(spec, "%s is pure and must not import %s: %s", top, p, why))
			}
		}
	}
	f.uses(func(pkg, name string, n ast.Node) {
		if pkg == "time" && slices.Contains(clockFuncs, name) {
			found = append(found, f.find(n, "%s is pure and must not call time.%s: time comes as an argument, since %s", top, name, why))
		}
	})
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if g, ok := n.(*ast.GoStmt); ok {
			found = append(found, f.find(g, "%s is pure and must not start goroutines: %s", top, why))
		}
		return true
	})
	return found
}

func checkLength(f *file) []Finding {
	if n := strings.Count(f.text, "\n"); n > maxFileLines {
		return []Finding{{Path: f.path, Line: n, Text: "the file is longer than 500 lines: split it where a reader would look for a part"}}
	}
	return nil
}

func checkFuncs(f *file) []Finding {
	limit := maxFuncLines
	if f.isTest() {
		limit = maxTestFuncLines
	}
	var found []Finding
	for _, d := range f.ast.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if n := f.fset.Position(fn.End()).Line - f.line(fn) + 1; n > limit {
			found = append(found, f.find(fn, "%s has %d lines, more than %d: a function should be read at one glance; "+
				"give its steps names", fn.Name.Name, n, limit))
		}
	}
	return found
}

// unfinished matches the marks of work left for later. They are spelled so that
// this file doesn't find itself.
var unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)

func checkUnfinished(f *file) []Finding {
	const why = "mend it now, or file an issue: nobody returns to a mark in the code"
	var found []Finding
	if !f.isGo() {
		for i, line := range strings.Split(f.text, "\n") {
			if m := unfinished.FindString(line); m != "" {
				found = append(found, Finding{Path: f.path, Line: i + 1, Text: m + ": " + why})
			}
		}
		return found
	}
	for _, g := range f.ast.Comments {
		for _, c := range g.List {
			if m := unfinished.FindString(c.Text); m != "" {
				found = append(found, f.find(c, "%s: %s", m, why))
			}
		}
	}
	return found
}

func checkExit(f *file, used exceptionUse) []Finding {
	if f.isTest() || f.ast.Name.Name == "main" {
		return nil
	}
	var found []Finding
	f.uses(func(pkg, name string, n ast.Node) {
		exits := pkg == "os" && name == "Exit" || pkg == "log" && (strings.HasPrefix(name, "Fatal") || strings.HasPrefix(name, "Panic"))
		if exits && !used.allows(mayExit, f.path) {
			found = append(found, f.find(n, "%s.%s outside a main package: it skips every deferred close, "+
				"and a test can't see it; return an error", pkg, name))
		}
	})
	return found
}

func checkSleep(f *file, used exceptionUse) []Finding {
	if !f.isTest() || f.names["synctest"] != "" { // in a bubble Sleep takes no time
		return nil
	}
	polls := map[ast.Node]bool{} // for end := ...; cond; time.Sleep(d)
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if loop, ok := n.(*ast.ForStmt); ok && loop.Cond != nil {
			if post, ok := loop.Post.(*ast.ExprStmt); ok {
				if call, ok := post.X.(*ast.CallExpr); ok {
					polls[call.Fun] = true
				}
			}
		}
		return true
	})
	var found []Finding
	f.uses(func(pkg, name string, n ast.Node) {
		if pkg == "time" && name == "Sleep" && !polls[n] && !used.allows(maySleep, f.path) {
			found = append(found, f.find(n, "a test must not call time.Sleep: it is too short on a slow machine and too long "+
				"on a fast one; use testing/synctest or a channel; to poll a process or socket write "+
				"for a deadline: for end := ...; cond; time.Sleep(d)"))
		}
	})
	return found
}

var junkNames = []string{"util", "utils", "common", "helper", "helpers", "types", "models", "misc"}

// checkPackages looks at each directory of Go files as a whole.
func checkPackages(files []*file) []Finding {
	documented := map[string]bool{}
	var dirs []string
	var found []Finding
	for _, f := range files {
		if !f.isGo() {
			continue
		}
		if slices.Contains(junkNames, f.ast.Name.Name) {
			found = append(found, f.find(f.ast.Name, "package %s: a package is named for what it knows, else it becomes a junk drawer", f.ast.Name.Name))
		}
		if f.isTest() {
			continue
		}
		if !slices.Contains(dirs, f.dir()) {
			dirs = append(dirs, f.dir())
		}
		if f.ast.Doc != nil {
			documented[f.dir()] = true
		}
	}
	for _, dir := range dirs {
		if !documented[dir] {
			found = append(found, Finding{Path: dir, Text: "the package has no doc comment: its first sentence tells a newcomer " +
				"whether to read on; write it in doc.go or above package " + path.Base(dir)})
		}
	}
	return found
}

var replaceLine = regexp.MustCompile(`(?m)^\s*replace\b`)

func checkGoMod(text string) []Finding {
	at := replaceLine.FindStringIndex(text)
	if at == nil {
		return nil
	}
	line := 1 + strings.Count(text[:at[1]], "\n")
	return []Finding{{Path: "go.mod", Line: line, Text: "replace directive: go install …@version refuses a module that has one"}}
}
