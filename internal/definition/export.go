package definition

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

// Document is one exported definition.
type Document struct {
	Kind, Name string
	YAML       []byte
}

// Export writes all definitions of a client's namespace, or those of some kinds, in
// an order that does not change. set: those of that set of files alone.
func Export(ctx context.Context, c *client.Client, only []string, set string) ([]Document, error) {
	for _, name := range only {
		if kindNamed(name) == nil {
			return nil, job.Invalid("--kind", kindRule(), name)
		}
	}
	var out []Document
	for _, k := range kinds {
		if len(only) > 0 && !slices.Contains(only, k.Name) {
			continue
		}
		stored, err := k.everything(ctx, c)
		if err != nil {
			return nil, err
		}
		for _, name := range slices.Sorted(maps.Keys(stored)) {
			if set != "" && stored[name].Set != set {
				continue
			}
			data, err := YAML(k.Name, name, stored[name].Spec)
			if err != nil {
				return nil, err
			}
			out = append(out, Document{k.Name, name, data})
		}
	}
	return out, nil
}

// WriteTo writes documents into one stream.
func WriteTo(w io.Writer, docs []Document) error {
	for i, d := range docs {
		if i > 0 {
			if _, err := io.WriteString(w, "---\n"); err != nil {
				return err
			}
		}
		if _, err := w.Write(d.YAML); err != nil {
			return err
		}
	}
	return nil
}

// WriteDir writes each document into a file of its own, DIR/KINDs/NAME.yaml, and
// returns how many files it wrote. A file that has the same content is left alone;
// one with other content is replaced, but never where it is no such definition.
func WriteDir(dir string, docs []Document) (written int, err error) {
	paths := make([]string, len(docs))
	for i, d := range docs {
		paths[i] = filepath.Join(dir, d.Kind+"s", d.Name+".yaml")
		old, err := os.ReadFile(paths[i])
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, fileError(err)
		}
		o, err := parse(paths[i], old, "", kindNamed)
		if err != nil || len(o) != 1 || o[0].Kind.Name != d.Kind || o[0].Name != d.Name {
			return 0, job.Invalid(paths[i], "holds something else than "+d.Kind+" "+d.Name+" and is not replaced; nothing was written", "")
		}
		if bytes.Equal(old, d.YAML) {
			paths[i] = ""
		}
	}
	for i, d := range docs {
		if paths[i] == "" {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(paths[i]), 0o755); err != nil { //nolint:gosec // definitions are for all to read, as in git
			return written, fileError(err)
		}
		if err := os.WriteFile(paths[i], d.YAML, 0o644); err != nil { //nolint:gosec // the same
			return written, fileError(err)
		}
		written++
	}
	return written, nil
}
