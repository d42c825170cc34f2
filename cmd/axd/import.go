package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/internal/crontab"
	"github.com/axd-project/axd/internal/definition"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/job/cron"
)

func newImport() *cobra.Command {
	cmd := &cobra.Command{
		Use: "import", Short: "Turn what other schedulers run into definitions", GroupID: "use", Args: noVerb, RunE: help,
		Example: `  crontab -l | axd import crontab - >definitions/cron.yaml`,
	}
	cmd.AddCommand(newImportCrontab())
	return cmd
}

func newImportCrontab() *cobra.Command {
	var opt crontab.Options
	var to string
	cmd := &cobra.Command{
		Use: "crontab FILE", Short: "Turn the lines of a crontab into jobs and schedules",
		Long: `Turn each line of a crontab into a job and a schedule of one name, as YAML that
'axd apply' takes: to standard output, or with -o into a directory, a file for
each. - reads standard input. Nothing is sent to a cluster.

What cron does and the definitions don't is told, line by line, on standard
error. Where a line could not be expressed, the exit code is 1; the others are
written all the same.`,
		Example: `  crontab -l | axd import crontab - --timezone Europe/Berlin >cron.yaml
  axd import crontab /etc/crontab -o definitions/
  axd import crontab /etc/cron.d/backup | axd validate -`,
		Args: exactlyOne("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := importCrontab(cmd, args[0], to, opt); err != nil {
				return &runError{code: exitCode(err), err: unlessCancelled(err)}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.BoolVar(&opt.System, "system", false, "lines name a user, as in /etc/crontab and /etc/cron.d, where it is the default")
	f.StringVar(&opt.User, "user", "", "whose crontab it is: `user` that the commands run as (default: the worker's own)")
	f.StringVar(&opt.Timezone, "timezone", "", "IANA `zone` of the machine that it is from (default UTC)")
	f.StringVarP(&to, "output", "o", "-", "`directory` to write into; - is standard output")
	return cmd
}

const maxCrontab = 1 << 20 // bytes

func importCrontab(cmd *cobra.Command, file, to string, opt crontab.Options) error {
	if _, err := cron.Zone(opt.Timezone); err != nil {
		return job.Invalid("--timezone", err.Error(), "")
	}
	in := cmd.InOrStdin()
	opt.Name = "crontab"
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return job.Invalid("FILE", err.Error(), "")
		}
		defer func() { _ = f.Close() }()
		in, opt.Name = f, filepath.Base(file)
		if path, err := filepath.Abs(file); err == nil && (path == "/etc/crontab" || filepath.Dir(path) == "/etc/cron.d") {
			opt.System = true
		}
	}
	data, err := io.ReadAll(io.LimitReader(in, maxCrontab+1))
	if err != nil {
		return job.Invalid("FILE", err.Error(), "")
	}
	if len(data) > maxCrontab {
		return job.Invalid("FILE", "must be at most 1 MiB", "")
	}
	defs, notes := crontab.Convert(data, opt)
	docs := make([]definition.Document, 0, len(defs))
	for _, d := range defs {
		text, err := definition.YAML(d.Kind, d.Name, d.Spec)
		if err != nil {
			return err
		}
		if d.Comment != "" {
			text = append([]byte("# "+printable(d.Comment)+"\n"), text...)
		}
		docs = append(docs, definition.Document{Kind: d.Kind, Name: d.Name, YAML: text})
	}
	if err := writeImported(cmd, to, docs); err != nil {
		return err
	}
	return reportImport(cmd, defs, notes)
}

func writeImported(cmd *cobra.Command, to string, docs []definition.Document) error {
	if to == "-" {
		return definition.WriteTo(cmd.OutOrStdout(), docs)
	}
	_, err := definition.WriteDir(to, docs)
	return err
}

func reportImport(cmd *cobra.Command, defs []crontab.Definition, notes []crontab.Note) error {
	var b bytes.Buffer
	lost := 0
	for _, n := range notes {
		mark := "note"
		if n.Lost {
			mark = "not expressed"
			lost++
		}
		fmt.Fprintf(&b, "axd: %s: %s\n", mark, printable(n.String()))
	}
	jobs := 0
	for _, d := range defs {
		if d.Kind == "job" {
			jobs++
		}
	}
	fmt.Fprintf(&b, "axd: %s, %s", plural(jobs, "job"), plural(len(defs)-jobs, "schedule"))
	if lost > 0 {
		fmt.Fprintf(&b, "; %s not expressed", plural(lost, "thing"))
	}
	b.WriteByte('\n')
	_, err := io.Copy(cmd.ErrOrStderr(), strings.NewReader(b.String()))
	if err == nil && lost > 0 {
		err = &runError{code: exitFailed}
	}
	return err
}
