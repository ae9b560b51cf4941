package plugincmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel/inspect"
	"pintle.dev/pintle/kernel/plugin/candidate"
	"pintle.dev/pintle/kernel/shadow"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

const shadowLong = `Run a candidate beside the version of a plugin that is in force: another build of
its bundle, fed with the same changes and asked about the same pods, and never used
in a decision. pintle plugin diff says where it differs; pintle plugin upgrade turns
to it; --off ends it.

The candidate is a version or digest that is installed (pintle plugin install
--beside), or --path: a folder, which is installed beside the version in use, on the
kernel's machine. The same is done by setting spec.shadow of the Plugin.
While it runs, two more instances of each bundle of the policy take memory. One that
cannot be started is refused, and there is none then.

` + cli.ConnectHelp + `

Exit status: 0 done; 1 it failed; 2 wrong flags or arguments; 3 the candidate cannot be
started, the message says why; 4 there is no such plugin, or the candidate was not
started in time (--timeout).`

func newPluginShadowCommand() *cobra.Command {
	var connect cli.ConnectFlags
	var timeout time.Duration
	var spec v1alpha1.PluginShadowSpec
	var output cli.OutputFlag
	var off bool
	var path string
	cmd := &cobra.Command{
		Use:   "shadow NAME {--version V | --digest D | --path FOLDER | --off}",
		Short: "Run a candidate beside a plugin on live decisions, without using it",
		Long:  shadowLong,
		Example: `  pintle plugin shadow PodFitsResources --version 0.2.0
  pintle plugin shadow PodFitsResources --path next/classic
  pintle plugin diff PodFitsResources --watch
  pintle plugin shadow PodFitsResources --off`,
		Args: oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			named := spec.Version != "" || spec.Digest != "" || path != ""
			if off == named {
				return cli.UsageFault(errors.New("plugin shadow: name a candidate with --version, --digest or --path, or end one with --off"))
			}
			cfg, err := connect.Config()
			if err != nil {
				return err
			}
			if path != "" {
				installed, err := installCandidate(cmd.Context(), &connect, cfg, args[0], path)
				if err != nil {
					return fmt.Errorf("plugin shadow: %w", err)
				}
				spec = *installed
			}
			c, err := candidate.Of(cfg, args[0])
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			var o *unstructured.Unstructured
			if off {
				o, err = c.Set(cmd.Context(), nil)
			} else {
				o, err = startCandidate(ctx, c, &spec)
			}
			if err != nil {
				return clusterCode("plugin shadow", err)
			}
			return output.Print(cmd.OutOrStdout(), o.Object, func(w io.Writer) {
				if off {
					fmt.Fprintf(w, "%s has no candidate any more\n", args[0])
					return
				}
				fmt.Fprintf(w, "a candidate of %s runs beside it: pintle plugin diff %s says where they differ\n", args[0], args[0])
				if output.Wide() {
					cli.Row(w, "VERSION", orDash(spec.Version))
					cli.Row(w, "DIGEST", orDash(spec.Digest))
				}
			})
		},
	}
	connect.Register(cmd)
	cmd.ValidArgsFunction = connect.Complete
	output.Register(cmd, "table")
	cmd.Flags().StringVar(&spec.Version, "version", "", "version of the candidate")
	cli.CompleteFlag(cmd, "version", completeVersions(&connect, true, true))
	cmd.Flags().StringVar(&spec.Digest, "digest", "", "digest of the candidate's artefact, sha256:…")
	cmd.Flags().StringVar(&path, "path", "", "folder of the candidate's bundle")
	cli.CompleteFlag(cmd, "path", cli.Folders)
	cmd.Flags().BoolVar(&off, "off", false, "end the candidate")
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "how long to wait at most until the candidate runs")
	cmd.MarkFlagsMutuallyExclusive("path", "version")
	cmd.MarkFlagsMutuallyExclusive("path", "digest")
	return cmd
}

// startCandidate starts a candidate, and says on a terminal what it waits for.
func startCandidate(ctx context.Context, c *candidate.Candidates, spec *v1alpha1.PluginShadowSpec) (*unstructured.Unstructured, error) {
	bar, begin := cli.NewProgress(os.Stderr), time.Now()
	defer bar.Done()
	return c.Start(ctx, spec, func(state string) {
		bar.Tell("waiting for "+state, int64(time.Since(begin).Seconds()), 0, func(n int64) string { return fmt.Sprintf("%d s", n) })
	})
}

// installCandidate installs the folder path beside the version of a plugin that is in force.
func installCandidate(ctx context.Context, connect *cli.ConnectFlags, cfg *rest.Config, name, path string) (*v1alpha1.PluginShadowSpec, error) {
	client, err := connect.Plugins()
	if err != nil {
		return nil, err
	}
	if err := candidate.Stale(ctx, client, name, path); apierrors.IsNotFound(err) {
		return nil, clusterCode("plugin shadow", err)
	} else if err != nil {
		return nil, err
	}
	flags := catalogFlags{source: cli.SourceFlags{Data: connect.Data}}
	c, _, err := flags.open()
	if err != nil {
		return nil, err
	}
	return candidate.InstallBeside(ctx, cfg, c, path)
}

// oneName demands one argument.
func oneName(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return cli.UsageFault(fmt.Errorf("%s: want one name; see %s --help", cmd.CommandPath(), cmd.CommandPath()))
	}
	return nil
}

const diffLong = `Say on which pods and nodes a candidate (pintle plugin shadow) and the version in
force disagree, and where pods would have been placed: by the whole policy, with
the candidate's verdicts and scores in it. Counts are since the candidate runs;
the last 256 disagreements are kept.

dropped: the machine had no time to compare; skipped: the candidate was being fed;
failed: it did not answer; not reproduced: the version in force, asked again,
decided otherwise.

` + cli.ConnectHelp + `

Exit status: 0 done; 1 it failed; 2 wrong flags or arguments; 4 there is no such plugin.`

func newPluginDiffCommand() *cobra.Command {
	var connect cli.ConnectFlags
	var output cli.OutputFlag
	var watch bool
	var last int
	cmd := &cobra.Command{
		Use:   "diff NAME",
		Short: "Say where a candidate and the version in force disagree",
		Long:  diffLong,
		Example: `  pintle plugin diff PodFitsResources
  pintle plugin diff PodFitsResources -o json | jq '.disagreements[] | select(.elsewhere)'
  pintle plugin diff PodFitsResources --watch`,
		Args: oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			if last < 0 {
				return cli.UsageFault(errors.New("--last must be at least 0"))
			}
			cfg, err := connect.Config()
			if err != nil {
				return err
			}
			c, err := inspect.Dial(cfg)
			if err != nil {
				return err
			}
			ask := func(after uint64) (*shadow.Report, error) {
				r := &shadow.Report{}
				err := c.Get(cmd.Context(), url.Values{"after": {strconv.FormatUint(after, 10)}}, r, "plugins", args[0], "diff")
				if apierrors.IsConflict(err) {
					return nil, fmt.Errorf("plugin diff: plugin %s has no candidate; pintle plugin shadow %s names one", args[0], args[0])
				}
				if err != nil {
					return nil, clusterCode("plugin diff", err)
				}
				if n := len(r.Disagreements); n > last {
					r.Disagreements = r.Disagreements[n-last:]
				}
				return r, nil
			}
			r, err := ask(0)
			if err != nil {
				return err
			}
			print := func(text func(io.Writer, *shadow.Report)) error {
				return output.Print(cmd.OutOrStdout(), r, func(w io.Writer) { text(w, r) })
			}
			if err := print(diffText); err != nil || !watch {
				return err
			}
			tick := time.NewTicker(time.Second)
			defer tick.Stop()
			var after uint64
			since := r.Since
			for {
				if n := len(r.Disagreements); n > 0 {
					after = r.Disagreements[n-1].Sequence
				}
				select {
				case <-cmd.Context().Done():
					return nil
				case <-tick.C:
				}
				if r, err = ask(after); err != nil {
					return err
				}
				if !r.Since.Equal(since) { // it started over
					after, since = 0, r.Since
					continue
				}
				if len(r.Disagreements) > 0 {
					if err := print(disagreementsText); err != nil {
						return err
					}
				}
			}
		},
	}
	connect.Register(cmd)
	cmd.ValidArgsFunction = connect.Complete
	output.Register(cmd, "table")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on and print disagreements as they come")
	cmd.Flags().IntVar(&last, "last", 20, "how many disagreements to show, the latest ones")
	return cmd
}

func diffText(w io.Writer, r *shadow.Report) {
	state := string(r.State)
	if r.Message != "" {
		state += ": " + r.Message
	}
	cli.Row(w, "BUNDLE", r.Bundle)
	cli.Row(w, "PRESENT", orDash(r.Present.Version), r.Present.Digest)
	cli.Row(w, "CANDIDATE", orDash(r.Candidate.Version), r.Candidate.Digest)
	cli.Row(w, "STATE", state)
	cli.Row(w, "SINCE", cli.When(r.Since))
	cli.Row(w, "COMPARED", r.Compared, fmt.Sprintf("dropped %d, skipped %d, failed %d, not reproduced %d", r.Dropped, r.Skipped, r.Failed, r.Unreproduced))
	if r.LastFailure != "" {
		cli.Row(w, "LAST FAILURE", r.LastFailure)
	}
	cli.Row(w, "DISAGREED", r.Disagreed, fmt.Sprintf("%d pods would be elsewhere", r.Elsewhere))
	if len(r.Plugins) > 0 {
		cli.Row(w)
		cli.Row(w, "PLUGIN", "DECISIONS", "NODES")
		for _, p := range r.Plugins {
			cli.Row(w, p.Plugin, p.Decisions, p.Nodes)
		}
	}
	if len(r.Disagreements) > 0 {
		cli.Row(w)
		disagreementsText(w, r)
	}
}

func disagreementsText(w io.Writer, r *shadow.Report) {
	cli.Row(w, "TIME", "POD", "NODE", "CANDIDATE", "ABOUT", "PLUGIN", "PRESENT SAYS", "CANDIDATE SAYS")
	place := func(node string) string {
		if node == "" {
			return "<none>"
		}
		return node
	}
	for i := range r.Disagreements {
		d := &r.Disagreements[i]
		candidate := "same"
		if d.Elsewhere {
			candidate = place(d.Candidate)
			if d.OneOf > 1 {
				candidate += fmt.Sprintf(" (of %d)", d.OneOf)
			}
		}
		lead := []any{cli.When(d.Time), d.Namespace + "/" + d.Pod, place(d.Node), candidate}
		for _, a := range d.Answers {
			cli.Row(w, append(lead, a.Node, a.Plugin, a.Present, a.Candidate)...)
			lead = []any{"", "", "", ""}
		}
		if more := d.Nodes - len(d.Answers); more > 0 {
			cli.Row(w, append(lead, fmt.Sprintf("and %d more", more))...)
		}
		if d.Nodes == 0 {
			cli.Row(w, append(lead, "", "", "", "")...)
		}
	}
}
