package main

import (
	"github.com/spf13/cobra"

	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/config/kubeletconfig"
)

func newConfigImportKubeletCommand() *cobra.Command {
	return importCommand(&cobra.Command{
		Use:   "import-kubelet FILE",
		Short: "Translate a KubeletConfiguration into a configuration of this kernel",
		Long: "Translate a KubeletConfiguration (kubelet.config.k8s.io/v1beta1), as YAML or JSON, into the group node of a\n" +
			"configuration of this kernel. The result is checked as pintle config check does. What has no counterpart and\n" +
			"needs none is said on standard error. What is not supported is said there with file, line and what to do; nothing\n" +
			"is written then, unless --partial leaves it out.\n\n" +
			"With --into the settings are put into an existing configuration, and the rest of it stays.",
		Example: "  pintle config import-kubelet /var/lib/kubelet/config.yaml --into configs/standalone.yaml -o pintle.yaml",
	}, "configuration that the settings are put into; it is read only", func(name string, data []byte) (translation, config.Faults, error) {
		t, err := kubeletconfig.Translate(name, data)
		if t == nil {
			return nil, nil, err
		}
		return t, t.Notes, err
	})
}
