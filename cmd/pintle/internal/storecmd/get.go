package storecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel/maintenance"
)

const keyHelp = `KEY is the place of an object in the store, with or without /registry/ before
it: pods/NAMESPACE/NAME, nodes/NAME, deployments/NAMESPACE/NAME,
services/NAMESPACE/NAME; for custom resources GROUP/RESOURCE/NAMESPACE/NAME.`

func newStoreGetCommand() *cobra.Command {
	var target targetFlags
	var output cli.OutputFlag
	var encryption encryptionFlag
	var revision uint64
	var raw bool
	cmd := &cobra.Command{
		Use:   "get KEY [--revision N]",
		Short: "Show an object as it is stored, now or at a revision",
		Long:  "Show an object as it is stored, now or at a revision that is still kept.\n\n" + keyHelp,
		Example: `  pintle store get pods/default/web-0
  pintle store get /registry/configmaps/default/settings --revision 4711 -o json
  pintle store get pods/default/web-0 --raw > pod.bin
  pintle store get secrets/default/token --encryption-config encryption.yaml`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			return target.withStore(cmd.Context(), func(ctx context.Context, s maintenance.Source) error {
				key := maintenance.Key(args[0])
				v, err := s.Get(ctx, key, revision)
				if err != nil {
					return fmt.Errorf("%s: %w", key, err)
				}
				if raw {
					_, err := cmd.OutOrStdout().Write(v.Value)
					return err
				}
				if v.Value, err = encryption.open(ctx, key, v.Value); err != nil {
					return err
				}
				obj, err := maintenance.NewDecoder().Object(v.Value, v.Revision)
				if err != nil {
					return fmt.Errorf("%s: %w", key, err)
				}
				return output.Print(cmd.OutOrStdout(), obj.Object, func(w io.Writer) {
					cli.Row(w, "KEY", "REVISION", "KIND", "NAMESPACE", "NAME", "BYTES", "EXPIRES")
					expires := "never"
					if v.Expires != nil {
						expires = cli.When(*v.Expires)
					}
					cli.Row(w, key, v.Revision, obj.GetKind(), obj.GetNamespace(), obj.GetName(), len(v.Value), expires)
				})
			})
		},
	}
	target.register(cmd)
	encryption.register(cmd)
	output.Register(cmd, "yaml")
	cmd.Flags().Uint64Var(&revision, "revision", 0, "revision at which to read; 0: the current one")
	cmd.Flags().BoolVar(&raw, "raw", false, "write the bytes that are stored, not decoded")
	return cmd
}

func newStoreHistoryCommand() *cobra.Command {
	var target targetFlags
	var output cli.OutputFlag
	var encryption encryptionFlag
	var limit, around int
	cmd := &cobra.Command{
		Use:   "history KEY",
		Short: "Show who changed an object, and what, as far as its history is kept",
		Long: `Show who changed an object, and what, the oldest change first, as far as the
history is kept (store.historyRetention of the configuration, 5 minutes by
default). Who is the field managers whose entries in managedFields are new or
different: kubectl, a controller, the scheduler, the node agent. What is a diff
of the object without managed fields.

` + keyHelp,
		Example: `  pintle store history deployments/default/web
  pintle store history pods/default/web-0 --limit 3 -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			if limit < 1 || around < 0 {
				return cli.UsageFault(errors.New("--limit must be at least 1 and --context at least 0"))
			}
			return target.withStore(cmd.Context(), func(ctx context.Context, s maintenance.Source) error {
				key := maintenance.Key(args[0])
				versions, err := s.History(ctx, key, limit+1) // the first is what the others are compared with
				if err != nil {
					return fmt.Errorf("%s: %w", key, err)
				}
				if err := encryption.openAll(ctx, versions); err != nil {
					return err
				}
				changes := maintenance.NewDecoder().Changes(versions, around)
				if len(changes) > limit {
					changes = changes[len(changes)-limit:]
				}
				if output.Format != "table" {
					return output.Print(cmd.OutOrStdout(), changes, nil)
				}
				return historyText(cmd.OutOrStdout(), changes)
			})
		},
	}
	target.register(cmd)
	encryption.register(cmd)
	output.Register(cmd, "table")
	cmd.Flags().IntVar(&limit, "limit", 20, "latest changes to show")
	cmd.Flags().IntVar(&around, "context", 2, "unchanged lines around a change")
	return cmd
}

func historyText(w io.Writer, changes []maintenance.Change) error {
	for i, c := range changes {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "revision %d %s", c.Revision, c.Type)
		if len(c.By) > 0 {
			fmt.Fprintf(w, " by %s", strings.Join(c.By, ", "))
		}
		if c.Time != "" {
			fmt.Fprintf(w, " at %s", c.Time)
		}
		fmt.Fprintln(w)
		if c.Note != "" {
			fmt.Fprintf(w, "  %s\n", c.Note)
		}
		for l := range strings.Lines(c.Diff) {
			if _, err := fmt.Fprintf(w, "  %s", l); err != nil {
				return err
			}
		}
	}
	return nil
}
