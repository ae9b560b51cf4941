package storecmd

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel/maintenance"
)

func newStoreStatsCommand() *cobra.Command {
	var target targetFlags
	var output cli.OutputFlag
	cmd := &cobra.Command{
		Use:   "stats",
		Short: "Objects and bytes by resource, revisions, disk, and how the watch bus keeps up",
		Example: `  pintle store stats --data .data
  pintle store stats --kubeconfig admin.kubeconfig -o json | jq .disk`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			return target.withStore(cmd.Context(), func(ctx context.Context, s maintenance.Source) error {
				st, err := s.Stats(ctx)
				if err != nil {
					return err
				}
				return output.Print(cmd.OutOrStdout(), st, func(w io.Writer) { statsTable(w, s.Where(), st) })
			})
		},
	}
	target.register(cmd)
	output.Register(cmd, "table")
	return cmd
}

func statsTable(w io.Writer, where string, st maintenance.Stats) {
	cli.Row(w, "STORE", st.Store, where)
	cli.Row(w, "REVISION", st.Revision)
	cli.Row(w, "COMPACTED", st.CompactedRevision, fmt.Sprintf("%d revisions can be read and watched from", st.Revision-st.CompactedRevision))
	if st.HeldRevision != 0 {
		cli.Row(w, "HELD", st.HeldRevision, "a backup or verification under way keeps history from here on")
	}
	d := st.Disk
	cli.Row(w, "TABLES", cli.BytesText(d.Tables), "by level: "+strings.Trim(fmt.Sprint(d.TablesByLevel), "[]"))
	cli.Row(w, "MEMTABLES", cli.BytesText(d.Memtables))
	cli.Row(w, "VALUE LOG", cli.BytesText(d.ValueLog))
	cli.Row(w, "OTHER FILES", cli.BytesText(d.Other))
	free := "writes are refused below " + cli.BytesText(d.MinFree)
	if d.ReadOnly {
		free = "the file system is read-only"
	}
	cli.Row(w, "DISK FREE", cli.BytesText(d.Free), free)
	if b := st.Bus; b != nil {
		cli.Row(w, "WRITES WAITING", st.QueueDepth)
		cli.Row(w, "WATCHES", b.Subscribers, fmt.Sprintf("%d behind, slowest by %d revisions", b.Behind, b.Lag))
		cli.Row(w, "EVENTS WAITING", b.Queued, fmt.Sprintf("at most %d a watch; %d drops to history", b.MaxQueued, b.Drops))
	}
	cli.Row(w)
	cli.Row(w, "RESOURCE", "OBJECTS", "BYTES")
	for _, r := range st.Resources {
		name := r.Resource
		if r.Group != "" {
			name += "." + r.Group
		}
		cli.Row(w, name, r.Objects, cli.BytesText(r.Bytes))
	}
	cli.Row(w, "total", st.Keys, cli.BytesText(st.Bytes))
}

func newStoreCompactCommand() *cobra.Command {
	var target targetFlags
	var output cli.OutputFlag
	var request maintenance.CompactRequest
	cmd := &cobra.Command{
		Use:   "compact {--revision N | --keep DURATION}",
		Short: "Drop history: revisions below the one named can no longer be read or watched from",
		Long: `Drop history: revisions below the one named can no longer be read or watched
from. What is live stays. A kernel does this by itself (store.historyRetention,
store.historyRevisions of its configuration); by hand it is done to free space
at once. Watches that are further behind end with 410 Gone and list again, and
an incremental backup can then only begin at the compacted revision or above.

--keep drops what was overwritten longer ago, to the nearest tick of the
kernel's own compaction (a tenth of store.historyRetention). It takes a running
kernel that has run for that long.

A backup under way keeps what it reads; the rest is dropped, and the output
says so. The space is given back before the command ends, but for files that
hold less than half garbage: they follow when more of them is, or as soon as
the disk is short. A kernel whose disk is short does all this by itself.`,
		Example: `  pintle store compact --data .data --keep 1m
  pintle store compact --kubeconfig admin.kubeconfig --revision 120000`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			if request.Keep < 0 || request.Keep == 0 && request.Revision == 0 {
				return cli.UsageFault(fmt.Errorf("%s: name --revision or --keep", cmd.CommandPath()))
			}
			return target.withStore(cmd.Context(), func(ctx context.Context, s maintenance.Source) error {
				c, err := s.Compact(ctx, request)
				if err != nil {
					return err
				}
				return output.Print(cmd.OutOrStdout(), c, func(w io.Writer) {
					fmt.Fprintf(w, "compacted to revision %d, %d revisions are kept\n", c.CompactedRevision, c.Revision-c.CompactedRevision)
					fmt.Fprintf(w, "%s were given back to the disk\n", cli.BytesText(c.FreedBytes))
					if c.GarbageBytes >= 1<<20 {
						fmt.Fprintf(w, "%s of deleted or overwritten values are in files that hold more of others: they follow when half of a file is such, and at once when the disk is short\n", cli.BytesText(c.GarbageBytes))
					}
					switch {
					case c.HeldRevision != 0:
						fmt.Fprintf(w, "revision %d was asked for; a backup or verification under way keeps those from %d on: compact again when it has ended\n", c.Requested, c.HeldRevision)
					case c.CompactedRevision > c.Requested:
						fmt.Fprintf(w, "revision %d was asked for, and was compacted before\n", c.Requested)
					}
				})
			})
		},
	}
	target.register(cmd)
	output.Register(cmd, "table")
	cmd.Flags().Uint64Var(&request.Revision, "revision", 0, "oldest revision to keep")
	cmd.Flags().DurationVar(&request.Keep, "keep", 0, "age of the revisions to keep, such as 10m")
	cmd.MarkFlagsMutuallyExclusive("revision", "keep")
	return cmd
}
