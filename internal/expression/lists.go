package expression

import (
	"maps"
	"slices"
	"strings"
)

func split(args []any) (any, error) {
	s, ok := args[0].(string)
	sep, ok2 := args[1].(string)
	if !ok || !ok2 || sep == "" {
		return nil, fail("split wants a string and what parts it, which must not be empty")
	}
	return anys(strings.Split(s, sep)), nil
}

func anys(parts []string) []any {
	list := make([]any, len(parts))
	for i, p := range parts {
		list[i] = p
	}
	return list
}

func joined(b *budget, args []any) (any, error) {
	sep := ""
	if len(args) == 2 {
		s, ok := args[1].(string)
		if !ok {
			return nil, fail("join wants a string between the items, not %s", describe(args[1]))
		}
		sep = s
	}
	list, err := listOf(args[0])
	if err = errOr(err, b.see(args[0]), b.spend(len(list)*(1+len(sep)/64))); err != nil {
		return nil, err
	}
	parts := make([]string, len(list))
	for i, item := range list {
		if parts[i], err = text(item); err != nil {
			return nil, err
		}
	}
	return strings.Join(parts, sep), nil
}

func replaced(b *budget, args []any) (any, error) {
	var s [3]string
	for i, a := range args {
		t, ok := a.(string)
		if !ok {
			return nil, fail("replace wants strings, not %s", describe(a))
		}
		s[i] = t
	}
	if s[1] == "" {
		return nil, fail("replace wants a text to look for")
	}
	n := strings.Count(s[0], s[1])
	if err := b.spend(1 + len(s[0])/64 + n*(1+len(s[2])/64)); err != nil {
		return nil, err
	}
	return strings.ReplaceAll(s[0], s[1], s[2]), nil
}

func reversed(args []any) (any, error) {
	list, err := listOf(args[0])
	if err != nil {
		return nil, err
	}
	list = slices.Clone(list)
	slices.Reverse(list)
	return list, nil
}

func sorted(args []any) (any, error) {
	list, err := listOf(args[0])
	if err != nil {
		return nil, err
	}
	for i := 1; i < len(list); i++ {
		if _, err := compared(list[0], list[i]); err != nil {
			return nil, err
		}
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b any) int { c, _ := compared(a, b); return c })
	return list, nil
}

func uniq(b *budget, args []any) (any, error) {
	list, err := listOf(args[0])
	if err != nil {
		return nil, err
	}
	kept := []any{}
	for _, item := range list {
		found, err := contains(b, kept, item)
		if err != nil {
			return nil, err
		}
		if !found {
			kept = append(kept, item)
		}
	}
	return kept, nil
}

// flattened opens lists within the list, at any depth.
func flattened(args []any) (any, error) {
	list, err := listOf(args[0])
	if err != nil {
		return nil, err
	}
	return opened(make([]any, 0, len(list)), list), nil
}

func opened(to, list []any) []any {
	for _, item := range list {
		if inner, ok := item.([]any); ok {
			to = opened(to, inner)
		} else {
			to = append(to, item)
		}
	}
	return to
}

func concat(args []any) (any, error) {
	made := []any{}
	for _, a := range args {
		list, err := listOf(a)
		if err != nil {
			return nil, err
		}
		made = append(made, list...)
	}
	return made, nil
}

func sum(b *budget, args []any) (any, error) {
	list, err := listOf(args[0])
	if err != nil {
		return nil, err
	}
	var total any = 0
	for _, item := range list {
		if err := b.spend(1); err != nil {
			return nil, err
		}
		if _, ok := asFloat(item); !ok {
			return nil, fail("sum wants numbers, not %s", describe(item))
		}
		if total, err = arithmetic("+", total, item); err != nil {
			return nil, err
		}
	}
	return total, nil
}

// best returns the least (sign -1) or the greatest of its arguments, or of the one
// list given.
func best(args []any, sign int) (any, error) {
	if len(args) == 1 {
		list, err := listOf(args[0])
		if err != nil {
			return nil, err
		}
		args = list
	}
	var found any
	for i, v := range args {
		if i == 0 {
			found = v
			continue
		}
		c, err := compared(v, found)
		if err != nil {
			return nil, err
		}
		if c*sign > 0 {
			found = v
		}
	}
	return found, nil
}

// keys returns an object's names in their order, or its values in that of their names.
func keys(v any, values bool) (any, error) {
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fail("must be an object, not %s", describe(v))
	}
	names := slices.Sorted(maps.Keys(m))
	list := anys(names)
	for i, name := range names {
		if values {
			list[i] = m[name]
		}
	}
	return list, nil
}
