package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/axd-project/axd/chaos/process"
)

const plainSlots = 16

// startPlain starts ordinary workers, which run commands.
func (e *env) startPlain(ctx context.Context) error {
	var names []string
	for i := range e.opts.Workers {
		name := fmt.Sprintf("bench-%s-c%d", e.unique, i+1)
		p := e.group.Add(process.Command{
			Name: name, Path: e.opts.Bin, Log: filepath.Join(e.dir, name+".log"), Args: []string{
				"worker", "--name", name, "--data-dir", filepath.Join(e.dir, name), "--join", e.join,
				"--slots", strconv.Itoa(plainSlots),
			},
		})
		if err := p.Start(); err != nil {
			return err
		}
		e.plain, names = append(e.plain, p), append(names, name)
	}
	return e.awaitWorkers(ctx, names)
}
