package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker: -X main.version=v0.1.0.
var version = "dev"

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", GroupID: "use", Args: noArgs,
		Example: `  axd version`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionLine())
			return err
		},
	}
}

func versionLine() string {
	return fmt.Sprintf("axd %s%s %s %s/%s", version, commit(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// commit returns what the build knows of its source, such as " (1a2b3c4d5e6f, modified)".
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	var rev, modified string
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			rev = s.Value[:min(12, len(s.Value))]
		case "vcs.modified":
			if s.Value == "true" {
				modified = ", modified"
			}
		}
	}
	if rev == "" {
		return ""
	}
	return " (" + rev + modified + ")"
}
