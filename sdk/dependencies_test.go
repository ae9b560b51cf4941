package sdk

import (
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// listed is what go list says of a package and of all that it needs.
type listed struct {
	module  string // empty: the standard library
	imports []string
}

func list(t *testing.T, environment []string, packages ...string) map[string]listed {
	t.Helper()
	args := append([]string{"list", "-deps", "-f", `{{.ImportPath}}|{{with .Module}}{{.Path}}{{end}}|{{join .Imports ","}}`}, packages...)
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Env = append(os.Environ(), environment...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]listed{}
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		parts := strings.Split(line, "|")
		all[parts[0]] = listed{parts[1], strings.Split(parts[2], ",")}
	}
	return all
}

const self = "pintle.dev/pintle"

// README.md names every module that a package of the SDK imports, and no other
// (issue 5: few dependencies, listed with why).
func TestDependenciesAreListed(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("the packages are listed by go")
	}
	needed := map[string]bool{}
	all := list(t, nil, "./...")
	for path, p := range all {
		if strings.HasPrefix(path, self+"/sdk") {
			for _, imported := range p.imports {
				if m := all[imported].module; m != "" && m != self {
					needed[m] = true
				}
			}
		}
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(readme), "## What the SDK depends on")
	table, _, _ = strings.Cut(table, "\n## ")
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| .*? \\|").FindAllString(table, -1) {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(m, -1) {
			named[name[1]] = true
		}
	}
	for _, m := range slices.Sorted(maps.Keys(needed)) {
		if !named[m] {
			t.Errorf("README.md gives no reason for %s", m)
		}
	}
	for _, m := range slices.Sorted(maps.Keys(named)) {
		if !needed[m] {
			t.Errorf("README.md gives a reason for %s, which no package imports", m)
		}
	}
}

// A module in Go holds nothing but the SDK and the standard library.
func TestModulesDependOnNothing(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("the packages are listed by go")
	}
	for path, p := range list(t, []string{"GOOS=wasip1", "GOARCH=wasm"}, ".", "./admission", "./reconciler") {
		if p.module != "" && p.module != self {
			t.Errorf("a module has %s of %s", path, p.module)
		}
	}
}
