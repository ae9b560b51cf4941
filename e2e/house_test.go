package e2e

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "pintle.dev/pintle"

type goPackage struct {
	ImportPath, Dir, Name, Doc string
	Imports                    []string
	GoFiles                    []string
}

func goList(t *testing.T, args ...string) []goPackage {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Dir,Name,Doc,Imports,GoFiles"}, args...)...)
	cmd.Dir = ".."
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %v: %v\n%s", args, err, stderr.String())
	}
	var pkgs []goPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

// TestImportsGoDown holds the floors of the house: cmd → kernel → sdk, plugins → sdk.
func TestImportsGoDown(t *testing.T) {
	rules := []struct{ from, to, why string }{
		{"sdk", "kernel", "third parties import the sdk, never the kernel"},
		{"sdk", "plugins", "the sdk knows no plugin"},
		{"sdk", "cmd", "imports go down"},
		{"plugins", "kernel", "a plugin sees the cluster through its contract only"},
		{"plugins", "cmd", "imports go down"},
		{"kernel", "plugins", "no policy is compiled in"},
		{"kernel", "cmd", "imports go down"},
		{"kernel", "e2e", "tests look at the kernel from outside"},
		{"cmd", "plugins", "no policy is compiled in"},
		{"e2e", "kernel", "tests look at the kernel from outside"},
		{"kernel/store", "kernel/api", "the store knows bytes, not kinds"},
		{"kernel/store", "kernel/bus", "the bus builds on the store"},
		{"kernel/bus", "kernel/api", "the bus knows bytes, not kinds"},
		{"kernel/config", "kernel/store", "configuration is plain data"},
		{"kernel/config", "kernel/api", "configuration is plain data"},
		{"kernel/scheduler", "kernel/api", "the scheduler is a client of the API"},
		{"kernel/scheduler", "kernel/plugin", "the scheduler asks a policy, whoever serves it"},
		{"kernel/scheduler/framework", "kernel/scheduler/snapshot", "answers of plugins know no cluster"},
		{"kernel/scheduler/framework", "kernel/scheduler/resultcache", "answers of plugins know no class"},
		{"kernel/scheduler/snapshot", "kernel/scheduler/framework", "the picture of the cluster knows no plugin's answer"},
		{"kernel/scheduler/snapshot", "kernel/scheduler/resultcache", "the result cache reads the snapshot"},
		{"kernel/scheduler/resultcache", "kernel/scheduler/explain", "what explains decisions reads the result cache"},
		{"kernel/scheduler/snapshot", "kernel/scheduler/explain", "the picture of the cluster explains nothing"},
		{"kernel/node", "kernel/api", "the node agent is a client of the API"},
		{"kernel/api", "kernel/scheduler", "no component calls another"},
		{"kernel/api", "kernel/node", "no component calls another"},
		{"kernel/api", "kernel/plugin", "no component calls another"},
	}
	// Packages that import parts of another without its whole.
	walls := []struct{ from, to, why string }{
		{"kernel/plugin/manifest", "kernel/plugin", "a manifest is read without a host"},
		{"kernel/plugin/guest", "kernel/plugin", "a guest knows no host"},
		{"kernel/plugin/guest", "kernel/plugin/process", "what a guest is does not depend on what carries the calls"},
		{"kernel/plugin/guest", "kernel/plugin/wasm", "what a guest is does not depend on what carries the calls"},
		{"kernel/plugin/observe", "kernel/plugin", "who watches knows no host"},
		{"kernel/plugin/output", "kernel/plugin", "what a bundle writes is read without a host"},
		{"kernel/plugin/process", "kernel/plugin", "a process is run without a host"},
		{"kernel/plugin/process", "kernel/plugin/wasm", "a process and a module do not know each other"},
		{"kernel/plugin/seal", "kernel/plugin", "a bundle is sealed without a host"},
		{"kernel/catalog", "kernel/plugin", "bundles are installed without a host"},
		{"kernel/plugin/wasm", "kernel/plugin", "a module is run without a host"},
		{"kernel/plugin/wasm", "kernel/plugin/process", "a process and a module do not know each other"},
		{"kernel/plugin/wasm/meter", "kernel/plugin/wasm", "a module is rewritten without being run"},
	}
	under := func(path, dir string) bool {
		return path == module+"/"+dir || strings.HasPrefix(path, module+"/"+dir+"/")
	}
	pkgs := goList(t, "./...")
	for _, p := range pkgs {
		for _, imp := range p.Imports {
			for _, r := range rules {
				if under(p.ImportPath, r.from) && under(imp, r.to) {
					t.Errorf("%s imports %s: %s", p.ImportPath, imp, r.why)
				}
			}
			for _, r := range walls {
				if under(p.ImportPath, r.from) && imp == module+"/"+r.to {
					t.Errorf("%s imports %s: %s", p.ImportPath, imp, r.why)
				}
			}
			if imp == "k8s.io/kubernetes" || strings.HasPrefix(imp, "k8s.io/kubernetes/") {
				t.Errorf("%s imports %s: only test modules below e2e may", p.ImportPath, imp)
			}
			if imp == "github.com/spf13/viper" && !under(p.ImportPath, "kernel/config") {
				t.Errorf("%s imports %s: only kernel/config knows Viper", p.ImportPath, imp)
			}
		}
	}
	if len(pkgs) < 20 {
		t.Errorf("only %d packages were looked at", len(pkgs))
	}
}

// TestBinaryHoldsNoPlugin proves that no predicate, priority, controller,
// runtime or proxy is linked into the kernel's binary.
func TestBinaryHoldsNoPlugin(t *testing.T) {
	var own int
	for _, p := range goList(t, "-deps", "./cmd/pintle") {
		if strings.HasPrefix(p.ImportPath, module+"/plugins") {
			t.Errorf("cmd/pintle contains %s", p.ImportPath)
		}
		if strings.HasPrefix(p.ImportPath, module) {
			own++
		}
	}
	if own < 10 {
		t.Errorf("only %d packages of Pintle in the binary; the test looks at the wrong one", own)
	}
}

// TestEveryPackageSaysWhatItOwns demands a package comment, in doc.go where
// the package has more than one file.
func TestEveryPackageSaysWhatItOwns(t *testing.T) {
	for _, p := range goList(t, "./...") {
		if len(p.GoFiles) == 0 {
			continue
		}
		if p.Doc == "" {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
		if len(p.GoFiles) > 1 && !slices.Contains(p.GoFiles, "doc.go") {
			t.Errorf("%s has no doc.go", p.ImportPath)
		}
		switch p.Name {
		case "util", "utils", "common", "helpers", "misc", "types":
			t.Errorf("%s is named %s: a package is named after what it holds", p.ImportPath, p.Name)
		}
	}
}

// TestTopLevel holds the list of what the top level may hold.
func TestTopLevel(t *testing.T) {
	allowed := []string{
		"kernel", "plugins", "sdk", "cmd", "configs", "e2e", "go.mod", "go.sum", "Makefile", "README.md",
		"bin", "build", // made by make, ignored by git
	}
	entries, err := os.ReadDir("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && !slices.Contains(allowed, e.Name()) {
			t.Errorf("%s does not belong at the top level", e.Name())
		}
	}
}

// TestConfigurationsAreValid checks every shipped configuration.
func TestConfigurationsAreValid(t *testing.T) {
	files, err := filepath.Glob("../configs/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d configurations found, %v", len(files), err)
	}
	for _, f := range files {
		out, err := exec.Command(binary(t, "pintle"), "config", "check", f).CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}
