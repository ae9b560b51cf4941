package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// allowed are the licences, by SPDX identifier, and why a program may hold code under them.
var allowed = map[string]string{
	"0BSD":         "asks for nothing",
	"Apache-2.0":   "permissive; the licence of Kubernetes",
	"BSD-2-Clause": "permissive",
	"BSD-3-Clause": "permissive; the licence of Go",
	"CC0-1.0":      "public domain",
	"ISC":          "permissive",
	"MIT":          "permissive",
	"MPL-2.0":      "copyleft of single files, which are used as they are and not changed",
	"Unlicense":    "public domain",
	"Zlib":         "permissive",
}

// own is the prefix of this repository's modules.
const own = "pintle.dev/pintle"

// minCovered is the share of a file's words, in percent, that must be words of known licences.
// The rest is names of holders and years.
const minCovered = 75

// maxFile bounds what is read of one licence file.
const maxFile = 1 << 20

var fileName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense)([-._].*)?$`)

type goPackage struct {
	ImportPath, Dir string
	Standard        bool
	Module          *struct {
		Path, Version, Dir string
		Replace            *struct{ Path, Dir string }
	}
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: licences DIR[:PATTERN] ...")
		os.Exit(2)
	}
	found := map[string]map[string]bool{} // modules by licence
	var faults []string
	for _, arg := range os.Args[1:] {
		dir, pattern, ok := strings.Cut(arg, ":")
		if !ok {
			pattern = "./..."
		}
		pkgs, err := list(dir, pattern)
		if err != nil {
			faults = append(faults, err.Error())
			continue
		}
		faults = append(faults, check(pkgs, found)...)
	}
	for _, id := range slices.Sorted(maps.Keys(found)) {
		fmt.Printf("%4d modules  %s\n", len(found[id]), id)
	}
	if len(found) == 0 {
		faults = append(faults, "no module was looked at")
	}
	slices.Sort(faults)
	for _, f := range slices.Compact(faults) {
		fmt.Fprintln(os.Stderr, f)
	}
	if len(faults) > 0 {
		os.Exit(1)
	}
}

// list returns all packages that those of a module need, tests aside.
func list(dir, pattern string) ([]goPackage, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,Standard,Module", pattern)
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s in %s: %w\n%s", pattern, dir, err, stderr.String())
	}
	var pkgs []goPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list %s in %s: %w", pattern, dir, err)
		}
		pkgs = append(pkgs, p)
	}
}

// check adds the modules of packages to found, and returns what is wrong with some.
func check(pkgs []goPackage, found map[string]map[string]bool) (faults []string) {
	seen := map[string]bool{}
	for _, p := range pkgs {
		if p.Standard || p.Module == nil || p.Module.Path == own || strings.HasPrefix(p.Module.Path, own+"/") {
			continue
		}
		root := p.Module.Dir
		file, err := nearest(p.Dir, root)
		if err != nil {
			faults = append(faults, fmt.Sprintf("%s of module %s: %v", p.ImportPath, p.Module.Path, err))
			continue
		}
		if seen[file] {
			continue
		}
		seen[file] = true
		ids, err := licences(file)
		if err != nil {
			faults = append(faults, fmt.Sprintf("module %s %s: %v", p.Module.Path, p.Module.Version, err))
			continue
		}
		for _, id := range ids {
			if found[id] == nil {
				found[id] = map[string]bool{}
			}
			found[id][p.Module.Path] = true
		}
	}
	return faults
}

// nearest finds the licence file of a package: in its folder or one above, up to its module's.
func nearest(dir, root string) (string, error) {
	for {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return "", err
		}
		for _, e := range entries {
			if e.Type().IsRegular() && fileName.MatchString(e.Name()) && filepath.Ext(e.Name()) != ".go" {
				return filepath.Join(dir, e.Name()), nil
			}
		}
		if dir == root || !strings.HasPrefix(dir, root) {
			return "", fmt.Errorf("no licence file: %w", fs.ErrNotExist)
		}
		dir = filepath.Dir(dir)
	}
}

// licences are those whose text a file holds. It is an error if one of them is not allowed, or if
// too much of the file is no licence that is known.
func licences(file string) ([]string, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, err
	}
	cov := licensecheck.Scan(text)
	var ids []string
	for _, m := range cov.Match {
		if !m.IsURL && !slices.Contains(ids, m.ID) {
			ids = append(ids, m.ID)
		}
	}
	for _, id := range ids {
		if allowed[id] == "" {
			return ids, fmt.Errorf("%s: licence %s is not in the list of those that are allowed", file, id)
		}
	}
	if len(ids) == 0 || cov.Percent < minCovered {
		return ids, fmt.Errorf("%s: only %.0f %% of it is the text of a licence that is known (%s)", file, cov.Percent, strings.Join(ids, ", "))
	}
	return ids, nil
}
