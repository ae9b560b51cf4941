package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
)

// sayUsage has wrong arguments of a command and of all below it, and flags that
// do not go together, end with cli.ExitUsage and one form of words.
func sayUsage(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			if err == nil {
				// The library looks at these after the arguments, and says it as a fault.
				err = errors.Join(cmd.ValidateRequiredFlags(), cmd.ValidateFlagGroups())
			}
			if err == nil || errors.As(err, new(cli.UsageError)) {
				return err
			}
			return cli.UsageFault(fmt.Errorf("%s: %w; see %s --help", cmd.CommandPath(), err, cmd.CommandPath()))
		}
	}
	for _, sub := range cmd.Commands() {
		sayUsage(sub)
	}
}

// known fails for a command that is not there. The library answers one below a
// group of commands with the group's help, as if that had been asked for.
func known(root *cobra.Command, args []string) error {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	if len(args) > 0 && strings.HasPrefix(args[0], "__") {
		return nil // a shell completes a line
	}
	cmd, rest, err := root.Find(args)
	switch {
	case err != nil:
		return cli.UsageFault(fmt.Errorf("%w; see %s --help", err, root.Name()))
	case !cmd.Runnable() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-"):
		return cli.UsageFault(fmt.Errorf("unknown command %q for %q; see %s --help", rest[0], cmd.CommandPath(), cmd.CommandPath()))
	}
	return nil
}
