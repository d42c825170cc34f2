package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

func newSecret() *cobra.Command {
	cmd := &cobra.Command{
		Use: "secret", Short: "Keep the secrets that callbacks are signed with", GroupID: "use", Args: noVerb, RunE: help,
		Example: `  openssl rand -hex 32 | axd secret put hooks
  axd secret list`,
	}
	cmd.AddCommand(newSecretPut(), newSecretList(), newDelete("secret", "hooks", "Delete a secret that no job and no workflow names", (*client.Client).DeleteSecret))
	return cmd
}

const mostSecretInput = 4 << 10 // bytes read of a value

func newSecretPut() *cobra.Command {
	var c conn
	var in client.SecretRequest
	var file string
	cmd := &cobra.Command{
		Use: "put NAME", Short: "Create a secret, or give it another value", Args: exactlyOne("NAME"),
		Long: `Create a secret, or give it another value. The value is read from standard input
or from a file, without the line's end: a command line can be seen by others. It
is 16 to 256 bytes of text, or of base64 behind whsec_. Nothing shows it again.

The value before stays valid beside the new one, so that receivers can be
changed one by one; --retire forgets it, at once or with no new value later.
Servers need a --secret-key-file.`,
		Example: `  openssl rand -hex 32 | axd secret put hooks
  axd secret put hooks --value-file new.key
  axd secret put hooks --retire </dev/null     # forget the value before`,
	}
	cmd.Flags().StringVar(&file, "value-file", "", "the `file` that holds the value (default: standard input)")
	cmd.Flags().BoolVar(&in.Retire, "retire", false, "forget the value before")
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		text, err := readSecret(cmd.InOrStdin(), file)
		if err != nil {
			return err
		}
		in.Value = text
		s, err := cl.PutSecret(ctx, args[0], in)
		if err != nil {
			return about("secret", args[0], err)
		}
		return c.output.print(cmd.OutOrStdout(), s, func(t *table) { t.row(s.Name, "version "+strconv.FormatUint(s.Version, 10)) })
	})
}

// readSecret reads a value, without the line's end.
func readSecret(in io.Reader, file string) (string, error) {
	if file != "" {
		f, err := os.Open(file)
		if err != nil {
			return "", job.Invalid("--value-file", "can't be read: "+err.Error(), file)
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, mostSecretInput))
	if err != nil {
		return "", fmt.Errorf("read the value: %w", err)
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}

func newSecretList() *cobra.Command {
	var c conn
	cmd := &cobra.Command{
		Use: "list", Short: "List secrets, without their values", Args: noArgs, Example: `  axd secret list`,
	}
	return c.client(cmd, func(ctx context.Context, cl *client.Client, _ []string) error {
		list, err := cl.Secrets(ctx)
		if err != nil {
			return err
		}
		return c.output.print(cmd.OutOrStdout(), list, func(t *table) {
			now := time.Now()
			t.row("SECRET", "VERSION", "VALUES", "CHANGED")
			for _, s := range list.Secrets {
				values := "1"
				if s.TwoValues {
					values = "2"
				}
				t.row(s.Name, strconv.FormatUint(s.Version, 10), values, clock(&s.ChangedAt, now))
			}
		})
	})
}
