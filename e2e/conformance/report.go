package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
)

// state is how a test ended.
type state string

const (
	passed  state = "passed"
	failed  state = "failed"
	skipped state = "skipped"
	// lost is a test whose process ended without a report.
	lost state = "lost"
)

// result is how one test ended.
type result struct {
	Name    string  `json:"name"`
	SIG     string  `json:"sig"`
	State   state   `json:"state"`
	Seconds float64 `json:"seconds"`
	Failure string  `json:"failure,omitempty"` // its first words, and where
}

// results are those of the chosen tests.
type results struct {
	tests  []string
	byName map[string]result
}

var sig = regexp.MustCompile(`\[(sig-[a-z-]+)\]`)

func newResults(tests []string) *results {
	r := &results{tests: tests, byName: map[string]result{}}
	for _, name := range tests {
		r.byName[name] = result{Name: name, SIG: sigOf(name), State: lost}
	}
	return r
}

func sigOf(name string) string {
	if m := sig.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	return "no sig"
}

// report is what of ginkgo's JSON report is read.
type report []struct {
	SpecReports []struct {
		ContainerHierarchyTexts []string
		LeafNodeType            string
		LeafNodeText            string
		State                   string
		RunTime                 int64 // ns
		Failure                 struct {
			Message  string
			Location struct {
				FileName   string
				LineNumber int
			}
		}
	}
}

// read takes in the report of a stage.
func (r *results) read(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("ginkgo left no report: %w; look at its log", err)
	}
	var suites report
	if err := json.Unmarshal(data, &suites); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, one := range suites {
		for _, spec := range one.SpecReports {
			name := strings.Join(append(slices.Clone(spec.ContainerHierarchyTexts), spec.LeafNodeText), " ")
			of, chosen := r.byName[name]
			if spec.LeafNodeType != "It" || !chosen {
				continue
			}
			of.Seconds = float64(spec.RunTime) / 1e9
			switch spec.State {
			case "passed":
				of.State = passed
			case "skipped", "pending":
				if spec.Failure.Message == "" {
					continue // not of this stage
				}
				of.State = skipped
			default:
				of.State = failed
			}
			if spec.Failure.Message != "" {
				at := spec.Failure.Location
				of.Failure = fmt.Sprintf("%s (%s:%d)", firstWords(spec.Failure.Message), filepath.Base(at.FileName), at.LineNumber)
			}
			r.byName[name] = of
		}
	}
	return nil
}

// framing are first lines of a failure that say nothing by themselves.
var framing = regexp.MustCompile(`^(Unexpected error:|Told to stop trying.*|Timed out after .*|FAIL: .*|A spec timeout occurred)$`)

// mostWords bounds what is shown of a failure.
const mostWords = 600

// firstWords is the part of a message that says what was wrong.
func firstWords(message string) string {
	var lines []string
	for line := range strings.Lines(message) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return ""
	}
	first := lines[0]
	if framing.MatchString(first) {
		first = strings.Join(lines[:min(4, len(lines))], " ")
	}
	return strings.ToValidUTF8(first[:min(mostWords, len(first))], "")
}

// sorted are the results by SIG and name.
func (r *results) sorted() []result {
	out := make([]result, 0, len(r.tests))
	for _, name := range r.tests {
		out = append(out, r.byName[name])
	}
	slices.SortFunc(out, func(a, b result) int { return cmp.Or(strings.Compare(a.SIG, b.SIG), strings.Compare(a.Name, b.Name)) })
	return out
}

// print counts by SIG.
func (r *results) print(w io.Writer) {
	counts, sum := map[string]map[state]int{}, map[state]int{}
	var sigs []string
	for _, one := range r.sorted() {
		if counts[one.SIG] == nil {
			counts[one.SIG] = map[state]int{}
			sigs = append(sigs, one.SIG)
		}
		counts[one.SIG][one.State]++
		sum[one.State]++
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\tpassed\tfailed\tskipped\tlost\t")
	row := func(name string, n map[state]int) {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t\n", name, n[passed], n[failed], n[skipped], n[lost])
	}
	for _, name := range sigs {
		row(name, counts[name])
	}
	row("all", sum)
	_ = table.Flush()
}

// write leaves all results, and a line for each test that did not pass.
func (r *results) write(dir string) error {
	all := r.sorted()
	data, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return err
	}
	var lines strings.Builder
	for _, one := range all {
		if one.State != passed {
			fmt.Fprintf(&lines, "%s\t%s\t%s\t%s\n", one.State, one.SIG, one.Name, one.Failure)
		}
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "results.json"), append(data, '\n'), 0o644),
		os.WriteFile(filepath.Join(dir, "failures.txt"), []byte(lines.String()), 0o644))
}

// list is what is known of tests: the reason why one does not pass, empty for one that
// has to.
type list map[string]string

func (l list) passes(name string) bool {
	reason, listed := l[name]
	return listed && reason == ""
}

// judge fails where a test of the list did not pass, or passed though the list has a
// reason why not. With every it fails for those too that did not pass and are not in the
// list. It counts those that passed and are not.
func (r *results) judge(expected list, every bool) error {
	var errs []error
	more := 0
	for _, one := range r.sorted() {
		reason, listed := expected[one.Name]
		switch {
		case reason != "" && one.State == passed:
			errs = append(errs, fmt.Errorf("passed: %s: take its reason out of the list", one.Name))
		case one.State != passed && (expected.passes(one.Name) || every && !listed):
			errs = append(errs, fmt.Errorf("%s: %s: %s", one.State, one.Name, one.Failure))
		case !listed && one.State == passed:
			more++
		}
	}
	if more > 0 {
		fmt.Printf("%d tests passed that the list lacks; -update adds them\n", more)
	}
	return errors.Join(errs...)
}

// readList reads the names of tests, one a line; behind a tab stands why one does not
// pass. A line that begins with # is a comment.
func readList(path string) (list, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("list of tests that have to pass: %w", err)
	}
	defer file.Close()
	known := list{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" && !strings.HasPrefix(line, "#") {
			name, reason, _ := strings.Cut(line, "\t")
			known[name] = reason
		}
	}
	return known, lines.Err()
}

// listHead begins the file of a list that has no comments.
const listHead = `# Tests of Kubernetes' conformance suite that have to pass, by make conformance.
# CONFORMANCE_FLAGS=-update adds those that passed.
`

// writeList adds what passed to the list. What failed stays in it, and so do the comments
// that it begins with.
func writeList(path string, expected list, r *results) error {
	head, err := headOf(path)
	if err != nil {
		return err
	}
	var lines []string
	for name, reason := range expected {
		if reason != "" {
			name += "\t" + reason
		}
		lines = append(lines, name)
	}
	for name, one := range r.byName {
		if _, listed := expected[name]; !listed && one.State == passed {
			lines = append(lines, name)
		}
	}
	slices.Sort(lines)
	return os.WriteFile(path, []byte(head+strings.Join(lines, "\n")+"\n"), 0o644)
}

// headOf is the comment that a list begins with.
func headOf(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	var head strings.Builder
	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, "#") {
			break
		}
		head.WriteString(line)
	}
	return cmp.Or(head.String(), listHead), nil
}
