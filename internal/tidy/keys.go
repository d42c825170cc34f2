package tidy

import (
	"go/ast"
	"reflect"
	"strconv"
	"strings"
)

// checkKeys finds fields of a struct that have one msgpack key: the library keeps
// the last of them and says so on stderr alone, so a row can't be read again.
func checkKeys(f *file) (found []Finding) {
	ast.Inspect(f.ast, func(n ast.Node) bool {
		s, ok := n.(*ast.StructType)
		if !ok {
			return true
		}
		seen := map[string]bool{}
		for _, field := range s.Fields.List {
			key := msgpackKey(field)
			if key != "" && (seen[key] || len(field.Names) > 1) {
				found = append(found, f.find(field, "%s is the msgpack key of another field too: one of the two is lost", key))
			}
			seen[key] = true
		}
		return true
	})
	return found
}

func msgpackKey(field *ast.Field) string {
	if field.Tag == nil {
		return ""
	}
	tag, err := strconv.Unquote(field.Tag.Value)
	if err != nil {
		return ""
	}
	key, _, _ := strings.Cut(reflect.StructTag(tag).Get("msgpack"), ",")
	if key == "-" {
		return ""
	}
	return key
}
