package expression

import (
	"strings"

	"github.com/expr-lang/expr/ast"

	"github.com/axd-project/axd/job"
)

// aBool is what describe says of true and false.
const aBool = "a bool"

// resultKinds are the kinds of value that functions and loops always give.
var resultKinds = map[string]string{
	"len": "a number", "int": "a number", "float": "a number", "abs": "a number", "floor": "a number", "ceil": "a number", "round": "a number",
	"sum": "a number", "type": "a string", "string": "a string", "toJSON": "a string", "lower": "a string", "upper": "a string",
	"trim": "a string", "join": "a string", "replace": "a string", "split": "a list", "reverse": "a list", "sort": "a list",
	"uniq": "a list", "flatten": "a list", "concat": "a list", "keys": "a list", "values": "a list",
	"map": "a list", "filter": "a list", "count": "a number", "findIndex": "a number",
}

// kindOf tells of what kind the value of an expression is, in the words of describe;
// empty: that can't be told from its text.
func kindOf(node ast.Node) string {
	switch n := node.(type) {
	case *ast.NilNode:
		return "null"
	case *ast.IntegerNode, *ast.FloatNode:
		return "a number"
	case *ast.StringNode:
		return "a string"
	case *ast.BoolNode:
		return aBool
	case *ast.ArrayNode:
		return "a list"
	case *ast.MapNode:
		return "an object"
	case *ast.UnaryNode:
		if n.Operator == "!" || n.Operator == "not" {
			return aBool
		}
		return "a number"
	case *ast.BinaryNode:
		return kindOfBinary(n)
	case *ast.ConditionalNode:
		return sameKind(kindOf(n.Exp1), kindOf(n.Exp2))
	case *ast.VariableDeclaratorNode:
		return kindOf(n.Expr)
	case *ast.CallNode:
		if callee, ok := n.Callee.(*ast.IdentifierNode); ok {
			return resultKinds[callee.Value]
		}
	case *ast.BuiltinNode:
		return resultKinds[n.Name]
	}
	return ""
}

func kindOfBinary(n *ast.BinaryNode) string {
	switch n.Operator {
	case "-", "*", "/", "%":
		return "a number"
	case "+":
		return "a number or a string"
	case "..":
		return "a list"
	case "??":
		left := kindOf(n.Left)
		if left == "null" {
			return kindOf(n.Right)
		}
		return sameKind(left, kindOf(n.Right))
	}
	return aBool
}

// sameKind is the kind of one of two values.
func sameKind(a, b string) string {
	switch {
	case a == b:
		return a
	case a == "" || b == "" || a == aBool || b == aBool:
		return ""
	}
	return a + " or " + b
}

// notBool says what an expression gives that can't be true or false; empty: it may be.
func (e *Expr) notBool() string {
	if e.kind == aBool {
		return ""
	}
	return e.kind
}

// checkBool refuses an expression that decides and can't.
func checkBool(e *Expr) error {
	if kind := e.notBool(); kind != "" {
		return &Error{Rule: "must be true or false, not " + kind}
	}
	return nil
}

// whole is the place that an expression reads and does nothing else.
func (e *Expr) whole() (Ref, bool) {
	if len(e.refs) != 1 {
		return Ref{}, false
	}
	r := e.refs[0]
	levels := 1
	if r.Root == RootSteps {
		levels = 2
	}
	return r, e.levels == levels
}

// placeLevels is how many names an expression has below a root, where it is nothing else:
// 1 of params.x, 2 of steps.a.state; 0: it is something else.
func placeLevels(node ast.Node) (levels int) {
	for {
		switch n := node.(type) {
		case *ast.ChainNode:
			node = n.Node
		case *ast.MemberNode:
			if _, constant := n.Property.(*ast.StringNode); !constant {
				return 0
			}
			levels++
			node = n.Node
		case *ast.IdentifierNode:
			return levels
		default:
			return 0
		}
	}
}

// whenKind is what a step's when reads, where it does nothing else and that can't be
// true or false.
func (c *workflowCheck) whenKind(e *Expr) string {
	r, ok := e.whole()
	switch {
	case !ok:
	case r.Root == RootParams && r.Name != "":
		if kind := c.params[r.Name]; kind != job.ParamBool && kind != "" {
			return strings.Replace("a "+string(kind), "a int", "an int", 1)
		}
	case r.Root == RootSteps && r.Field == StepState, r.Root == RootRun && r.Name != "":
		return "a string"
	case r.Root == RootSteps && r.Field == StepExitCode:
		return "a number"
	}
	return ""
}
