package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

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
	var output outputFlag
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
			if err := output.check(); err != nil {
				return err
			}
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			bar := newProgress(os.Stderr)
			defer bar.done()
			if len(files) > 0 {
				return verifyBackups(ctx, cmd, files, &output, bar)
			}
			return target.withStore(ctx, func(ctx context.Context, s maintenance.Source) error {
				report, err := s.Verify(ctx, func(step string, done, total int64) { bar.tell(step, done, total, count) })
				bar.done()
				if err != nil {
					return err
				}
				if err := output.print(cmd.OutOrStdout(), report, func(w io.Writer) { reportTable(w, s.Where(), report) }); err != nil {
					return err
				}
				if report.Found > 0 {
					return exitError{fmt.Errorf("%s: %d problems found: restore a backup into a new data directory", s.Where(), report.Found), exitDamaged}
				}
				return nil
			})
		},
	}
	target.register(cmd)
	output.register(cmd, "table")
	return cmd
}

func reportTable(w io.Writer, where string, r store.VerifyReport) {
	row(w, "STORE", where)
	row(w, "TABLES", fmt.Sprintf("%d, %s", r.Tables, bytesText(r.TableBytes)))
	row(w, "REVISIONS", fmt.Sprintf("%d to %d, %d changes", r.Compacted, r.Revision, r.Changes))
	row(w, "OBJECTS", fmt.Sprintf("%d, %s; with former versions %d", r.Keys, bytesText(r.Bytes), r.Versions))
	for _, p := range r.Problems {
		row(w, "PROBLEM", p)
	}
	if more := r.Found - int64(len(r.Problems)); more > 0 {
		row(w, "PROBLEM", fmt.Sprintf("and %d more", more))
	}
	if r.Found == 0 {
		row(w, "RESULT", "ok")
	}
}

func verifyBackups(ctx context.Context, cmd *cobra.Command, files []string, output *outputFlag, bar *progress) error {
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
	bar.done()
	err := output.print(cmd.OutOrStdout(), out, func(w io.Writer) {
		row(w, "FILE", "KIND", "FROM", "TO REVISION", "KEYS", "CHANGES", "CREATED", "RESULT")
		for _, v := range out {
			result := "ok"
			switch {
			case v.Error != "":
				result = v.Error
			case len(v.Undecodable) > 0:
				result = v.Undecodable[0]
			}
			if v.Kind == "" {
				row(w, v.File, "", "", "", "", "", "", result)
				continue
			}
			row(w, v.File, v.Kind, v.From, v.Revision, v.Keys, v.Changes, when(v.Created), result)
		}
	})
	if err == nil && bad > 0 {
		err = exitError{fmt.Errorf("%d of %d backups cannot be trusted: take new ones", bad, len(files)), exitDamaged}
	}
	return err
}

func verifyFile(ctx context.Context, file string, stdin io.Reader, decoder *maintenance.Decoder, bar *progress) (v verifiedBackup, err error) {
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
		func(bytes int64) { bar.tell("verify "+src.Name, bytes, size, bytesText[int64]) },
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
