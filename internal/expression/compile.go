package expression

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/compiler"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"
)

// The bounds of an expression.
const (
	MaxText  = 4096    // bytes
	MaxNodes = 1000    // of its tree
	MaxCost  = 200_000 // of one evaluation: nodes visited, items and 64-byte pieces of text looked at
)

// Env holds the values that an expression reads, by root: "params", "steps".
// Values are those of FromJSON.
type Env map[string]any

// Ref is a place of an expression that reads a root.
type Ref struct {
	Root  string // "steps"
	Name  string // the first name below it, "extract"; empty: the root as a whole
	Field string // the second, "output"; empty: none
	Pos   Pos
}

// Expr is a compiled expression. It may be evaluated by many at once.
type Expr struct {
	text    string
	program *vm.Program
	refs    []Ref
	nodes   int
	kind    string // of its value, where the text tells; see kindOf
	levels  int    // see placeLevels
}

// Compile reads an expression that may use the roots named. Its errors are of
// type *Error.
func Compile(text string, roots ...string) (*Expr, error) {
	if err := checkText(text); err != nil {
		return nil, err
	}
	cfg := newConfig()
	tree, err := parser.ParseWithConfig(text, cfg)
	if err != nil {
		return nil, compileError(err)
	}
	c := &compilation{text: text, roots: roots}
	kind, levels := kindOf(tree.Node), placeLevels(tree.Node)
	root, err := c.rewrite(tree.Node, nil)
	if err != nil {
		return nil, err
	}
	tree.Node = root
	if _, err := checker.Check(tree, cfg); err != nil {
		return nil, compileError(err)
	}
	program, err := compiler.Compile(tree, cfg)
	if err != nil {
		return nil, compileError(err)
	}
	return &Expr{text: text, program: program, refs: c.refs, nodes: c.nodes, kind: kind, levels: levels}, nil
}

func checkText(text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return &Error{Rule: "must not be empty"}
	case len(text) > MaxText:
		return &Error{Rule: fmt.Sprintf("must be at most %d bytes long", MaxText)}
	case !utf8.ValidString(text):
		return &Error{Rule: "must be UTF-8"}
	}
	return nil
}

// String returns the text that was compiled.
func (e *Expr) String() string { return e.text }

// Refs returns what the expression reads, in the order of its text.
func (e *Expr) Refs() []Ref { return e.refs }

// newConfig makes every function of ours known to the parser and to the compiler.
func newConfig() *conf.Config {
	cfg := conf.New(map[string]any{})
	cfg.Strict = false
	cfg.Optimize = false
	cfg.MaxNodes = MaxNodes
	for name, f := range functions {
		cfg.Functions[name] = &builtin.Function{Name: name, Func: f.call}
	}
	return cfg
}

// budgetName is the variable that carries the cost so far: no text can spell it.
const budgetName = "\x00budget"

// predicates are the library's own loops that may be used: what they call for each
// item is counted.
var predicates = map[string]bool{ // true: what is called must give a bool
	"all": true, "any": true, "none": true, "one": true, "filter": true, "find": true, "findIndex": true, "count": true,
	"map": false, "reduce": false,
}

// compilation turns the parsed tree into one whose every costly place goes through
// a function that counts, and notes what it reads.
type compilation struct {
	text  string
	roots []string
	refs  []Ref
	nodes int
}

func (c *compilation) fail(n ast.Node, format string, args ...any) error {
	return &Error{Pos: position(c.text, n.Location().From), Rule: fmt.Sprintf(format, args...)}
}

// counted returns a call of one of our functions, with the budget before its arguments.
func counted(name string, at ast.Node, args ...ast.Node) ast.Node {
	callee, budget := &ast.IdentifierNode{Value: name}, &ast.IdentifierNode{Value: budgetName}
	call := &ast.CallNode{Callee: callee, Arguments: append([]ast.Node{budget}, args...)}
	for _, n := range []ast.Node{callee, budget, call} {
		n.SetLocation(at.Location())
	}
	return call
}

// rewrite returns what a node becomes; vars are the names that let has declared
// around it.
func (c *compilation) rewrite(node ast.Node, vars []string) (ast.Node, error) {
	c.nodes++
	switch n := node.(type) {
	case *ast.NilNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.StringNode, *ast.PointerNode:
		return n, nil
	case *ast.IdentifierNode:
		return n, c.identifier(n, vars)
	case *ast.UnaryNode:
		return c.unary(n, vars)
	case *ast.BinaryNode:
		return c.binary(n, vars)
	case *ast.ConditionalNode:
		if err := c.all(vars, &n.Cond, &n.Exp1, &n.Exp2); err != nil {
			return nil, err
		}
		n.Cond = counted(fnBool, n.Cond, n.Cond)
		return n, nil
	case *ast.MemberNode:
		return c.member(n, vars)
	case *ast.ChainNode:
		return n, c.all(vars, &n.Node)
	case *ast.SliceNode:
		return n, c.all(vars, &n.Node, &n.From, &n.To)
	case *ast.CallNode:
		return c.call(n, vars)
	case *ast.BuiltinNode:
		return c.loop(n, vars)
	case *ast.VariableDeclaratorNode:
		return c.let(n, vars)
	case *ast.ArrayNode:
		return n, c.each(n.Nodes, vars)
	case *ast.MapNode:
		return n, c.each(n.Pairs, vars)
	case *ast.PairNode:
		return n, c.all(vars, &n.Key, &n.Value)
	case *ast.SequenceNode:
		return nil, c.fail(n, "must be one expression, without \";\" but after let")
	}
	return nil, c.fail(node, "must not hold %s", node)
}

func (c *compilation) all(vars []string, nodes ...*ast.Node) error {
	for _, n := range nodes {
		if *n == nil {
			continue
		}
		made, err := c.rewrite(*n, vars)
		if err != nil {
			return err
		}
		*n = made
	}
	return nil
}

func (c *compilation) each(nodes []ast.Node, vars []string) error {
	for i := range nodes {
		if err := c.all(vars, &nodes[i]); err != nil {
			return err
		}
	}
	return nil
}

func (c *compilation) identifier(n *ast.IdentifierNode, vars []string) error {
	if slices.Contains(vars, n.Value) {
		return nil
	}
	if !slices.Contains(c.roots, n.Value) {
		if _, ok := functions[n.Value]; ok {
			return c.fail(n, "%s is a function: it must be called", n.Value)
		}
		return c.fail(n, "unknown name %q: here may stand %s", n.Value, strings.Join(c.roots, ", "))
	}
	c.refs = append(c.refs, Ref{Root: n.Value, Pos: position(c.text, n.Location().From)})
	return nil
}

func (c *compilation) unary(n *ast.UnaryNode, vars []string) (ast.Node, error) {
	if err := c.all(vars, &n.Node); err != nil {
		return nil, err
	}
	switch n.Operator {
	case "!", "not":
		n.Node = counted(fnBool, n.Node, n.Node)
		return n, nil
	case "-", "+":
		return counted("unary "+n.Operator, n, n.Node), nil
	}
	return nil, c.fail(n, "unknown operator %q", n.Operator)
}

func (c *compilation) binary(n *ast.BinaryNode, vars []string) (ast.Node, error) {
	if err := c.all(vars, &n.Left, &n.Right); err != nil {
		return nil, err
	}
	switch n.Operator {
	case "||", "or", "&&", "and":
		n.Left, n.Right = counted(fnBool, n.Left, n.Left), counted(fnBool, n.Right, n.Right)
		return n, nil
	case "??":
		return n, nil
	}
	name := "operator " + n.Operator
	if _, ok := functions[name]; !ok {
		return nil, c.fail(n, "unknown operator %q", n.Operator)
	}
	return counted(name, n, n.Left, n.Right), nil
}

// member notes what is read of a root: params.x, steps["a-b"].output.
func (c *compilation) member(n *ast.MemberNode, vars []string) (ast.Node, error) {
	before := len(c.refs)
	if err := c.all(vars, &n.Node); err != nil {
		return nil, err
	}
	name, constant := n.Property.(*ast.StringNode)
	if len(c.refs) == before+1 && constant {
		switch r := &c.refs[before]; {
		case c.isRoot(n.Node, vars):
			r.Name = name.Value
		case c.isBelowRoot(n.Node, vars):
			r.Field = name.Value
		}
	}
	return n, c.all(vars, &n.Property)
}

func (c *compilation) isRoot(n ast.Node, vars []string) bool {
	id, ok := n.(*ast.IdentifierNode)
	return ok && slices.Contains(c.roots, id.Value) && !slices.Contains(vars, id.Value)
}

func (c *compilation) isBelowRoot(n ast.Node, vars []string) bool {
	m, ok := n.(*ast.MemberNode)
	return ok && c.isRoot(m.Node, vars)
}

func (c *compilation) call(n *ast.CallNode, vars []string) (ast.Node, error) {
	callee, ok := n.Callee.(*ast.IdentifierNode)
	if !ok {
		return nil, c.fail(n, "only functions may be called, not what a value holds")
	}
	f, ok := functions[callee.Value]
	if !ok {
		return nil, c.fail(callee, "unknown function %q", callee.Value)
	}
	if got := len(n.Arguments); got < f.least || got > f.most {
		return nil, c.fail(callee, "%s takes %s (got %d)", callee.Value, f.arity(), got)
	}
	if err := c.each(n.Arguments, vars); err != nil {
		return nil, err
	}
	return counted(callee.Value, n, n.Arguments...), nil
}

// loop counts what a loop does for each item as the nodes of its body.
func (c *compilation) loop(n *ast.BuiltinNode, vars []string) (ast.Node, error) {
	wantsBool, ok := predicates[n.Name]
	if !ok {
		return nil, c.fail(n, "unknown function %q", n.Name)
	}
	for i, arg := range n.Arguments {
		body, ok := arg.(*ast.PredicateNode)
		if !ok {
			if err := c.all(vars, &n.Arguments[i]); err != nil {
				return nil, err
			}
			continue
		}
		before := c.nodes
		if err := c.all(vars, &body.Node); err != nil {
			return nil, err
		}
		size := &ast.IntegerNode{Value: 1 + c.nodes - before}
		size.SetLocation(body.Location())
		body.Node = counted(fnItem, body, size, body.Node)
		if wantsBool {
			body.Node = counted(fnBool, body, body.Node)
		}
	}
	n.Arguments[0] = counted(fnList, n.Arguments[0], n.Arguments[0])
	return n, nil
}

func (c *compilation) let(n *ast.VariableDeclaratorNode, vars []string) (ast.Node, error) {
	if _, ok := functions[n.Name]; ok || slices.Contains(c.roots, n.Name) {
		return nil, c.fail(n, "let must not name %s, which stands for something else", n.Name)
	}
	if err := c.all(vars, &n.Value); err != nil {
		return nil, err
	}
	return n, c.all(append(slices.Clone(vars), n.Name), &n.Expr)
}
