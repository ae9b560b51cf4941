package e2e

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The limits of the house, without tests and generated files.
const (
	maxPackageLines  = 4000
	maxTypeMethods   = 40
	maxFunctionLines = 100
)

// ceilingsFile lists what is above a limit today. A number in it may sink and never rise.
const ceilingsFile = "testdata/ceilings.txt"

// slack is how far a ceiling of a package's lines may lie above the package, so that not each
// line that goes asks for a new number.
const slack = 20

var lowerCeilings = flag.Bool("lower-ceilings", false, "TestLimits: write lower numbers into "+ceilingsFile)

// flat are packages that are a list of like things, one file each: their size says nothing.
var flat = map[string]string{
	"kernel/api/resources": "one file for each kind of the API, which do not know each other",
}

// longFunctions are functions that may be above maxFunctionLines for good, each with its reason.
var longFunctions = map[string]string{
	"kernel/api/auth/rbac.controllerRoles()": "a table: the role of each controller, rule by rule, as kube-controller-manager has them",
}

// size is what one directory of Go files has.
type size struct {
	lines     int
	methods   map[string]int // by type
	functions map[string]int // lines by name, of those above the limit
}

// measure reads the Go files of the repository below root: no tests, nothing generated.
func measure(root string) (map[string]*size, error) {
	sizes := map[string]*size{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		if d.IsDir() {
			name := d.Name()
			if rel == "bin" || rel == "build" || name == "testdata" || rel != "." && strings.HasPrefix(name, ".") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(rel))
		s := sizes[dir]
		if s == nil {
			s = &size{methods: map[string]int{}, functions: map[string]int{}}
			sizes[dir] = s
		}
		return s.add(path, src)
	})
	return sizes, err
}

// add counts one file.
func (s *size) add(path string, src []byte) error {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if ast.IsGenerated(file) {
		return nil
	}
	s.lines += strings.Count(string(src), "\n")
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		name := f.Name.Name
		if f.Recv != nil && len(f.Recv.List) == 1 {
			on := receiver(f.Recv.List[0].Type)
			s.methods[on]++
			name = on + "." + name
		}
		if n := fset.Position(f.End()).Line - fset.Position(f.Pos()).Line + 1; n > maxFunctionLines {
			s.functions[name] = n
		}
	}
	return nil
}

// receiver is the name of a method's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

// over is what is above a limit: packages by path, types by path and name, functions by
// these with () behind.
func over(sizes map[string]*size) map[string]int {
	out := map[string]int{}
	for dir, s := range sizes {
		if s.lines > maxPackageLines && flat[dir] == "" {
			out[dir] = s.lines
		}
		for on, n := range s.methods {
			if n > maxTypeMethods {
				out[dir+"."+on] = n
			}
		}
		for name, n := range s.functions {
			if name = dir + "." + name + "()"; longFunctions[name] == "" {
				out[name] = n
			}
		}
	}
	return out
}

// faults says where what is true and the ceilings differ.
func faults(is, ceilings map[string]int) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(is)) {
		ceiling, listed := ceilings[name]
		switch {
		case !listed:
			out = append(out, fmt.Sprintf("%s has %d, above the limit (%d lines of a package, %d methods of a type, %d lines of a function): split it", name, is[name], maxPackageLines, maxTypeMethods, maxFunctionLines))
		case is[name] > ceiling:
			out = append(out, fmt.Sprintf("%s has %d, above its ceiling of %d in %s: put new things elsewhere", name, is[name], ceiling, ceilingsFile))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ceilings)) {
		give := 0
		if ceilings[name] > maxPackageLines {
			give = slack
		}
		if n, still := is[name]; !still || ceilings[name] > n+give {
			out = append(out, fmt.Sprintf("%s may have %d by %s and has less: lower it with go test ./e2e -run TestLimits -args -lower-ceilings", name, ceilings[name], ceilingsFile))
		}
	}
	return out
}

func readCeilings(data []byte) (map[string]int, error) {
	out := map[string]int{}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, number, _ := strings.Cut(line, " ")
		n, err := strconv.Atoi(strings.TrimSpace(number))
		if err != nil {
			return nil, fmt.Errorf("%q: want NAME NUMBER", line)
		}
		out[name] = n
	}
	return out, nil
}

// lowered are the ceilings that remain, none higher than before.
func lowered(is, ceilings map[string]int) map[string]int {
	out := map[string]int{}
	for name, n := range ceilings {
		if now, still := is[name]; still {
			out[name] = min(n, now)
		}
	}
	return out
}

func writeCeilings(ceilings map[string]int) error {
	text := strings.Builder{}
	text.WriteString("# Packages (lines), types (methods) and functions (lines) above the limits of\n# house_limits_test.go, with a ceiling each. A ceiling may sink, never rise. Nothing may be\n# added, except what has another name now.\n")
	for _, name := range slices.Sorted(maps.Keys(ceilings)) {
		fmt.Fprintf(&text, "%s %d\n", name, ceilings[name])
	}
	return os.WriteFile(ceilingsFile, []byte(text.String()), 0o644)
}

// TestLimits holds the sizes of packages, types and functions.
func TestLimits(t *testing.T) {
	sizes, err := measure("..")
	if err != nil {
		t.Fatal(err)
	}
	if len(sizes) < 100 || sizes["kernel"] == nil {
		t.Fatalf("only %d packages were looked at", len(sizes))
	}
	data, err := os.ReadFile(ceilingsFile)
	if err != nil {
		t.Fatal(err)
	}
	ceilings, err := readCeilings(data)
	if err != nil {
		t.Fatal(err)
	}
	is := over(sizes)
	if *lowerCeilings {
		ceilings = lowered(is, ceilings)
		if err := writeCeilings(ceilings); err != nil {
			t.Fatal(err)
		}
	}
	for _, fault := range faults(is, ceilings) {
		t.Error(fault)
	}
	long := map[string]bool{}
	for dir, s := range sizes {
		for name := range s.functions {
			long[dir+"."+name+"()"] = true
		}
	}
	for name := range longFunctions {
		if !long[name] {
			t.Errorf("%s is in longFunctions and has no more than %d lines: take it out", name, maxFunctionLines)
		}
	}
	for dir := range flat {
		if s := sizes[dir]; s == nil || s.lines <= maxPackageLines {
			t.Errorf("%s is in flat and has no more than %d lines: take it out", dir, maxPackageLines)
		}
	}
}

// TestFaultsOfLimits proves that the limits can be missed, in each way.
func TestFaultsOfLimits(t *testing.T) {
	tests := []struct {
		name         string
		is, ceilings map[string]int
		want         string // in the one fault; empty: none
	}{
		{"as listed", map[string]int{"a": 5000}, map[string]int{"a": 5000}, ""},
		{"not listed", map[string]int{"a": 4001}, nil, "above the limit"},
		{"grown", map[string]int{"a": 5001}, map[string]int{"a": 5000}, "above its ceiling"},
		{"a little less", map[string]int{"a": 4990}, map[string]int{"a": 5000}, ""},
		{"much less", map[string]int{"a": 4900}, map[string]int{"a": 5000}, "lower it"},
		{"below the limit", nil, map[string]int{"a": 5000}, "lower it"},
		{"methods have no slack", map[string]int{"a.T": 49}, map[string]int{"a.T": 50}, "lower it"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := faults(test.is, test.ceilings)
			if test.want == "" && len(got) == 0 || len(got) == 1 && test.want != "" && strings.Contains(got[0], test.want) {
				return
			}
			t.Errorf("%q, want one with %q", got, test.want)
		})
	}
	s := &size{methods: map[string]int{}, functions: map[string]int{}}
	src := "package p\ntype T[K any] struct{}\nfunc (*T[K]) A() {}\nfunc (T[K]) B() {}\nfunc Long() {\n" + strings.Repeat("\tprintln()\n", maxFunctionLines) + "}\n"
	if err := s.add("p.go", []byte(src)); err != nil {
		t.Fatal(err)
	}
	if s.methods["T"] != 2 || s.functions["Long"] != maxFunctionLines+2 || s.lines != strings.Count(src, "\n") {
		t.Errorf("%+v", s)
	}
	if err := s.add("g.go", []byte("// Code generated by x. DO NOT EDIT.\n\npackage p\n")); err != nil || s.lines != strings.Count(src, "\n") {
		t.Errorf("a generated file counts: %+v, %v", s, err)
	}
	if got := lowered(map[string]int{"a": 6, "b": 4}, map[string]int{"a": 5, "b": 5, "c": 5}); !maps.Equal(got, map[string]int{"a": 5, "b": 4}) {
		t.Errorf("lowered to %v", got)
	}
}
