package main

import (
	"github.com/spf13/cobra"

	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/config/kubecontrollers"
)

func newConfigImportControllersCommand() *cobra.Command {
	var output, into string
	var partial bool
	cmd := &cobra.Command{
		Use:   "import-controllers FILE",
		Short: "Translate a KubeControllerManagerConfiguration into a configuration of this kernel",
		Long: "Translate a KubeControllerManagerConfiguration (kubecontrollermanager.config.k8s.io/v1alpha1), as YAML or JSON:\n" +
			"which controllers are on, and their settings. The result is checked as pintle config check does. What has no\n" +
			"counterpart and needs none is said on standard error. What is not supported is said there with file, line and\n" +
			"what to do; nothing is written then, unless --partial leaves it out.\n\n" +
			"With --into the controllers of an existing configuration are replaced, settings are put beside those that are\n" +
			"there, and the rest of it stays.",
		Example: "  pintle config import-controllers controllers.yaml --into configs/standalone.yaml -o pintle.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := readBounded(args[0])
			if err != nil {
				return err
			}
			t, err := kubecontrollers.Translate(args[0], data)
			var notes config.Faults
			if t != nil {
				notes = t.Notes
			}
			if err := tellTranslation(cmd.ErrOrStderr(), notes, err, partial && t != nil); err != nil {
				return err
			}
			return writeTranslation(cmd.OutOrStdout(), t, into, output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "file to write; empty: standard output")
	cmd.Flags().StringVar(&into, "into", "", "configuration that the controllers are put into; it is read only")
	cmd.Flags().BoolVar(&partial, "partial", false, "leave out what is not supported")
	return cmd
}
