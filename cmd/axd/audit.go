package main

import (
	"cmp"
	"context"
	"os"
	"os/user"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/client"
)

func newAudit() *cobra.Command {
	cmd := &cobra.Command{
		Use: "audit", Short: "See who changed what", GroupID: "use", Args: noVerb, RunE: help,
		Example: `  axd audit list --kind job --object report`,
	}
	cmd.AddCommand(newAuditList())
	return cmd
}

func newAuditList() *cobra.Command {
	var c conn
	var f client.AuditFilter
	var limit int
	var cursor string
	cmd := &cobra.Command{
		Use: "list", Short: "List who changed definitions and acted by hand, the newest first", Args: noArgs,
		Long: `List who changed definitions and acted by hand, the newest first. It shows all
namespaces and what belongs to none, such as workers, unless --namespace or
AXD_NAMESPACE names one.

The actor is what the sender calls themselves, for this command line USER@HOST
or AXD_ACTOR: a claim that nothing proves. The address is where the server saw
the request come from. Records are kept for 90 days, at most 200,000 of them.`,
		Example: `  axd audit list --actor ann@desk --from 2026-03-01T00:00:00Z
  axd audit list --kind task --object 01KBN0Y2M80000000000000007`,
	}
	cmd.Flags().StringVar(&f.Actor, "actor", "", "what this `actor` did")
	cmd.Flags().StringVar(&f.Verb, "verb", "", "acts of this kind, such as put, delete, cancel")
	cmd.Flags().StringVar(&f.Kind, "kind", "", "acts on objects of this `kind`, such as job, task, worker")
	cmd.Flags().StringVar(&f.Name, "object", "", "acts on the object of this `name`; needs --kind")
	cmd.Flags().StringVar(&f.From, "from", "", "at or after this `time`, RFC 3339")
	cmd.Flags().StringVar(&f.To, "to", "", "before this `time`, RFC 3339")
	pageFlags(cmd, &limit, 50, &cursor)
	return c.client(cmd, func(ctx context.Context, cl *client.Client, _ []string) error {
		f.Namespace = cmp.Or(c.namespace, os.Getenv("AXD_NAMESPACE"))
		list, err := cl.Audit(ctx, f, limit, cursor)
		if err != nil {
			return err
		}
		c.tellMore(cmd, list.NextCursor)
		return c.output.print(cmd.OutOrStdout(), list, func(t *table) {
			now := time.Now()
			t.row("TIME", "ACTOR", "VERB", "KIND", "NAMESPACE", "OBJECT", "DETAIL")
			for _, r := range list.Records {
				t.wrapped(26, clock(&r.At, now), cut(cmp.Or(r.Actor, r.Address), 30), r.Verb, r.Kind, r.Namespace,
					cut(strings.Join(r.Names, ","), 40), cut(r.Detail, 50))
			}
		})
	})
}

// actor is who the command line says it acts for.
func actor() string {
	name := os.Getenv("AXD_ACTOR")
	if name == "" {
		name = os.Getenv("USER")
		if u, err := user.Current(); err == nil {
			name = u.Username
		}
		if host, err := os.Hostname(); err == nil {
			name += "@" + host
		}
	}
	name = strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, name), "?")
	for len(name) > client.MaxActor {
		name = strings.ToValidUTF8(name[:client.MaxActor], "")
	}
	return name
}
