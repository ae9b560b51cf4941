package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"pintle.dev/pintle/kernel/catalog"
	"pintle.dev/pintle/kernel/inspect"
	"pintle.dev/pintle/kernel/plugin"
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
While it runs, two more instances of each bundle of the policy take memory.

` + connectHelp + `

Exit status: 0 done; 1 it failed; 2 wrong flags or arguments; 4 there is no such plugin.`

func newPluginShadowCommand() *cobra.Command {
	var connect connectFlags
	var spec v1alpha1.PluginShadowSpec
	var output outputFlag
	var off bool
	var path string
	cmd := &cobra.Command{
		Use:   "shadow NAME {--version V | --digest D | --path FOLDER | --off}",
		Short: "Run a candidate beside a plugin on live decisions, without using it",
		Long:  shadowLong,
		Example: `  pintle plugin shadow PodFitsResources --version 0.2.0
  pintle plugin shadow PodFitsResources --path build/classic-next
  pintle plugin diff PodFitsResources --watch
  pintle plugin shadow PodFitsResources --off`,
		Args: oneName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.check(); err != nil {
				return err
			}
			candidate := spec.Version != "" || spec.Digest != "" || path != ""
			if off == candidate {
				return usageError{errors.New("plugin shadow: name a candidate with --version, --digest or --path, or end one with --off")}
			}
			cfg, err := connect.config()
			if err != nil {
				return err
			}
			if path != "" {
				installed, err := installBeside(cmd.Context(), cfg, path, connect.data)
				if err != nil {
					return fmt.Errorf("plugin shadow: %w", err)
				}
				spec = *installed
			}
			client, err := dynamic.NewForConfig(cfg)
			if err != nil {
				return err
			}
			var value any // null takes the field away
			if candidate {
				value = spec
			}
			patch, err := json.Marshal(map[string]any{"spec": map[string]any{"shadow": value}})
			if err != nil {
				return err
			}
			o, err := client.Resource(v1alpha1.SchemeGroupVersion.WithResource("plugins")).
				Patch(cmd.Context(), args[0], types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "pintle"})
			if err != nil {
				return gone(fmt.Errorf("plugin shadow: %w", err))
			}
			return output.print(cmd.OutOrStdout(), o.Object, func(w io.Writer) {
				if off {
					fmt.Fprintf(w, "%s has no candidate any more\n", args[0])
					return
				}
				fmt.Fprintf(w, "a candidate of %s runs beside it: pintle plugin diff %s says where they differ\n", args[0], args[0])
				if output.wide() {
					row(w, "VERSION", orDash(spec.Version))
					row(w, "DIGEST", orDash(spec.Digest))
				}
			})
		},
	}
	connect.register(cmd)
	output.register(cmd, "table")
	cmd.Flags().StringVar(&spec.Version, "version", "", "version of the candidate")
	cmd.Flags().StringVar(&spec.Digest, "digest", "", "digest of the candidate's artefact, sha256:…")
	cmd.Flags().StringVar(&path, "path", "", "folder of the candidate's bundle")
	cmd.Flags().BoolVar(&off, "off", false, "end the candidate")
	cmd.MarkFlagsMutuallyExclusive("path", "version")
	cmd.MarkFlagsMutuallyExclusive("path", "digest")
	return cmd
}

// installBeside installs the bundle of a folder next to the one in use, which
// is installed first where it only lies in a folder: the first build of a bundle in the
// catalog is the one that is used.
func installBeside(ctx context.Context, cfg *rest.Config, path, data string) (*v1alpha1.PluginShadowSpec, error) {
	m, err := plugin.ReadManifest(filepath.Join(path, plugin.ManifestFile))
	if err != nil {
		return nil, err
	}
	flags := catalogFlags{source: sourceFlags{data: data}}
	c, _, err := flags.open()
	if err != nil {
		return nil, err
	}
	lock, err := c.Lock()
	if err != nil {
		return nil, err
	}
	if lock.Bundle(m.Name) == nil {
		kernel, err := inspect.Dial(cfg)
		if err != nil {
			return nil, err
		}
		var policy plugin.Config
		if err := kernel.Get(ctx, nil, &policy, "policy"); err != nil {
			return nil, err
		}
		at := slices.IndexFunc(policy.Bundles, func(b plugin.BundleConfig) bool { return b.Name == m.Name })
		if at < 0 {
			return nil, fmt.Errorf("%s holds bundle %s, of which no profile uses a plugin", path, m.Name)
		}
		if _, err := c.Install(ctx, policy.Bundles[at].Directory, catalog.InstallOptions{}); err != nil {
			return nil, err
		}
	}
	got, err := c.Install(ctx, path, catalog.InstallOptions{Beside: true})
	if err != nil {
		return nil, err
	}
	spec := &v1alpha1.PluginShadowSpec{Version: got.Version}
	for _, a := range []*plugin.Artifact{m.Artifacts.Process, m.Artifacts.WASM} {
		if a != nil {
			spec.Digest = a.Digest
		}
	}
	return spec, nil
}

// oneName demands one argument.
func oneName(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageError{fmt.Errorf("%s: want one name; see %s --help", cmd.CommandPath(), cmd.CommandPath())}
	}
	return nil
}

// gone gives what is not there its exit code.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return exitError{err, exitGone}
	}
	return err
}

const diffLong = `Say on which pods and nodes a candidate (pintle plugin shadow) and the version in
force disagree, and where pods would have been placed: by the whole policy, with
the candidate's verdicts and scores in it. Counts are since the candidate runs;
the last 256 disagreements are kept.

dropped: the machine had no time to compare; skipped: the candidate was being fed;
failed: it did not answer; not reproduced: the version in force, asked again,
decided otherwise.

` + connectHelp + `

Exit status: 0 done; 1 it failed; 2 wrong flags or arguments; 4 there is no such plugin.`

func newPluginDiffCommand() *cobra.Command {
	var connect connectFlags
	var output outputFlag
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
			if err := output.check(); err != nil {
				return err
			}
			if last < 0 {
				return usageError{errors.New("--last must be at least 0")}
			}
			cfg, err := connect.config()
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
				if err != nil {
					return nil, gone(fmt.Errorf("plugin diff: %w", err))
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
				return output.print(cmd.OutOrStdout(), r, func(w io.Writer) { text(w, r) })
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
	connect.register(cmd)
	output.register(cmd, "table")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on and print disagreements as they come")
	cmd.Flags().IntVar(&last, "last", 20, "how many disagreements to show, the latest ones")
	return cmd
}

func diffText(w io.Writer, r *shadow.Report) {
	state := string(r.State)
	if r.Message != "" {
		state += ": " + r.Message
	}
	row(w, "BUNDLE", r.Bundle)
	row(w, "PRESENT", r.Present.Version, r.Present.Digest)
	row(w, "CANDIDATE", r.Candidate.Version, r.Candidate.Digest)
	row(w, "STATE", state)
	row(w, "SINCE", when(r.Since))
	row(w, "COMPARED", r.Compared, fmt.Sprintf("dropped %d, skipped %d, failed %d, not reproduced %d", r.Dropped, r.Skipped, r.Failed, r.Unreproduced))
	if r.LastFailure != "" {
		row(w, "LAST FAILURE", r.LastFailure)
	}
	row(w, "DISAGREED", r.Disagreed, fmt.Sprintf("%d pods would be elsewhere", r.Elsewhere))
	if len(r.Plugins) > 0 {
		row(w)
		row(w, "PLUGIN", "DECISIONS", "NODES")
		for _, p := range r.Plugins {
			row(w, p.Plugin, p.Decisions, p.Nodes)
		}
	}
	if len(r.Disagreements) > 0 {
		row(w)
		disagreementsText(w, r)
	}
}

func disagreementsText(w io.Writer, r *shadow.Report) {
	row(w, "TIME", "POD", "NODE", "CANDIDATE", "ABOUT", "PLUGIN", "PRESENT SAYS", "CANDIDATE SAYS")
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
		lead := []any{when(d.Time), d.Namespace + "/" + d.Pod, place(d.Node), candidate}
		for _, a := range d.Answers {
			row(w, append(lead, a.Node, a.Plugin, a.Present, a.Candidate)...)
			lead = []any{"", "", "", ""}
		}
		if more := d.Nodes - len(d.Answers); more > 0 {
			row(w, append(lead, fmt.Sprintf("and %d more", more))...)
		}
		if d.Nodes == 0 {
			row(w, append(lead, "", "", "", "")...)
		}
	}
}
