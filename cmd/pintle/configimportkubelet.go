package main

import (
	"github.com/spf13/cobra"

	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/config/kubeletconfig"
)

func newConfigImportKubeletCommand() *cobra.Command {
	var output, into string
	var partial bool
	cmd := &cobra.Command{
		Use:   "import-kubelet FILE",
		Short: "Translate a KubeletConfiguration into a configuration of this kernel",
		Long: "Translate a KubeletConfiguration (kubelet.config.k8s.io/v1beta1), as YAML or JSON, into the group node of a\n" +
			"configuration of this kernel. The result is checked as pintle config check does. What has no counterpart and\n" +
			"needs none is said on standard error. What is not supported is said there with file, line and what to do; nothing\n" +
			"is written then, unless --partial leaves it out.\n\n" +
			"With --into the settings are put into an existing configuration, and the rest of it stays.",
		Example: "  pintle config import-kubelet /var/lib/kubelet/config.yaml --into configs/standalone.yaml -o pintle.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := readBounded(args[0])
			if err != nil {
				return err
			}
			t, err := kubeletconfig.Translate(args[0], data)
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
	cmd.Flags().StringVar(&into, "into", "", "configuration that the settings are put into; it is read only")
	cmd.Flags().BoolVar(&partial, "partial", false, "leave out what is not supported")
	return cmd
}
