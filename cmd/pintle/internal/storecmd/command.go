package storecmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel/maintenance"
	"pintle.dev/pintle/kernel/store"
)

const storeLong = `Look after the store: everything that the API serves, with its history.

Which store:
  --kubeconfig FILE  the store of the running kernel that FILE leads to
  --data DIR         the data directory DIR: its kernel when one runs, else the
                     directory itself, offline
  neither            $KUBECONFIG, else --data $PINTLE_DATADIR, else --data .data

Online commands go through the API server, below /kernel/store/. They take an
administrator: cluster-admin, as in the admin.kubeconfig of the data
directory, or a ClusterRole with nonResourceURLs /kernel/store/* and the verbs
get (everything that reads) and post (compact).

Offline, a directory that is only read is not changed. --offline refuses to go
to a running kernel; a directory that one has open is then refused, with its pid.

Exit status: 0 done; 1 it failed, the message says what to do; 2 wrong flags or
arguments; 3 something was checked and is damaged (verify, and restore from a
damaged backup); 4 the key or revision asked for is not there (any more).`

func New() *cobra.Command {
	cmd := &cobra.Command{Use: "store", Short: "Look after the store: figures, history, backup, restore, verification", Long: storeLong}
	cmd.AddCommand(newStoreStatsCommand(), newStoreCompactCommand(), newStoreGetCommand(), newStoreHistoryCommand(),
		newStoreBackupCommand(), newStoreRestoreCommand(), newStoreVerifyCommand(), newStoreMigrateCommand())
	for _, sub := range cmd.Commands() {
		run := sub.RunE
		sub.RunE = func(cmd *cobra.Command, args []string) error { return withCode(run(cmd, args)) }
	}
	return cmd
}

// withCode gives errors of the store their exit codes, and what helps to their words.
func withCode(err error) error {
	var status *maintenance.StatusError
	switch {
	case err == nil || errors.As(err, new(cli.ExitError)) || errors.As(err, new(cli.UsageError)):
		return err
	case errors.As(err, new(*store.BackupError)), errors.As(err, new(*store.CorruptError)):
		return cli.ExitWith(err, cli.ExitDamaged)
	case errors.Is(err, store.ErrKeyNotFound), errors.As(err, new(*store.CompactedError)), errors.As(err, new(*store.FutureRevisionError)):
		return cli.ExitWith(err, cli.ExitGone)
	case errors.As(err, &status) && (status.Status.Code == 404 && status.Status.Reason != "" || status.Status.Code == 410):
		return cli.ExitWith(err, cli.ExitGone)
	}
	return err
}

// targetFlags say which store is meant.
type targetFlags struct {
	kubeconfig, data string
	offline          bool
	keys             cli.KeyFlag
}

func (f *targetFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the running kernel")
	cmd.Flags().StringVar(&f.data, "data", "", "data directory of the kernel, running or not")
	cli.CompleteFlag(cmd, "data", cli.Folders)
	cmd.Flags().BoolVar(&f.offline, "offline", false, "work on the directory; refuse when a kernel has it open")
	f.keys.Register(cmd)
	cmd.MarkFlagsMutuallyExclusive("kubeconfig", "data")
	cmd.MarkFlagsMutuallyExclusive("kubeconfig", "offline")
}

// open finds the store.
func (f *targetFlags) open() (maintenance.Source, error) {
	kubeconfig := f.kubeconfig
	if kubeconfig == "" && f.data == "" && !f.offline {
		kubeconfig = os.Getenv("KUBECONFIG")
	}
	if kubeconfig != "" {
		return dial(kubeconfig)
	}
	data, err := cli.DataDirectory(f.data)
	if err != nil {
		return nil, err
	}
	dir := cli.StoreDirectory(data)
	if _, used := store.InUse(dir); used && !f.offline {
		return dial(filepath.Join(data, "admin.kubeconfig"))
	}
	if _, err := os.Stat(dir); err != nil {
		return nil, cli.UsageFault(fmt.Errorf("no store in %s: name the data directory of a kernel with --data, or the way to a running one with --kubeconfig", data))
	}
	cfg, err := f.keys.Directory(dir)
	if err != nil {
		return nil, err
	}
	return maintenance.OpenDirectory(cfg, maintenance.NewDecoder()), nil
}

func dial(kubeconfig string) (maintenance.Source, error) {
	cfg, err := cli.KubeconfigOf(kubeconfig, "pintle-store")
	if err != nil {
		return nil, err
	}
	return maintenance.Dial(cfg)
}

// withStore opens the store, works and closes it.
func (f *targetFlags) withStore(ctx context.Context, work func(context.Context, maintenance.Source) error) error {
	s, err := f.open()
	if err != nil {
		return err
	}
	return errors.Join(work(ctx, s), s.Close())
}
