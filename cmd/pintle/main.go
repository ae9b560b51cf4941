package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	exitFault = 1 // something failed while running
	exitUsage = 2 // wrong flags, arguments or configuration
)

// usageError marks faults of what the user wrote, which end with exitUsage.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

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
		var code exitError
		if errors.As(err, &code) {
			os.Exit(code.code)
		}
		var usage usageError
		if errors.As(err, &usage) {
			os.Exit(exitUsage)
		}
		os.Exit(exitFault)
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
		return usageError{fmt.Errorf("%s: %w; see %s --help", cmd.CommandPath(), err, cmd.CommandPath())}
	})
	root.AddCommand(newServeCommand(), newConfigCommand(), newPluginCommand(), newStoreCommand(), newPKICommand(),
		newExplainCommand(), newSimulateCommand(), newNodeCommand(), newTokenCommand(), newHollowCommand(), newKubectlCommand(), newVersionCommand())
	sayUsage(root)
	return root
}
