package storecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel/maintenance"
	"pintle.dev/pintle/kernel/store"
)

// verifiedBackup is the outcome for one file.
type verifiedBackup struct {
	File string `json:"file"`
	OK   bool   `json:"ok"`
	store.BackupHeader
	store.BackupEnd
	// Undecodable are values that are no objects, the first of them.
	Undecodable []string `json:"undecodable,omitempty"`
	Error       string   `json:"error,omitempty"`
}

func newStoreVerifyCommand() *cobra.Command {
	var target targetFlags
	var output cli.OutputFlag
	cmd := &cobra.Command{
		Use:   "verify [BACKUP...]",
		Short: "Read everything and check it: a store, online or offline, or backups",
		Long: `Check a store: the checksums of all tables and values; that history, values
and the index of live keys agree, so that nothing is lost and nothing is there
that should not be; and that each object can be decoded. Offline the directory
is not changed, also after a crash. Online it reads a snapshot while the kernel
goes on; compaction waits for it.

With BACKUP..., check those files instead: every checksum, the order, and that
each object can be decoded.

Exit status 3 says that something is damaged; what and where is printed.
What to do then: restore the latest backup into a new data directory.`,
		Example: `  pintle store verify --data .data
  pintle store verify monday.bak tuesday.bak -o json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, files []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			ctx, stop := cli.Interruptible(cmd.Context())
			defer stop()
			bar := cli.NewProgress(os.Stderr)
			defer bar.Done()
			if len(files) > 0 {
				return verifyBackups(ctx, cmd, files, &output, bar)
			}
			return target.withStore(ctx, func(ctx context.Context, s maintenance.Source) error {
				report, err := s.Verify(ctx, func(step string, done, total int64) { bar.Tell(step, done, total, cli.Count) })
				bar.Done()
				if err != nil {
					return err
				}
				if err := output.Print(cmd.OutOrStdout(), report, func(w io.Writer) { reportTable(w, s.Where(), report) }); err != nil {
					return err
				}
				if report.Found > 0 {
					return cli.ExitWith(fmt.Errorf("%s: %d problems found: restore a backup into a new data directory", s.Where(), report.Found), cli.ExitDamaged)
				}
				return nil
			})
		},
	}
	target.register(cmd)
	output.Register(cmd, "table")
	return cmd
}

func reportTable(w io.Writer, where string, r store.VerifyReport) {
	cli.Row(w, "STORE", where)
	cli.Row(w, "TABLES", fmt.Sprintf("%d, %s", r.Tables, cli.BytesText(r.TableBytes)))
	cli.Row(w, "REVISIONS", fmt.Sprintf("%d to %d, %d changes", r.Compacted, r.Revision, r.Changes))
	cli.Row(w, "OBJECTS", fmt.Sprintf("%d, %s; with former versions %d", r.Keys, cli.BytesText(r.Bytes), r.Versions))
	for _, p := range r.Problems {
		cli.Row(w, "PROBLEM", p)
	}
	if more := r.Found - int64(len(r.Problems)); more > 0 {
		cli.Row(w, "PROBLEM", fmt.Sprintf("and %d more", more))
	}
	if r.Found == 0 {
		cli.Row(w, "RESULT", "ok")
	}
}

func verifyBackups(ctx context.Context, cmd *cobra.Command, files []string, output *cli.OutputFlag, bar *cli.Progress) error {
	decoder := maintenance.NewDecoder()
	var out []verifiedBackup
	bad := 0
	for _, file := range files {
		v, err := verifyFile(ctx, file, cmd.InOrStdin(), decoder, bar)
		if err != nil {
			return err
		}
		if !v.OK {
			bad++
		}
		out = append(out, v)
	}
	bar.Done()
	err := output.Print(cmd.OutOrStdout(), out, func(w io.Writer) {
		cli.Row(w, "FILE", "KIND", "FROM", "TO REVISION", "KEYS", "CHANGES", "CREATED", "RESULT")
		for _, v := range out {
			result := "ok"
			switch {
			case v.Error != "":
				result = v.Error
			case len(v.Undecodable) > 0:
				result = v.Undecodable[0]
			}
			if v.Kind == "" {
				cli.Row(w, v.File, "", "", "", "", "", "", result)
				continue
			}
			cli.Row(w, v.File, v.Kind, v.From, v.Revision, v.Keys, v.Changes, cli.When(v.Created), result)
		}
	})
	if err == nil && bad > 0 {
		err = cli.ExitWith(fmt.Errorf("%d of %d backups cannot be trusted: take new ones", bad, len(files)), cli.ExitDamaged)
	}
	return err
}

func verifyFile(ctx context.Context, file string, stdin io.Reader, decoder *maintenance.Decoder, bar *cli.Progress) (v verifiedBackup, err error) {
	const kept = 10
	src := backupSource(file, stdin)
	in, err := src.Open()
	if err != nil {
		return v, err
	}
	defer in.Close()
	var size int64
	if info, err := os.Stat(file); err == nil {
		size = info.Size()
	}
	v.File = file
	v.BackupHeader, v.BackupEnd, err = store.VerifyBackup(ctx, in, src.Name,
		func(bytes int64) { bar.Tell("verify "+src.Name, bytes, size, cli.BytesText[int64]) },
		func(r *store.Record) error {
			if r.Type == store.Deleted || len(v.Undecodable) == kept {
				return nil
			}
			if err := decoder.Check(store.KV{Key: r.Key, Value: r.Value}); err != nil {
				v.Undecodable = append(v.Undecodable, fmt.Sprintf("key %s at revision %d: %v", r.Key, r.Revision, err))
			}
			return nil
		})
	if err != nil {
		if !errors.As(err, new(*store.BackupError)) {
			return v, err
		}
		v.Error = err.Error()
	}
	v.OK = err == nil && len(v.Undecodable) == 0
	return v, nil
}
