package plugintest

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/artifact"
	"pintle.dev/pintle/sdk/conformance"
)

// updating is -pintle.update; the plain name belongs to the author's own flags.
var updating = flag.Bool("pintle.update", false, "write the answers of the source into the want sections of the cases")

// BundleVariable names the environment variable with the builds to test; pintle
// plugin test sets it, as os.PathListSeparator-joined paths, modules ending in
// .wasm. It holds those builds to the cases and the suite itself, so that Everywhere
// only compares them with the source. Without it Everywhere builds the package of the
// test itself.
const BundleVariable = "PINTLE_ARTIFACTS"

// Everywhere runs the cases in the folder dir, the conformance suite and random
// clusters against the registered plugins as source, as a WASM module and as a
// process. With -short it leaves the builds out. dir may be empty or missing.
func Everywhere(t *testing.T, dir string) {
	t.Helper()
	runners := Runners(t)
	if *updating && dir != "" {
		changed, err := conformance.Update(t.Context(), dir, runners[0].Open)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range changed {
			t.Logf("%s is updated", path)
		}
	}
	cases, err := conformance.ReadCases(dir)
	if err != nil {
		t.Fatal(err)
	}
	options := conformance.Options{Words: conformance.WordsOf(cases), Configs: configs(cases)}
	tested := runners
	if _, given := os.LookupEnv(BundleVariable); given {
		tested = runners[:1]
	}
	for _, r := range tested {
		t.Run(r.Name, func(t *testing.T) {
			for _, c := range cases {
				if err := c.Run(t.Context(), r.Open); err != nil {
					t.Errorf("case %s: %v", c.Name, err)
				}
			}
			results, err := conformance.Check(t.Context(), r.Open, options)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range conformance.Faults(results) {
				t.Errorf("%s: %s", f.Check, f.Fault)
			}
		})
	}
	t.Run("agree", func(t *testing.T) {
		if err := conformance.Agree(t.Context(), runners, options); err != nil {
			t.Error(err)
		}
	})
}

// configs are one working configuration a plugin, from the cases.
func configs(cases []conformance.Case) map[string][]byte {
	out := map[string][]byte{}
	for _, c := range cases {
		for plugin, config := range c.Config {
			out[plugin] = config
		}
	}
	return out
}

// Runners returns the registered plugins as source and, unless the test is
// short, as a module and a process of the package that is tested. What is
// opened twice has nothing in common.
func Runners(t testing.TB) []conformance.Runner {
	t.Helper()
	runners := []conformance.Runner{{Name: "source", Open: func(context.Context) (artifact.Artifact, error) {
		return artifact.Source(sdk.NewGuest()), nil
	}}}
	given, ok := os.LookupEnv(BundleVariable)
	paths := filepath.SplitList(given)
	if !ok {
		if testing.Short() {
			return runners
		}
		dir := t.TempDir()
		paths = []string{filepath.Join(dir, "plugin.wasm"), filepath.Join(dir, "plugin")}
		build(t, paths[0], "-buildmode=c-shared", "GOOS=wasip1", "GOARCH=wasm")
		build(t, paths[1], "-buildmode=exe", "CGO_ENABLED=0")
	}
	for _, path := range paths {
		r, err := Built(t, path)
		if err != nil {
			t.Fatal(err)
		}
		runners = append(runners, r)
	}
	return runners
}

// Built returns a build of a bundle: a module where its name ends in .wasm,
// else a process.
func Built(t testing.TB, path string) (conformance.Runner, error) {
	t.Helper()
	options := artifact.Options{Output: writer{t}}
	if filepath.Ext(path) != ".wasm" {
		return conformance.Runner{Name: "process", Open: func(ctx context.Context) (artifact.Artifact, error) {
			p, err := artifact.OpenProcess(ctx, path, options)
			if err != nil {
				return nil, err // and no interface around a nil pointer
			}
			return p, nil
		}}, nil
	}
	m, err := artifact.LoadModule(t.Context(), path, options)
	if err != nil {
		return conformance.Runner{}, err
	}
	t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return conformance.Runner{Name: "wasm", Open: m.Open}, nil
}

func build(t testing.TB, out, flag string, environment ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", flag, "-o", out, ".")
	cmd.Env = append(os.Environ(), environment...)
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", out, err, output)
	}
}

// writer puts what a plugin prints into the test's log.
type writer struct{ t testing.TB }

func (w writer) Write(p []byte) (int, error) {
	w.t.Helper()
	w.t.Logf("plugin: %s", p)
	return len(p), nil
}
