package storecmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel/store"
)

// restoreResult is what a restore prints.
type restoreResult struct {
	Data              string  `json:"data"`
	Store             string  `json:"store"`
	Revision          uint64  `json:"revision"`
	CompactedRevision uint64  `json:"compactedRevision"`
	Keys              int64   `json:"keys"`
	Changes           int64   `json:"changes"`
	Seconds           float64 `json:"seconds"`
}

func newStoreRestoreCommand() *cobra.Command {
	var data string
	var output cli.OutputFlag
	var o store.RestoreOptions
	var keys cli.KeyFlag
	cmd := &cobra.Command{
		Use:   "restore FILE... --data DIR",
		Short: "Make a store from a full backup and the incremental ones that follow it",
		Long: `Make the store of the data directory DIR from a full backup and the incremental
ones that follow it, in order. DIR may have other things, such as pki/ of the
cluster; its store must be absent or empty. Checksums are verified before
anything is written (of standard input, FILE -, while it is read), and the store
appears when it is complete: an error or Ctrl-C leaves nothing behind.

Objects keep their resource versions. With the history in the backup, watches
resume from every revision that it holds. The restored store has an id of its
own: its next backup is a full one.

--revision N restores an earlier state: each revision that the backups hold,
as restore and verify show them.

Clients that saw revisions after the one restored, of the cluster as it was,
would wait for those to come again and keep what they remember. When such
clients are still there, --bump-revision 1000000000 raises the revision above
anything they know and drops the history, so that they all list anew.

Then start the kernel: pintle serve --config FILE --data DIR`,
		Example: `  pintle store restore monday.bak tuesday.bak --data /var/lib/pintle
  pintle store restore monday.bak tuesday.bak --data /tmp/look --revision 48213
  zstd -dc cluster.bak.zst | pintle store restore - --data /var/lib/pintle`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			if data == "" {
				return cli.UsageFault(errors.New("name the data directory to make, with --data"))
			}
			dir, err := cli.DataDirectory(data)
			if err != nil {
				return err
			}
			if pid, used := store.InUse(cli.StoreDirectory(dir)); used {
				return &store.LockedError{Dir: dir, PID: pid}
			}
			ctx, stop := cli.Interruptible(cmd.Context())
			defer stop()
			bar := cli.NewProgress(os.Stderr)
			defer bar.Done()
			sizes := map[string]int64{}
			sources := make([]store.BackupSource, len(files))
			for i, file := range files {
				sources[i] = backupSource(file, cmd.InOrStdin())
				if info, err := os.Stat(file); err == nil {
					sizes[file] = info.Size()
				}
			}
			o.Progress = func(step, name string, bytes int64) {
				bar.Tell(step+" "+name, bytes, sizes[name], cli.BytesText[int64])
			}
			cfg, err := keys.Directory(cli.StoreDirectory(dir))
			if err != nil {
				return err
			}
			begin := time.Now()
			r, err := store.Restore(ctx, cfg, sources, o)
			bar.Done()
			if err != nil {
				return fmt.Errorf("nothing was restored: %w", err)
			}
			out := restoreResult{dir, r.ID, r.Revision, r.Compacted, r.Keys, r.Changes, time.Since(begin).Seconds()}
			return output.Print(cmd.OutOrStdout(), out, func(w io.Writer) {
				cli.Row(w, "DATA", "REVISION", "HISTORY FROM", "KEYS", "CHANGES", "TOOK")
				cli.Row(w, out.Data, out.Revision, out.CompactedRevision, out.Keys, out.Changes, time.Since(begin).Round(time.Millisecond))
			})
		},
	}
	output.Register(cmd, "table")
	keys.Register(cmd)
	cmd.Flags().StringVar(&data, "data", "", "data directory to make; its store must be absent or empty")
	cmd.Flags().Uint64Var(&o.Revision, "revision", 0, "revision to restore to; 0: the end of the last backup")
	cmd.Flags().Uint64Var(&o.Bump, "bump-revision", 0, "raise the restored revision by this much and drop the history")
	return cmd
}

func backupSource(file string, stdin io.Reader) store.BackupSource {
	if file == "-" {
		return store.BackupSource{Name: "standard input", Once: true, Open: func() (io.ReadCloser, error) { return io.NopCloser(stdin), nil }}
	}
	return store.BackupSource{Name: file, Open: func() (io.ReadCloser, error) { return os.Open(file) }}
}
