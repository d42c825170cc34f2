package expression

import (
	"fmt"
	"maps"

	"github.com/expr-lang/expr/vm"
)

// budget is what one evaluation may still cost.
type budget struct{ left int }

func (b *budget) spend(n int) error {
	if b.left -= n; b.left < 0 {
		return &Error{Rule: fmt.Sprintf("costs more than the %d steps that one evaluation may take", MaxCost)}
	}
	return nil
}

// see counts a value that is looked at as a whole, with all below it.
func (b *budget) see(v any) error {
	if err := b.spend(1); err != nil {
		return err
	}
	switch v := v.(type) {
	case string:
		return b.spend(len(v) / 64)
	case bigInt:
		return b.spend(len(v) / 64)
	case []any:
		for _, item := range v {
			if err := b.see(item); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, item := range v {
			if err := b.spend(len(name) / 64); err != nil {
				return err
			}
			if err := b.see(item); err != nil {
				return err
			}
		}
	}
	return nil
}

// Eval computes the expression. Its errors are of type *Error.
func (e *Expr) Eval(env Env) (any, error) {
	b := &budget{left: MaxCost}
	v, err := e.eval(env, b)
	if err != nil {
		return nil, err
	}
	return v, nil
}

func (e *Expr) eval(env Env, b *budget) (any, error) {
	if err := b.spend(e.nodes); err != nil {
		return nil, err
	}
	all := make(map[string]any, len(env)+1)
	maps.Copy(all, env)
	all[budgetName] = b
	v, err := vm.Run(e.program, all)
	if err != nil {
		return nil, evalError(err)
	}
	if v, err = plain(v); err != nil {
		return nil, err
	}
	// What is made of values that share parts may be large beyond what was looked at.
	return v, b.see(v)
}

// EvalBool computes the expression, whose value must be true or false.
func (e *Expr) EvalBool(env Env) (bool, error) {
	v, err := e.Eval(env)
	if err != nil {
		return false, err
	}
	is, ok := v.(bool)
	if !ok {
		return false, &Error{Rule: "must be true or false, not " + describe(v)}
	}
	return is, nil
}

// EvalList computes the expression, whose value must be a list.
func (e *Expr) EvalList(env Env) ([]any, error) {
	v, err := e.Eval(env)
	if err != nil {
		return nil, err
	}
	list, ok := v.([]any)
	if !ok {
		return nil, &Error{Rule: "must be a list, not " + describe(v)}
	}
	return list, nil
}
