package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"pintle.dev/pintle/kernel/catalog"
	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

var bundleName = regexp.MustCompile(`^[A-Za-z0-9][-_.A-Za-z0-9]*$`)

// named reports which bundles of the catalog objects and configuration name.
func named(objects []v1alpha1.Plugin, bundles []config.Bundle) func(catalog.Entry) bool {
	digests, versions := map[string]bool{}, map[string]bool{}
	note := func(bundle, version, digest string) {
		if digest != "" {
			digests[digest] = true
		} else if version != "" {
			versions[bundle+" "+version] = true
		}
	}
	for i := range objects {
		o := &objects[i]
		note(o.Spec.Bundle, o.Spec.Version, o.Spec.Digest)
		note(o.Status.Bundle, o.Status.Version, o.Status.Digest)
		for _, p := range o.Status.Previous {
			note(o.Spec.Bundle, p.Version, p.Digest)
		}
		if s := o.Spec.Shadow; s != nil {
			note(o.Spec.Bundle, s.Version, s.Digest)
		}
	}
	for _, b := range bundles {
		note(b.Name, "", b.Digest)
	}
	return func(e catalog.Entry) bool {
		if digests[e.Digest] || versions[e.Name+" "+e.Version] {
			return true
		}
		for _, d := range e.Artifacts {
			if digests[d] {
				return true
			}
		}
		return false
	}
}

func newPluginRemoveCommand() *cobra.Command {
	var flags catalogFlags
	var output outputFlag
	cmd := &cobra.Command{
		Use:   "remove NAME",
		Short: "Take an installed bundle out of the lock file",
		Long: `Take an installed bundle out of the lock file. A kernel that runs on the data
directory stops its plugins at once. One that the configuration names is
refused: take it out there first. Its files stay until pintle plugin gc.`,
		Example: "  pintle plugin remove quiet",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.check(); err != nil {
				return err
			}
			if flags.source.file != "" {
				full, err := flags.source.load()
				if err != nil {
					return err
				}
				for _, b := range full.Plugins.Bundles {
					if b.Name == args[0] {
						return fmt.Errorf("plugin bundle %s: %s names it in plugins.bundles; take it out there first", args[0], flags.source.file)
					}
				}
			}
			c, _, err := flags.open()
			if err != nil {
				return err
			}
			gone, err := c.Remove(args[0])
			if err != nil {
				return notInstalled(err)
			}
			return output.print(cmd.OutOrStdout(), gone, func(w io.Writer) {
				row(w, "BUNDLE", "VERSION", "DIGEST", "RESULT")
				row(w, gone.Name, gone.Version.Version, gone.Digest, "removed")
			})
		},
	}
	flags.register(cmd, false)
	output.register(cmd, "table")
	return asCatalog(cmd)
}

func newPluginGCCommand() *cobra.Command {
	var flags catalogFlags
	var output outputFlag
	var dry bool
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Remove bundles from the catalog that nothing names any more",
		Long: `Remove bundles from the catalog that neither the lock file names (in use, beside,
or to go back to), nor the configuration, nor a Plugin object of the running
kernel. Of each bundle, the five versions that were in use before stay, so that
a rollback finds them. When no kernel runs, its Plugin objects cannot be asked:
gc then refuses, unless --offline says that the lock is enough.`,
		Example: "  pintle plugin gc --dry-run",
		Args:    cobra.NoArgs,
	}
	var offline bool
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := output.check(); err != nil {
			return err
		}
		c, data, err := flags.open()
		if err != nil {
			return err
		}
		var bundles []config.Bundle
		if flags.source.file != "" {
			full, err := flags.source.load()
			if err != nil {
				return err
			}
			bundles = full.Plugins.Bundles
		}
		var objects []v1alpha1.Plugin
		switch {
		case running(data):
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			client, err := (&connectFlags{data: data}).plugins()
			if err != nil {
				return err
			}
			list, err := client.List(ctx)
			if err != nil {
				return fmt.Errorf("plugins of the running kernel: %w", err)
			}
			objects = list.Items
		case exists(storeDirectory(data)) && !offline && !dry:
			return errors.New("no kernel runs on " + data + ", so that its Plugin objects cannot be asked which bundles they name: start it, or say --offline")
		}
		gone, err := c.GC(named(objects, bundles), dry)
		if err != nil {
			return err
		}
		return output.print(cmd.OutOrStdout(), orEmpty(gone), func(w io.Writer) {
			row(w, "BUNDLE", "VERSION", "DIGEST", "SIZE", "RESULT")
			for _, e := range gone {
				result := "removed"
				if dry {
					result = "would be removed"
				}
				if e.Fault != "" {
					result += ": " + strings.SplitN(e.Fault, "\n", 2)[0]
				}
				row(w, e.Name, e.Version, e.Digest, bytesText(e.Bytes), result)
			}
		})
	}
	flags.register(cmd, false)
	output.register(cmd, "table")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say what would be removed, and remove nothing")
	cmd.Flags().BoolVar(&offline, "offline", false, "go by the lock and the configuration alone")
	return asCatalog(cmd)
}
