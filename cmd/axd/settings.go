package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/axd-project/axd/job"
)

const maxSettings = 1 << 20 // bytes of a configuration file

// settings fills the flags that the command line left out: from AXD_* in the
// environment, then from the YAML file that --config names. A flag --data-dir
// is AXD_DATA_DIR there and data_dir here.
func settings(cmd *cobra.Command) error {
	flags := cmd.Flags()
	given := map[string]bool{} // by something that ranks higher
	flags.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	var err error
	flags.VisitAll(func(f *pflag.Flag) {
		v, ok := os.LookupEnv("AXD_" + envName(f.Name))
		if err != nil || given[f.Name] || !ok || v == "" || f.Name == "help" {
			return
		}
		given[f.Name] = true
		if e := flags.Set(f.Name, v); e != nil {
			err = job.Invalid("AXD_"+envName(f.Name), reason(f, e), v)
		}
	})
	if err != nil {
		return err
	}
	path, err := flags.GetString("config")
	if err != nil || path == "" {
		return err
	}
	return fileSettings(flags, given, path)
}

func envName(flag string) string { return strings.ToUpper(strings.ReplaceAll(flag, "-", "_")) }
func fileKey(flag string) string { return strings.ReplaceAll(flag, "-", "_") }

func fileSettings(flags *pflag.FlagSet, given map[string]bool, path string) error {
	size, err := checkFile("--config", path)
	if err != nil {
		return err
	}
	if size > maxSettings {
		return job.Invalid("--config", "must be a file of at most 1 MiB", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return job.Invalid("--config", "must be a file that can be read: "+err.Error(), "")
	}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return job.Invalid(path, "must be YAML: "+err.Error(), "")
	}
	if len(file.Docs) > 1 {
		return job.Invalid(path, "must hold one document", "")
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil || file.Docs[0].Body.Type() == ast.NullType {
		return nil
	}
	root, ok := file.Docs[0].Body.(ast.MapNode)
	if !ok {
		return at(path, file.Docs[0].Body, "must be a list of settings, such as \"name: s1\"", "")
	}
	known := map[string]string{} // key → flag
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != "config" && f.Name != "help" {
			known[fileKey(f.Name)] = f.Name
		}
	})
	for it := root.MapRange(); it.Next(); {
		key, ok := scalar(it.Key())
		name := known[key]
		if !ok || name == "" {
			return at(path, it.Key(), "is not a setting; there are "+strings.Join(sorted(known), ", "), key)
		}
		if given[name] {
			continue
		}
		if err := setFromFile(flags, name, path, it.Value()); err != nil {
			return err
		}
	}
	return nil
}

func setFromFile(flags *pflag.FlagSet, name, path string, value ast.Node) error {
	f := flags.Lookup(name)
	texts, err := scalars(value)
	if err != nil {
		return at(path, value, fileKey(name)+" "+err.Error(), "")
	}
	if f.Value.Type() != "stringSlice" && f.Value.Type() != "stringToString" {
		if value.Type() == ast.SequenceType || value.Type() == ast.MappingType || value.Type() == ast.MappingValueType {
			return at(path, value, fileKey(name)+" must be one value", "")
		}
	}
	if err := flags.Set(name, strings.Join(texts, ",")); err != nil {
		return at(path, value, fileKey(name)+" "+reason(f, err), strings.Join(texts, ","))
	}
	return nil
}

// scalars flattens a value: a list gives its items, a map "key=value" each.
func scalars(n ast.Node) ([]string, error) {
	switch v := n.(type) {
	case *ast.SequenceNode:
		var out []string
		for _, item := range v.Values {
			s, ok := scalar(item)
			if !ok {
				return nil, errors.New("must be a list of plain values")
			}
			out = append(out, s)
		}
		return out, nil
	case ast.MapNode:
		var out []string
		for it := v.MapRange(); it.Next(); {
			key, isKey := scalar(it.Key())
			s, ok := scalar(it.Value())
			if !ok || !isKey {
				return nil, errors.New("must be a map of plain values")
			}
			out = append(out, key+"="+s)
		}
		return out, nil
	}
	if s, ok := scalar(n); ok {
		return []string{s}, nil
	}
	return nil, errors.New("must have a value")
}

func scalar(n ast.Node) (string, bool) {
	if s, ok := n.(*ast.StringNode); ok {
		return s.Value, true
	}
	if _, ok := n.(ast.ScalarNode); !ok || n.Type() == ast.NullType {
		return "", false
	}
	return n.GetToken().Value, true
}

func at(path string, n ast.Node, rule, value string) error {
	where := path
	if t := n.GetToken(); t != nil && t.Position != nil {
		where = fmt.Sprintf("%s:%d", path, t.Position.Line)
	}
	return job.Invalid(where, rule, value)
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
