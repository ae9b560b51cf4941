// Command requirements writes e2e/requirements.md: each requirement id that the tree
// cites, what it asks in one line, and the files that cite it. The lines are in ids.yaml.
// The ids come from the comments and tests of the tree, in the forms PRD-11,
// "RCC-16 to RCC-20", "KNS-1..5" and "004 [7.5]". It imports nothing of Pintle.
package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

//go:generate go run . ../.. ../requirements.md

// table is ids.yaml.
type table struct {
	Sources map[string]string            `json:"sources"` // source: what it describes
	Others  []string                     `json:"others"`  // prefixes that are no requirement
	Places  map[string]map[string]string `json:"places"`  // id: folder: source
	Asks    map[string]map[string]string `json:"asks"`    // source: id: one line
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: requirements ROOT FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "requirements:", err)
		os.Exit(1)
	}
}

func run(root, file string) error {
	ids, err := readTable("ids.yaml")
	if err != nil {
		return err
	}
	cited, err := scan(os.DirFS(root))
	if err != nil {
		return err
	}
	text, faults := document(ids, cited)
	if len(faults) > 0 {
		return fmt.Errorf("%s", strings.Join(faults, "\n"))
	}
	return os.WriteFile(file, text, 0o644) //nolint:gosec // a document
}

func readTable(file string) (*table, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	ids := &table{}
	if err := yaml.UnmarshalStrict(data, ids); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return ids, nil
}

var (
	// citation is an id, and behind it the end of a range.
	citation = regexp.MustCompile(`\b([A-Z]{1,8}(?:-[A-Z]{2})?)-(\d{1,3})\b(?:(?:\s+(?:to|…)\s+(?://\s*)?|\.\.)(?:([A-Z]{1,8}(?:-[A-Z]{2})?)-)?(\d{1,3})\b)?`)
	// section is the other form, a section of a description.
	section = regexp.MustCompile(`(?m)(?:^\s*//.*|00\d )(\[\d{1,2}\.\d{1,2}\])`)
)

// maxRange is the longest range of ids that one citation can name.
const maxRange = 60

// idsIn lists the ids that a text cites, each once.
func idsIn(text string) []string {
	found := map[string]bool{}
	for _, m := range citation.FindAllStringSubmatch(text, -1) {
		first, _ := strconv.Atoi(m[2])
		last := first
		if m[3] == "" || m[3] == m[1] {
			if n, err := strconv.Atoi(m[4]); err == nil && n > first && n-first < maxRange {
				last = n
			}
		}
		for n := first; n <= last; n++ {
			found[m[1]+"-"+strconv.Itoa(n)] = true
		}
	}
	for _, m := range section.FindAllStringSubmatch(text, -1) {
		found[m[1]] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// skipped are folders and files that cite no requirement: what is built or generated, and
// what this command reads and writes.
func skipped(name string) bool {
	base := path.Base(name)
	return strings.HasPrefix(base, ".") && base != "." || name == "bin" || name == "build" || base == "testdata" ||
		strings.HasPrefix(base, "zz_generated") || name == "e2e/requirements" || name == "e2e/requirements.md"
}

// scan reads the sources and documents of a tree: id to the files that cite it, in order.
func scan(tree fs.FS) (map[string][]string, error) {
	cited := map[string][]string{}
	err := fs.WalkDir(tree, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if skipped(name) {
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if e.IsDir() || !slices.Contains([]string{".go", ".md", ".yaml", ".yml", ".sh"}, path.Ext(name)) {
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		for _, id := range idsIn(string(text)) {
			cited[id] = append(cited[id], name)
		}
		return nil
	})
	return cited, err
}

// row is one line of the document.
type row struct {
	source, id string
	asks       string
	files      []string
}

// document is requirements.md, and what keeps it from being complete: ids without a line,
// and lines without a citation.
func document(ids *table, cited map[string][]string) (text []byte, faults []string) {
	rows := map[[2]string]*row{}
	for source, asks := range ids.Asks {
		if ids.Sources[source] == "" {
			faults = append(faults, fmt.Sprintf("ids.yaml: the source %s is not described", source))
		}
		for id, line := range asks {
			rows[[2]string{source, id}] = &row{source: source, id: id, asks: line}
		}
	}
	for id, files := range cited {
		if prefix := id[:strings.LastIndex(id, "-")+1]; slices.Contains(ids.Others, strings.TrimSuffix(prefix, "-")) {
			continue
		}
		for _, file := range files {
			r := rows[[2]string{ids.source(id, file), id}]
			if r == nil {
				faults = append(faults, fmt.Sprintf("%s cites %s, for which ids.yaml has no line", file, id))
				continue
			}
			r.files = append(r.files, file)
		}
	}
	sorted := slices.SortedFunc(maps.Values(rows), func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.source, b.source), compareIDs(a.id, b.id))
	})
	var b bytes.Buffer
	b.WriteString("# Requirements\n\nGenerated: `go generate ./e2e/requirements`. Code and tests cite requirements by id. " +
		"Each id has one line\nhere, and the files that cite it; the line is in `requirements/ids.yaml`. Where Kubernetes 1.36 asks for\n" +
		"something else, 1.36 counts: [the record of these](../kernel/RATIONALE.md#scheduling) lists them.\n")
	last := ""
	for _, r := range sorted {
		if len(r.files) == 0 {
			faults = append(faults, fmt.Sprintf("ids.yaml has a line for %s of %s, which nothing cites", r.id, r.source))
		}
		if r.source != last {
			last = r.source
			fmt.Fprintf(&b, "\n## %s: %s\n\n| Id | What it asks | Cited by |\n|---|---|---|\n", r.source, ids.Sources[r.source])
		}
		var files []string
		for _, file := range r.files {
			files = append(files, "`"+file+"`")
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", r.id, r.asks, strings.Join(files, ", "))
	}
	slices.Sort(faults)
	return b.Bytes(), faults
}

// source is the description that a file means with an id, or empty where ids.yaml has none.
func (ids *table) source(id, file string) string {
	for folder, source := range ids.Places[id] {
		if strings.HasPrefix(file, folder+"/") {
			return source
		}
	}
	for _, source := range slices.Sorted(maps.Keys(ids.Asks)) {
		if _, found := ids.Asks[source][id]; found {
			return source
		}
	}
	return ""
}

var number = regexp.MustCompile(`\d+`)

// compareIDs orders ids by their letters and then by their numbers.
func compareIDs(a, b string) int {
	if c := cmp.Compare(number.ReplaceAllString(a, ""), number.ReplaceAllString(b, "")); c != 0 {
		return c
	}
	return slices.Compare(numbers(a), numbers(b))
}

func numbers(id string) []int {
	var all []int
	for _, digits := range number.FindAllString(id, -1) {
		n, _ := strconv.Atoi(digits)
		all = append(all, n)
	}
	return all
}
