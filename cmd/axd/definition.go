package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/spf13/cobra"

	"github.com/axd-project/axd/job"
)

// definition is a job in a file. YAML and JSON are read alike.
type definition struct {
	Kind         string `yaml:"kind"`
	Namespace    string `yaml:"namespace"`
	Name         string `yaml:"name"`
	Description  string `yaml:"description"`
	job.Executor `yaml:",inline"`
	job.Policy   `yaml:",inline"`
}

// onlyFile refuses flags that would be ignored beside a file.
func onlyFile(cmd *cobra.Command) error {
	for _, name := range append([]string{
		"description", "http", "method", "header", "body", "handler", "env", "dir", "user", "priority", "timeout",
		"idempotent", "queue-timeout", "total-timeout", "heartbeat-timeout",
		"grace", "retries", "selector", "require", "route", "sticky", "app", "owner", "cpu", "memory",
	}, append(retryFlagNames, failureFlagNames...)...) {
		if cmd.Flags().Changed(name) {
			return job.Invalid("--"+name, "can't be combined with -f; set it in the file", "")
		}
	}
	return nil
}

const maxDefinitions = 4 << 20 // bytes of a file of definitions

// readDefinitions reads and checks a whole file; errors name its lines.
func readDefinitions(name string, stdin io.Reader, namespace string) ([]definition, error) {
	in := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, job.Invalid("-f", err.Error(), "")
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxDefinitions+1))
	if err != nil {
		return nil, job.Invalid("-f", err.Error(), "")
	}
	if len(data) > maxDefinitions {
		return nil, job.Invalid(name, "must be at most 4 MiB", "")
	}
	var defs []definition
	dec := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict())
	for n := 1; ; n++ {
		var d definition
		if err := dec.Decode(&d); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, explain(name, data, err)
		}
		where := fmt.Sprintf("%s: document %d", name, n)
		switch {
		case d.Kind != "" && d.Kind != "job":
			return nil, job.Invalid(where+": kind", "must be job", d.Kind)
		case d.Name == "":
			return nil, job.Invalid(where+": name", "is missing", "")
		case d.Namespace != "" && d.Namespace != namespace:
			return nil, job.Invalid(where+": namespace", "must be the one asked for, "+strconv.Quote(namespace)+" (--namespace)", d.Namespace)
		}
		defs = append(defs, d)
	}
	if len(defs) == 0 {
		return nil, job.Invalid(name, "holds no definition", "")
	}
	return defs, nil
}

// explain says what is wrong with a definition in the file's terms: line, path
// of the field, and what it must be.
func explain(file string, data []byte, err error) error {
	var refused *job.Error
	if errors.As(err, &refused) { // by a type's own rule, which doesn't know where it stands
		line, path, _ := place(data, func(n ast.Node) bool {
			text, ok := scalar(n)
			return ok && job.Shorten(text) == refused.Value
		})
		return &job.Error{Code: refused.Code, Field: where(file, line, cmp.Or(path, refused.Field)), Rule: refused.Rule, Value: refused.Value}
	}
	var bad yaml.Error
	if !errors.As(err, &bad) || bad.GetToken() == nil || bad.GetToken().Position == nil {
		return job.Invalid(file, "must be YAML: "+err.Error(), "")
	}
	token := bad.GetToken()
	rule, value := ruleOf(bad), token.Value
	if rule == "" {
		return job.Invalid(where(file, token.Position.Line, ""), bad.GetMessage(), "")
	}
	_, path, n := place(data, func(n ast.Node) bool {
		t := n.GetToken()
		return t != nil && t.Position != nil && t.Position.Offset == token.Position.Offset
	})
	if path == "exec.limits.memory" {
		rule += " of bytes, such as 67108864 for 64 MiB"
	}
	if _, ok := n.(ast.ScalarNode); !ok {
		value = "" // of a list or a map it would be a bracket
	}
	return job.Invalid(where(file, token.Position.Line, path), rule, value)
}

func where(file string, line int, path string) string {
	if line > 0 {
		file += ":" + strconv.Itoa(line)
	}
	if path != "" {
		file += ": " + path
	}
	return file
}

// ruleOf says what a value must be that has another type; "" for other errors.
func ruleOf(err yaml.Error) string {
	var mismatch *yaml.TypeError
	var overflow *yaml.OverflowError
	var node *yaml.UnexpectedNodeTypeError
	switch {
	case errors.As(err, &mismatch):
		return kindRule(mismatch.DstType)
	case errors.As(err, &overflow):
		return kindRule(overflow.DstType) + " within its range"
	case errors.As(err, &node):
		switch node.Expected {
		case ast.SequenceType:
			return "must be a list"
		case ast.MappingType:
			return "must be a map of fields"
		default:
			return "must be one value"
		}
	}
	return ""
}

func kindRule(t reflect.Type) string {
	if t == nil {
		return "must be of another type"
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "must be a whole number"
	case reflect.Float32, reflect.Float64:
		return "must be a number"
	case reflect.Bool:
		return "must be true or false"
	case reflect.String:
		return "must be a text"
	case reflect.Slice, reflect.Array:
		return "must be a list"
	default:
		return "must be a map of fields"
	}
}

// place finds the first node that is meant, with its line and its path, such as
// exec.limits.memory. Line 0: there is none.
func place(data []byte, meant func(ast.Node) bool) (line int, path string, found ast.Node) {
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return 0, "", nil
	}
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		ast.Walk(visitor(func(n ast.Node) {
			if found == nil && meant(n) {
				found = n
			}
		}), doc.Body)
	}
	if found == nil || found.GetToken() == nil || found.GetToken().Position == nil {
		return 0, "", found
	}
	return found.GetToken().Position.Line, strings.TrimPrefix(strings.TrimPrefix(found.GetPath(), "$"), "."), found
}

type visitor func(ast.Node)

// Visit implements ast.Visitor.
func (v visitor) Visit(n ast.Node) ast.Visitor {
	v(n)
	return v
}
