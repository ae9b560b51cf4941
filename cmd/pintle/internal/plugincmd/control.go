package plugincmd

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel/plugin/operate"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

func newPluginEnableCommand() *cobra.Command {
	var f changeFlags
	var profiles []string
	var weight int64
	cmd := &cobra.Command{
		Use:   "enable NAME",
		Short: "Switch a plugin on in the running kernel",
		Long: `Switch a plugin of a loaded bundle on, while the kernel runs; it stays on after a
restart. A predicate or priority is then asked in the profiles named, or where it
was, or in the first one. The scheduler takes it up between two decisions.

` + pluginExits,
		Example: `  pintle plugin enable BalancedResourceAllocation --weight 2
  pintle plugin enable PodFitsResources --profile default-scheduler --profile packer
  pintle plugin enable deployment`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("weight") && weight < 1 {
				return cli.UsageFault(errors.New("plugin enable: --weight: want 1 or more"))
			}
			return f.run(cmd, args[0], operate.Enable(profiles, weight), func(o *v1alpha1.Plugin) string {
				text := "enabled"
				if len(o.Spec.Profiles) > 0 {
					text += " in " + strings.Join(o.Spec.Profiles, ", ")
				}
				if o.Spec.Weight != nil {
					text += fmt.Sprintf(", weight %d", *o.Spec.Weight)
				}
				return text
			})
		},
	}
	f.register(cmd)
	cmd.Flags().StringArrayVar(&profiles, "profile", nil, "scheduler profile (its schedulerName) to use it in; may be repeated")
	cli.CompleteFlag(cmd, "profile", f.cluster.CompleteProfiles)
	cmd.Flags().Int64Var(&weight, "weight", 0, "factor of a priority's score; unchanged if not given")
	return cmd
}

func newPluginDisableCommand() *cobra.Command {
	var f changeFlags
	var profiles []string
	cmd := &cobra.Command{
		Use:   "disable NAME",
		Short: "Switch a plugin off in the running kernel",
		Long: `Switch a plugin off, while the kernel runs; it stays off after a restart. Its
bundle stays loaded.

` + pluginExits,
		Example: `  pintle plugin disable NodeAffinityPriority
  pintle plugin disable PodFitsResources --profile packer`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, args[0], operate.Disable(profiles), func(o *v1alpha1.Plugin) string {
				if o.Spec.Enabled == nil || *o.Spec.Enabled {
					return "left in " + strings.Join(o.Spec.Profiles, ", ")
				}
				return "disabled"
			})
		},
	}
	f.register(cmd)
	cmd.Flags().StringArrayVar(&profiles, "profile", nil, "scheduler profile to take it out of; default: all")
	cli.CompleteFlag(cmd, "profile", f.cluster.CompleteProfiles)
	return cmd
}

func newPluginUpgradeCommand() *cobra.Command {
	var f changeFlags
	var version, digest string
	cmd := &cobra.Command{
		Use:   "upgrade NAME",
		Short: "Turn a bundle to another installed version in the running kernel",
		Long: `Turn the bundle of a plugin to another version that is installed, while the
kernel runs. NAME is a plugin, or a bundle; all plugins of the bundle turn
together. Without --version and --digest it is the version that is installed for
use. The new version is started, configured, fed and tried before the scheduler
turns to it, between two decisions; on any fault the present one stays.

` + pluginExits,
		Example: `  pintle plugin upgrade PodFitsResources --version 1.2.0
  pintle plugin upgrade classic`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, args[0], operate.Upgrade(version, digest), inVersion)
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&version, "version", "", "version, as the bundle's manifest says")
	cli.CompleteFlag(cmd, "version", completeVersions(&f.cluster, true, true))
	cmd.Flags().StringVar(&digest, "digest", "", "digest of the artefact: sha256:…")
	return cmd
}

func newPluginRollbackCommand() *cobra.Command {
	var f changeFlags
	var version string
	cmd := &cobra.Command{
		Use:   "rollback NAME",
		Short: "Turn a bundle back to what was in force before",
		Long: `Turn the bundle of a plugin back to what was in force before its last upgrade, while
the kernel runs, as upgrade does: to its version, and to the configurations and
permissions that all its plugins had together with it. --version names an earlier
one (pintle plugin describe lists them). Another transport of one build is no other
version.

` + pluginExits,
		Example: `  pintle plugin rollback PodFitsResources`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, args[0], operate.Rollback(version), inVersion)
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&version, "version", "", "a former version; default: the last one")
	cli.CompleteFlag(cmd, "version", completeVersions(&f.cluster, true, false))
	return cmd
}

func inVersion(o *v1alpha1.Plugin) string {
	return fmt.Sprintf("of bundle %s is in version %s (%s)", o.Spec.Bundle, o.Status.Version, o.Status.Digest)
}
