package plugincmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/version"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/seal"
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/conformance"
	"pintle.dev/pintle/sdk/toolchain"
)

// exitMissing is the exit code of a tool chain that is not here.
const exitMissing = 3

// bundleSource is a bundle's folder with what its manifest says.
type bundleSource struct {
	dir      string
	manifest *manifest.Manifest
	language string
}

// readSource reads the manifest and finds the language of a folder.
func readSource(dir string) (*bundleSource, error) {
	m, err := manifest.Read(filepath.Join(dir, manifest.File))
	if err != nil {
		return nil, cli.UsageFault(err)
	}
	if base := filepath.Base(mustAbs(dir)); base != m.Name {
		return nil, cli.UsageFault(fmt.Errorf("%s: the manifest's name is %s; a bundle's folder has its name", dir, m.Name))
	}
	if _, err := version.ParseGeneric(m.Version); err != nil {
		return nil, cli.UsageFault(fmt.Errorf("%s: version %q: want one as in semver, such as 1.0.0: upgrades tell by it which of two is newer", dir, m.Version))
	}
	s := &bundleSource{dir: dir, manifest: m}
	if s.language, err = toolchain.Detect(dir); err != nil {
		return nil, cli.UsageFault(err)
	}
	return s, nil
}

// targets are what the bundle is built for when nobody says.
func (s *bundleSource) targets() []string {
	module := !slices.ContainsFunc(s.manifest.Plugins, func(e manifest.Entry) bool {
		return !sdk.SchedulingKind(e.Kind) && e.Kind != sdk.KindController && e.Kind != sdk.KindAdmission
	})
	return toolchain.Targets(s.dir, s.language, module)
}

// build builds and seals the bundle.
func (s *bundleSource) build(ctx context.Context, targets []string, said io.Writer) ([]toolchain.Result, error) {
	if len(targets) == 0 {
		targets = s.targets()
	}
	results, err := toolchain.Build{Dir: s.dir, Name: s.manifest.Name, Language: s.language, Targets: targets, Output: said}.Run(ctx)
	if err != nil {
		return results, err
	}
	// What the language could have been built for and was not is of another source now.
	var stale []string
	for _, target := range s.targets() {
		if !slices.Contains(targets, target) {
			stale = append(stale, target)
		}
	}
	if err := seal.Unseal(s.dir, stale...); err != nil {
		return results, err
	}
	if err := seal.Seal(ctx, s.dir); err != nil {
		return results, err
	}
	return results, s.provides(ctx)
}

// provides starts what was built for this machine, and compares what it describes with
// the manifest.
func (s *bundleSource) provides(ctx context.Context) error {
	m, err := manifest.Read(filepath.Join(s.dir, manifest.File))
	if err != nil {
		return err
	}
	for _, a := range []*manifest.Artifact{m.Artifacts.WASM, m.Artifacts.Process} {
		if a == nil {
			continue
		}
		r, end, err := conformance.OpenBuild(ctx, filepath.Join(mustAbs(s.dir), filepath.FromSlash(a.Path)))
		if err != nil {
			return err
		}
		build, err := r.Open(ctx)
		if err == nil {
			err = errors.Join(m.Provides(build.Plugins()), build.Close(ctx))
		}
		if err = errors.Join(err, end(ctx)); err != nil {
			return fmt.Errorf("%s: %w", a.Path, err)
		}
	}
	return nil
}

// buildError gives a missing tool chain its exit code.
func buildError(what string, err error) error {
	var missing *toolchain.MissingError
	if errors.As(err, &missing) {
		return cli.ExitWith(fmt.Errorf("%s: %w", what, err), exitMissing)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// oneDirectory is the folder that a command is about; the present one by default.
func oneDirectory(cmd *cobra.Command, args []string) (string, error) {
	switch len(args) {
	case 0:
		return ".", nil
	case 1:
		return args[0], nil
	}
	return "", cli.UsageFault(fmt.Errorf("%s: want one folder, got %s", cmd.CommandPath(), strings.Join(args, " ")))
}

func newPluginBuildCommand() *cobra.Command {
	var targets []string
	var output cli.OutputFlag
	var verbose bool
	cmd := &cobra.Command{
		Use:   "build [DIR]",
		Short: "Build and seal a bundle",
		Long: `Build a bundle with the compiler of its language, and seal it: the digests of what
was built are written beside the manifest, into artifacts.yaml, and the module is
compiled once to see that it can run. What was built has to provide the plugins that
the manifest names.

  go              a WASM module and a process from one source (go)
  c               a WASM module (clang, wasm-ld)
  assemblyscript  a WASM module (node, npm)
  rust            a WASM module (cargo)
  node            a process (node, npm)

The results lie in DIR (the present folder by default), so that DIR is a bundle.
With --target, what was built for another target before is removed, so that a
bundle holds one version.

Exit codes: 0 built and sealed; 1 the compiler failed; 2 wrong arguments or
manifest; 3 a tool chain is missing, with the Debian packages that bring it.`,
		Example: `  pintle plugin build
  pintle plugin build quiet --target wasm --output json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := oneDirectory(cmd, args)
			if err != nil {
				return err
			}
			if err := output.Check(); err != nil {
				return err
			}
			s, err := readSource(dir)
			if err != nil {
				return err
			}
			said := io.Discard
			if verbose {
				said = cmd.ErrOrStderr()
			}
			p := cli.NewProgress(os.Stderr)
			p.Tell("building", 0, 0, cli.Count)
			results, err := s.build(cmd.Context(), targets, said)
			p.Done()
			if err != nil {
				return buildError("plugin build", err)
			}
			return output.Print(cmd.OutOrStdout(), results, func(w io.Writer) {
				cli.Row(w, "TARGET", "ARTEFACT", "SIZE", "TOOK")
				for _, r := range results {
					cli.Row(w, r.Target, r.Path, cli.BytesText(r.Bytes), r.Took.Round(10*time.Millisecond))
				}
			})
		},
	}
	cmd.Flags().StringSliceVar(&targets, "target", nil, "wasm, process or both (default what the language and the kinds can be)")
	cli.CompleteFlag(cmd, "target", cli.OneOf("wasm", "process"))
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "show what the compilers say")
	output.Register(cmd, "table")
	return cmd
}
