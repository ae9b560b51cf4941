package plugincmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel/catalog"
	"pintle.dev/pintle/kernel/catalog/references"
	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

var bundleName = regexp.MustCompile(`^[A-Za-z0-9][-_.A-Za-z0-9]*$`)

func newPluginRemoveCommand() *cobra.Command {
	var flags catalogFlags
	var output cli.OutputFlag
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "remove NAME",
		Short: "Take an installed bundle out of the lock file",
		Long: `Take an installed bundle out of the lock file. A kernel that runs on the data
directory stops its plugins, and it is waited until their Plugin objects are gone
(--timeout). One that the configuration names is refused: take it out there
first. Its files stay until pintle plugin gc.`,
		Example: "  pintle plugin remove quiet",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			if flags.source.File != "" {
				full, err := flags.source.Load()
				if err != nil {
					return err
				}
				for _, b := range full.Plugins.Bundles {
					if b.Name == args[0] {
						return fmt.Errorf("plugin bundle %s: %s names it in plugins.bundles; take it out there first", args[0], flags.source.File)
					}
				}
			}
			c, data, err := flags.open()
			if err != nil {
				return err
			}
			gone, err := c.Remove(args[0])
			if err != nil {
				return notInstalled(err)
			}
			if running(data) && timeout > 0 {
				ctx, stop := cli.Interruptible(cmd.Context())
				defer stop()
				if left := awaitUnloaded(ctx, data, &gone, timeout); left != "" {
					fmt.Fprintf(cmd.ErrOrStderr(), "%s is out of the lock, and the running kernel uses it still: %s; its log says why\n", args[0], left)
				}
			}
			return output.Print(cmd.OutOrStdout(), gone, func(w io.Writer) {
				cli.Row(w, "BUNDLE", "VERSION", "DIGEST", "RESULT")
				cli.Row(w, gone.Name, gone.Version.Version, gone.Digest, "removed")
			})
		},
	}
	flags.register(cmd, false)
	cmd.ValidArgsFunction = flags.complete(false)
	output.Register(cmd, "table")
	cmd.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "how long to wait at most until a running kernel has let go of it; 0 is not to wait")
	return asCatalog(cmd)
}

// awaitUnloaded waits until the running kernel has let go of a bundle, and says what is left.
func awaitUnloaded(ctx context.Context, data string, gone *catalog.Locked, timeout time.Duration) (left string) {
	client, err := (&cli.ConnectFlags{Data: data}).Plugins()
	if err != nil {
		return err.Error()
	}
	bar := cli.NewProgress(os.Stderr)
	defer bar.Done()
	return references.AwaitGone(ctx, client, gone, timeout, func() {
		bar.Tell("waiting for the kernel to let go of "+gone.Name, 0, 0, cli.Count)
	})
}

func newPluginGCCommand() *cobra.Command {
	var flags catalogFlags
	var output cli.OutputFlag
	var dry bool
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Remove bundles from the catalog that nothing names any more",
		Long: `Remove bundles from the catalog that neither the lock file names (in use, beside,
or to go back to), nor the configuration, nor a Plugin object of the running
kernel. Of each bundle, the five versions that were in use before stay, so that
a rollback finds them. What stays although the lock does not name it is said, and
why. When no kernel runs, its Plugin objects cannot be asked:
gc then refuses, unless --offline says that the lock is enough.`,
		Example: "  pintle plugin gc --dry-run",
		Args:    cobra.NoArgs,
	}
	var offline bool
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := output.Check(); err != nil {
			return err
		}
		c, data, err := flags.open()
		if err != nil {
			return err
		}
		var bundles []config.Bundle
		if flags.source.File != "" {
			full, err := flags.source.Load()
			if err != nil {
				return err
			}
			bundles = full.Plugins.Bundles
		}
		var objects []v1alpha1.Plugin
		switch {
		case running(data):
			ctx, stop := cli.Interruptible(cmd.Context())
			defer stop()
			client, err := (&cli.ConnectFlags{Data: data}).Plugins()
			if err != nil {
				return err
			}
			list, err := client.List(ctx)
			if err != nil {
				return fmt.Errorf("plugins of the running kernel: %w", err)
			}
			objects = list.Items
		case cli.Exists(cli.StoreDirectory(data)) && !offline && !dry:
			return errors.New("no kernel runs on " + data + ", so that its Plugin objects cannot be asked which bundles they name: start it, or say --offline")
		}
		by := references.Among(objects, bundles)
		gone, err := c.GC(func(e catalog.Entry) bool {
			why := by(e)
			if why != "" {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s %s (%s) stays: %s names it\n", e.Name, e.Version, e.Digest, why)
			}
			return why != ""
		}, dry)
		if err != nil {
			return err
		}
		if len(gone) == 0 && output.People() {
			fmt.Fprintln(cmd.ErrOrStderr(), "nothing to remove")
			return nil
		}
		return output.Print(cmd.OutOrStdout(), orEmpty(gone), func(w io.Writer) {
			cells := func(folder string, cells ...any) {
				if output.Wide() {
					cells = append(cells, folder)
				}
				cli.Row(w, cells...)
			}
			cells("FOLDER", "BUNDLE", "VERSION", "DIGEST", "SIZE", "RESULT")
			for _, e := range gone {
				result := "removed"
				if dry {
					result = "would be removed"
				}
				if e.Fault != "" {
					result += ": " + strings.SplitN(e.Fault, "\n", 2)[0]
				}
				cells(e.Directory, e.Name, e.Version, e.Digest, cli.BytesText(e.Bytes), result)
			}
		})
	}
	flags.register(cmd, false)
	output.Register(cmd, "table")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say what would be removed, and remove nothing")
	cmd.Flags().BoolVar(&offline, "offline", false, "go by the lock and the configuration alone")
	return asCatalog(cmd)
}
