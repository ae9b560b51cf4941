package main

import (
	"github.com/spf13/cobra"

	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/config/kubecontrollers"
)

func newConfigImportControllersCommand() *cobra.Command {
	return importCommand(&cobra.Command{
		Use:   "import-controllers FILE",
		Short: "Translate a KubeControllerManagerConfiguration into a configuration of this kernel",
		Long: "Translate a KubeControllerManagerConfiguration (kubecontrollermanager.config.k8s.io/v1alpha1), as YAML or JSON:\n" +
			"which controllers are on, and their settings. The result is checked as pintle config check does. What has no\n" +
			"counterpart and needs none is said on standard error. What is not supported is said there with file, line and\n" +
			"what to do; nothing is written then, unless --partial leaves it out.\n\n" +
			"With --into the controllers of an existing configuration are replaced, settings are put beside those that are\n" +
			"there, and the rest of it stays.",
		Example: "  pintle config import-controllers controllers.yaml --into configs/standalone.yaml -o pintle.yaml",
	}, "configuration that the controllers are put into; it is read only", func(name string, data []byte) (translation, config.Faults, error) {
		t, err := kubecontrollers.Translate(name, data)
		if t == nil {
			return nil, nil, err
		}
		return t, t.Notes, err
	})
}
