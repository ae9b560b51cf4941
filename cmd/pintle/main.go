package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/cmd/pintle/internal/pkicmd"
	"pintle.dev/pintle/cmd/pintle/internal/plugincmd"
	"pintle.dev/pintle/cmd/pintle/internal/storecmd"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "kubectl" {
		os.Exit(runKubectl(os.Args[1:]))
	}
	if len(os.Args) == 3 && os.Args[1] == faultCommand {
		os.Exit(tellFault(os.Stderr, os.Args[2]))
	}
	root := newRootCommand()
	err := known(root, os.Args[1:])
	if err == nil {
		err = root.Execute()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		var code cli.ExitError
		if errors.As(err, &code) {
			os.Exit(code.Code)
		}
		var usage cli.UsageError
		if errors.As(err, &usage) {
			os.Exit(cli.ExitUsage)
		}
		os.Exit(cli.ExitFault)
	}
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "pintle",
		Short:         "A Kubernetes kernel in which every decision is a plugin",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return cli.UsageFault(fmt.Errorf("%s: %w; see %s --help", cmd.CommandPath(), err, cmd.CommandPath()))
	})
	root.AddCommand(newServeCommand(), newConfigCommand(), plugincmd.New(), storecmd.New(), pkicmd.New(),
		newExplainCommand(), newSimulateCommand(), newNodeCommand(), newTokenCommand(), newHollowCommand(), newKubectlCommand(), newVersionCommand())
	sayUsage(root)
	return root
}
