package storecmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel/maintenance"
	"pintle.dev/pintle/kernel/store"
)

func newStoreBackupCommand() *cobra.Command {
	var target targetFlags
	var output cli.OutputFlag
	var since string
	var noHistory, overwrite bool
	cmd := &cobra.Command{
		Use:   "backup {FILE | -}",
		Short: "Write a backup, consistent at one revision, while the kernel goes on",
		Long: `Write a backup to FILE, or to standard output for -. It is consistent at the
revision that was current when it began, whatever is written meanwhile, and
holds checksums a block and of the whole. It streams, and is checked as it is
written: what ends with status 0 can be restored. FILE appears when it is
complete, with mode 0600.

A full backup holds every object and, unless --no-history is given, the history
that is kept, so that watches resume after a restore and each revision of it
can be restored. An incremental one (--since) holds the changes since a
revision, best named by the former backup's file:

  pintle store backup monday.bak
  pintle store backup tuesday.bak --since monday.bak
  pintle store backup wednesday.bak --since tuesday.bak
  pintle store restore monday.bak tuesday.bak wednesday.bak --data NEW

The store keeps history for store.historyRetention (5 minutes by default): set
it longer than the time between two backups, or incremental ones find the
revision they begin at compacted (exit status 4); then take a full one.

A backup holds every Secret as the store has it. Keep pki/ of the data
directory with it: it is not part of a backup.`,
		Example: `  pintle store backup --data .data /backup/$(date +%F).bak
  pintle store backup --kubeconfig admin.kubeconfig - | zstd | ssh host 'cat > cluster.bak.zst'`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			request := maintenance.BackupRequest{History: !noHistory}
			if since != "" {
				if err := readSince(cmd.Context(), since, &request); err != nil {
					return err
				}
			}
			ctx, stop := cli.Interruptible(cmd.Context())
			defer stop()
			return target.withStore(ctx, func(ctx context.Context, s maintenance.Source) error {
				bar := cli.NewProgress(os.Stderr)
				defer bar.Done()
				begin := time.Now()
				write := func(w io.Writer) (b maintenance.Backup, err error) {
					b, err = s.Backup(ctx, request, w, func(done, total int64) { bar.Tell("backup", done, total, cli.Count) })
					return b, adviseFull(err)
				}
				if args[0] == "-" {
					if term.IsTerminal(int(os.Stdout.Fd())) {
						return cli.UsageFault(errors.New("a backup is not for a terminal: name a file, or send standard output elsewhere"))
					}
					b, err := write(cmd.OutOrStdout())
					bar.Done()
					if err == nil {
						err = output.Print(cmd.ErrOrStderr(), b, func(w io.Writer) { backupTable(w, args[0], b, time.Since(begin)) })
					}
					return err
				}
				b, err := cli.WriteFile(args[0], overwrite, write)
				bar.Done()
				if err != nil {
					return err
				}
				return output.Print(cmd.OutOrStdout(), b, func(w io.Writer) { backupTable(w, args[0], b, time.Since(begin)) })
			})
		},
	}
	target.register(cmd)
	output.Register(cmd, "table")
	cmd.Flags().StringVar(&since, "since", "", "take the changes since this backup's end, or since this revision")
	cmd.Flags().BoolVar(&noHistory, "no-history", false, "leave the history out of a full backup")
	cmd.Flags().BoolVar(&overwrite, "force", false, "replace FILE when it is there")
	return cmd
}

func backupTable(w io.Writer, file string, b maintenance.Backup, took time.Duration) {
	cli.Row(w, "FILE", "KIND", "FROM", "TO REVISION", "KEYS", "CHANGES", "SIZE", "TOOK", "SHA256")
	cli.Row(w, file, b.Kind, b.From, b.Revision, b.Keys, b.Changes, cli.BytesText(b.Size), took.Round(time.Millisecond), b.SHA256)
}

// adviseFull says what to do when an incremental backup cannot be had.
func adviseFull(err error) error {
	var status *maintenance.StatusError
	if errors.As(err, new(*store.CompactedError)) || errors.As(err, &status) && status.Status.Code == 410 {
		return cli.ExitWith(fmt.Errorf("%w: take a full backup (without --since); a longer store.historyRetention keeps more", err), cli.ExitGone)
	}
	return err
}

// readSince takes a revision, or a backup of which it reads the header.
func readSince(ctx context.Context, since string, request *maintenance.BackupRequest) error {
	request.Incremental = true
	if n, err := strconv.ParseUint(since, 10, 64); err == nil {
		request.Since = n
		return nil
	}
	f, err := os.Open(since)
	if err != nil {
		return cli.UsageFault(fmt.Errorf("--since %q is neither a revision nor a backup: %w", since, err))
	}
	defer f.Close()
	// All of it: nothing should be built on a backup that cannot be restored.
	h, _, err := store.VerifyBackup(ctx, bufio.NewReader(f), since, nil, nil)
	if err != nil {
		return fmt.Errorf("--since: %w", err)
	}
	request.Since, request.Store = h.Revision, h.Store
	return nil
}
