package plugincmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/sdk/artifact"
	"pintle.dev/pintle/sdk/conformance"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/toolchain"
)

// casesDirectory is where a bundle's cases lie.
const casesDirectory = "cases"

// testResult is one line of what pintle plugin test reports.
type testResult struct {
	Build   string `json:"build"`
	Check   string `json:"check"`
	Fault   string `json:"fault,omitempty"`
	Skipped string `json:"skipped,omitempty"`
}

func (r testResult) verdict() string {
	switch {
	case r.Fault != "":
		return "FAIL"
	case r.Skipped != "":
		return "skipped"
	}
	return "ok"
}

func newPluginTestCommand() *cobra.Command {
	var output cli.OutputFlag
	var seeds int
	var seed uint64
	var update, built, quick bool
	cmd := &cobra.Command{
		Use:   "test [DIR]",
		Short: "Build a bundle and test what was built",
		Long: `Build a bundle, and test what was built:

  - the author's own tests (go test; node --test),
  - the cases in cases/*.yaml: a cluster, a pod, and the wanted answers,
  - the contract's own suite: descriptions, bad configurations, malformed deltas,
    questions out of range, the same question twice, in another order and to a
    fresh replica, memory, and the end of the process,
  - where there are two builds, that both say the same on random clusters.

--quick is for between two changes: the cases and the suite on one build, the module
where there is one, with one random cluster; nothing else is run.

--no-build tests what lies in DIR, as it was sealed; it needs no source there.

--update writes the answers of the build into the cases' want sections instead
of comparing them. A fault on a random cluster names its seed: --seed N --seeds 1
shows it alone.

Exit codes: 0 all passed; 1 something failed; 2 wrong arguments or manifest;
3 a tool chain is missing.`,
		Example: `  pintle plugin test
  pintle plugin test quiet --quick
  pintle plugin test quiet --update
  pintle plugin test quiet --seeds 500 --output json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := oneDirectory(cmd, args)
			if err != nil {
				return err
			}
			if err := output.Check(); err != nil {
				return err
			}
			if quick && !cmd.Flags().Changed("seeds") {
				seeds = 1
			}
			t := &tester{dir: dir, seeds: seeds, seed: seed, update: update, quick: quick, said: cmd.ErrOrStderr(), progress: cli.NewProgress(os.Stderr)}
			defer t.progress.Done()
			if err := t.prepare(cmd.Context(), !built); err != nil {
				return err
			}
			results, err := t.run(cmd.Context())
			t.progress.Done()
			if err != nil {
				return fmt.Errorf("plugin test: %w", err)
			}
			failed := 0
			for _, r := range results {
				if r.Fault != "" {
					failed++
				}
			}
			err = output.Print(cmd.OutOrStdout(), results, func(w io.Writer) {
				cli.Row(w, "BUILD", "CHECK", "RESULT", "")
				for _, r := range results {
					detail := r.Skipped
					if r.Fault != "" {
						detail, _, _ = strings.Cut(r.Fault, "\n")
					}
					cli.Row(w, r.Build, r.Check, r.verdict(), detail)
				}
			})
			if err == nil && failed > 0 {
				for _, r := range results {
					if strings.Contains(r.Fault, "\n") {
						fmt.Fprintf(cmd.ErrOrStderr(), "\n%s, %s:\n%s\n", r.Build, r.Check, r.Fault)
					}
				}
				return cli.ExitWith(fmt.Errorf("plugin test: %d of %d failed", failed, len(results)), cli.ExitFault)
			}
			return err
		},
	}
	cmd.Flags().IntVar(&seeds, "seeds", 20, "how many random clusters")
	cmd.Flags().Uint64Var(&seed, "seed", 0, "the first random cluster")
	cmd.Flags().BoolVar(&update, "update", false, "write the answers into the cases")
	cmd.Flags().BoolVar(&quick, "quick", false, "the cases and the suite on one build alone")
	cmd.Flags().BoolVar(&built, "no-build", false, "test what is built already")
	output.Register(cmd, "table")
	return cmd
}

// tester tests the builds of one bundle.
type tester struct {
	dir      string
	seeds    int
	seed     uint64
	update   bool
	quick    bool
	said     io.Writer
	progress *cli.Progress

	source  *bundleSource
	paths   []string // of the builds
	cases   []conformance.Case
	options conformance.Options
}

// prepare builds, unless told not to, and reads the cases.
func (t *tester) prepare(ctx context.Context, build bool) (err error) {
	if build {
		if t.source, err = readSource(t.dir); err != nil {
			return err
		}
		t.progress.Tell("building", 0, 0, cli.Count)
		if _, err := t.source.build(ctx, nil, io.Discard); err != nil {
			return buildError("plugin test", err)
		}
	}
	m, err := manifest.Read(filepath.Join(t.dir, manifest.File))
	if err != nil {
		return cli.UsageFault(err)
	}
	for _, a := range []*manifest.Artifact{m.Artifacts.WASM, m.Artifacts.Process} {
		if a != nil {
			t.paths = append(t.paths, filepath.Join(mustAbs(t.dir), a.Path))
		}
	}
	if t.quick {
		t.paths = t.paths[:min(len(t.paths), 1)]
	}
	if len(t.paths) == 0 {
		return cli.UsageFault(fmt.Errorf("plugin test: %s: nothing is built; leave out --no-build", t.dir))
	}
	if t.cases, err = conformance.ReadCases(filepath.Join(t.dir, casesDirectory)); err != nil {
		return cli.UsageFault(err)
	}
	t.options = conformance.Options{Seeds: t.seeds, Seed: t.seed, Words: conformance.WordsOf(t.cases), Configs: map[string][]byte{}}
	for _, c := range t.cases {
		for name, config := range c.Config {
			t.options.Configs[name] = config
		}
	}
	for _, e := range m.Plugins {
		t.options.Want = append(t.options.Want, &contractv1.PluginDescription{Name: e.Name, Kind: e.Kind, Scope: e.Scope, Normalize: e.Normalize})
	}
	return nil
}

func (t *tester) run(ctx context.Context) ([]testResult, error) {
	var results []testResult
	add := func(build, check string, err error) {
		r := testResult{Build: build, Check: check}
		if err != nil {
			r.Fault = err.Error()
		}
		results = append(results, r)
	}
	var runners []conformance.Runner
	for _, path := range t.paths {
		r, end, err := conformance.OpenBuild(ctx, path)
		if err != nil {
			add(filepath.Base(path), "open", err)
			continue
		}
		defer end(ctx)
		runners = append(runners, r)
	}
	if t.update && len(runners) > 0 {
		changed, err := conformance.Update(ctx, filepath.Join(t.dir, casesDirectory), runners[0].Open)
		if err != nil {
			return nil, err
		}
		for _, path := range changed {
			fmt.Fprintf(t.said, "%s is updated\n", path)
		}
		if t.cases, err = conformance.ReadCases(filepath.Join(t.dir, casesDirectory)); err != nil {
			return nil, err
		}
	}
	if command := t.command(); command != nil {
		t.progress.Tell(command[0]+" test", 0, 0, cli.Count)
		add("source", strings.Join(command[:2], " "), t.own(ctx, command))
	}
	hung := false // one of the builds; it would keep whoever asks it next waiting, too
	for _, r := range runners {
		t.progress.Tell("testing "+r.Name, 0, 0, cli.Count)
		checked, stuck := t.check(ctx, r)
		results, hung = append(results, checked...), hung || stuck
	}
	if len(runners) > 1 && hung {
		results = append(results, testResult{Build: "all", Check: "one answer of all builds", Skipped: "a build had no answer"})
	} else if len(runners) > 1 {
		add("all", "one answer of all builds", conformance.Agree(ctx, runners, t.options))
	}
	return results, nil
}

// command runs the author's own tests; nil: there are none to run.
func (t *tester) command() []string {
	if t.quick {
		return nil
	}
	language, err := toolchain.Detect(t.dir)
	if err != nil {
		return nil // a build alone
	}
	return toolchain.TestCommand(t.dir, language)
}

// check runs the cases and the suite on one build; stuck: a call had no answer, and
// what was not asked yet is left out.
func (t *tester) check(ctx context.Context, r conformance.Runner) (results []testResult, stuck bool) {
	for _, c := range t.cases {
		result := testResult{Build: r.Name, Check: "case " + c.Name}
		if stuck {
			result.Skipped = "a case before it had no answer"
		} else if err := c.Run(ctx, r.Open); err != nil {
			result.Fault, stuck = err.Error(), errors.Is(err, artifact.ErrNoAnswer)
		}
		results = append(results, result)
	}
	if stuck {
		return append(results, testResult{Build: r.Name, Check: "the contract's suite", Skipped: "a case had no answer"}), true
	}
	checked, err := conformance.Check(ctx, r.Open, t.options)
	if err != nil {
		return append(results, testResult{Build: r.Name, Check: "open", Fault: err.Error()}), errors.Is(err, artifact.ErrNoAnswer)
	}
	for _, c := range checked {
		results = append(results, testResult{Build: r.Name, Check: c.Check, Fault: c.Fault, Skipped: c.Skipped})
		stuck = stuck || c.Hung
	}
	return results, stuck
}

// own runs the author's tests, with the builds that are there.
func (t *tester) own(ctx context.Context, command []string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.WaitDelay = t.dir, 5*time.Second
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it ends its own children
	// As the process was built: otherwise the SDK is compiled twice.
	cmd.Env = append([]string{"CGO_ENABLED=0"}, os.Environ()...)
	cmd.Env = append(cmd.Env, artifactsVariable+"="+strings.Join(t.paths, string(os.PathListSeparator)))
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// artifactsVariable is plugintest.BundleVariable, which belongs to tests.
const artifactsVariable = "PINTLE_ARTIFACTS"
