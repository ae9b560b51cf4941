package plugincmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"pintle.dev/pintle/kernel/plugin/seal"
)

func New() *cobra.Command {
	cmd := &cobra.Command{Use: "plugin", Short: "Manage plugins"}
	cmd.AddCommand(
		newPluginInitCommand(), newPluginBuildCommand(), newPluginTestCommand(), newPluginBenchCommand(), newPluginDevCommand(), newPluginSealCommand(),
		newPluginPackageCommand(), newPluginKeygenCommand(), newPluginInstallCommand(), newPluginInspectCommand(), newPluginVerifyCommand(), newPluginRemoveCommand(), newPluginGCCommand(),
		newPluginListCommand(), newPluginDescribeCommand(), newPluginEnableCommand(), newPluginDisableCommand(), newPluginUpgradeCommand(), newPluginRollbackCommand(),
		newPluginLogsCommand(), newPluginShadowCommand(), newPluginDiffCommand())
	return cmd
}

func newPluginSealCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "seal DIR...",
		Short: "Pin the artefacts of bundles by their digests and check their WASM modules",
		Long:  "Pin the artefacts of bundles by their digests, in artifacts.yaml beside the manifest, and compile their WASM modules once to see that they can run. It is the last step of building a bundle.",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, dirs []string) error {
			for _, dir := range dirs {
				if err := seal.Seal(cmd.Context(), dir); err != nil {
					return fmt.Errorf("plugin seal: %w", err)
				}
			}
			return nil
		},
	}
}
