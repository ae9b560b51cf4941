package storecmd

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel/maintenance"
	"pintle.dev/pintle/kernel/store"
)

func newStoreMigrateCommand() *cobra.Command {
	var data, to string
	var e maintenance.Etcd
	var output cli.OutputFlag
	var keys cli.KeyFlag
	cmd := &cobra.Command{
		Use:   "migrate --to {etcd | badger} --data DIR --servers URL,...",
		Short: "Move the objects from the embedded store to etcd, or back",
		Long: `Copy every object between the embedded store of the data directory DIR and etcd.
Stop every kernel on either first. Keys and bytes are the same on both sides
(/registry/...), encrypted values included. The source is not changed.

To etcd, resource versions are NOT kept: they are etcd's own revisions, and
etcd gives out each itself. What that means: watches and lists of clients that
saw the old cluster cannot go on from the versions they remember. Restart
controllers and other long-running clients after the move, so that they list
anew; kernels and their own parts do so by their start. What stores resource
versions in objects (rare) must tolerate new ones. UIDs, generations and all
else stay. A migration that was broken off goes on when it is run again; until it
is complete, a marker in etcd (/pintle.dev/migration...) says so, and no kernel
should be started on it. All of it is compared at the end.

To badger, resource versions ARE kept: the embedded store takes etcd's
revisions and goes on from there. History is not moved: watches from older
versions end with 410 Gone and list anew. The store of DIR must be absent or
empty, and appears when it is complete.

Take pki/ of the data directory along in both directions, and set store.backend
of the configuration (configs/docs/operations.md).`,
		Example: `  pintle store migrate --to etcd --data .data --servers http://127.0.0.1:2379
  pintle store migrate --to badger --data new --servers https://10.0.0.5:2379 --ca-file ca.crt --cert-file c.crt --key-file c.key`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			switch {
			case to != "etcd" && to != "badger":
				return cli.UsageFault(fmt.Errorf("--to %q: want etcd or badger", to))
			case len(e.Servers) == 0:
				return cli.UsageFault(errors.New("name etcd's members with --servers"))
			case to == "badger" && data == "":
				return cli.UsageFault(errors.New("name the data directory to make, with --data"))
			}
			dir, err := cli.DataDirectory(data)
			if err != nil {
				return err
			}
			cfg, err := keys.Directory(cli.StoreDirectory(dir))
			if err != nil {
				return err
			}
			if pid, used := store.InUse(cfg.Dir); used {
				return &store.LockedError{Dir: dir, PID: pid}
			}
			ctx, stop := cli.Interruptible(cmd.Context())
			defer stop()
			bar := cli.NewProgress(os.Stderr)
			defer bar.Done()
			tell := func(step string, done, total int64) { bar.Tell(step, done, total, cli.Count) }
			move := maintenance.ToEtcd
			if to == "badger" {
				move = maintenance.FromEtcd
			}
			m, err := move(ctx, cfg, e, tell)
			bar.Done()
			if err != nil {
				return err
			}
			return output.Print(cmd.OutOrStdout(), m, func(w io.Writer) {
				cli.Row(w, "TO", "KEYS", "BYTES", "OF A FORMER RUN", "FROM REVISION", "REVISION", "RESOURCE VERSIONS")
				kept := "new ones: restart clients that watch"
				if m.VersionsKept {
					kept = "kept"
				}
				cli.Row(w, to, m.Keys, cli.BytesText(m.Bytes), m.Present, m.FromRevision, m.Revision, kept)
			})
		},
	}
	output.Register(cmd, "table")
	keys.Register(cmd)
	cmd.Flags().StringVar(&to, "to", "", "where to move: etcd or badger")
	cli.CompleteFlag(cmd, "to", cli.OneOf("etcd", "badger"))
	cmd.Flags().StringVar(&data, "data", "", "data directory with the embedded store")
	cmd.Flags().StringSliceVar(&e.Servers, "servers", nil, "etcd's members, such as https://10.0.0.5:2379")
	cmd.Flags().StringVar(&e.CertFile, "cert-file", "", "client certificate for etcd")
	cmd.Flags().StringVar(&e.KeyFile, "key-file", "", "key of the client certificate")
	cmd.Flags().StringVar(&e.CAFile, "ca-file", "", "authority of etcd's certificates")
	cmd.Flags().StringVar(&e.Prefix, "prefix", "/registry", "what begins all keys in etcd (store.etcd.prefix)")
	return cmd
}
