package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel"
	"pintle.dev/pintle/kernel/config"
)

func newConfigCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Check and show configurations"}
	cmd.AddCommand(newConfigCheckCommand(), newConfigShowCommand(), newConfigImportCommand(), newConfigImportKubeletCommand(), newConfigImportControllersCommand())
	return cmd
}

func newConfigCheckCommand() *cobra.Command {
	var src cli.SourceFlags
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a configuration; every fault is one line with file, line, key and what would be right",
		Long: "Check a configuration, and what it says of plugins against the bundles of this machine: that they are there\n" +
			"and unchanged, that profiles name what they hold, that plugins' configurations keep to their schemas.\n" +
			"Files that it names for authentication, authorization, admission and audit are read and checked, too.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				src.File = args[0]
			}
			cfg, err := src.Load()
			if err != nil {
				return err
			}
			exe, err := cli.Binary()
			if err != nil {
				return err
			}
			warnings, err := kernel.Check(cfg, exe)
			if err != nil {
				return cli.UsageFault(err)
			}
			for _, w := range warnings {
				fmt.Fprintf(cmd.ErrOrStderr(), "warning: %v\n", w)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: ok\n", cmp.Or(src.File, "the defaults (no file is named)"))
			return err
		},
	}
	src.Register(cmd)
	return cmd
}

func newConfigShowCommand() *cobra.Command {
	var src cli.SourceFlags
	cmd := &cobra.Command{
		Use:   "show [FILE]",
		Short: "Print the whole configuration in force: defaults, file, environment and --set together",
		Long: "Print the whole configuration in force: defaults, file, PINTLE_… environment and --set together.\n" +
			"Beside each key stands what it means, whether a change of the file takes effect while the kernel runs\n" +
			"(live) or at the next start (restart), its environment variable and its range.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				src.File = args[0]
			}
			cfg, err := config.Load(src.Source())
			if err != nil {
				return cli.UsageFault(err)
			}
			return config.Show(cmd.OutOrStdout(), cfg)
		},
	}
	src.Register(cmd)
	return cmd
}
