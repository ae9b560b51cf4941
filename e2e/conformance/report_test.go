package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ginkgoReport is what ginkgo leaves of a stage: a test of each state, a node that is no
// test, and a test that was not chosen.
const ginkgoReport = `[{"SpecReports": [
 {"LeafNodeType": "BeforeSuite", "LeafNodeText": "", "State": "passed"},
 {"ContainerHierarchyTexts": ["[sig-apps] Job"], "LeafNodeType": "It", "LeafNodeText": "should run [Conformance]", "State": "passed", "RunTime": 1500000000},
 {"ContainerHierarchyTexts": ["[sig-apps] Job"], "LeafNodeType": "It", "LeafNodeText": "should fail [Conformance]", "State": "failed",
  "Failure": {"Message": "Unexpected error:\n    <*errors.StatusError>:\n    not found\n", "Location": {"FileName": "/x/test/e2e/apps/job.go", "LineNumber": 12}}},
 {"ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeType": "It", "LeafNodeText": "needs two [Conformance]", "State": "skipped",
  "Failure": {"Message": "Requires at least 2 nodes", "Location": {"FileName": "skip.go", "LineNumber": 3}}},
 {"ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeType": "It", "LeafNodeText": "of another stage [Conformance]", "State": "skipped"},
 {"ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeType": "It", "LeafNodeText": "panics [Conformance]", "State": "panicked", "Failure": {"Message": "boom"}},
 {"ContainerHierarchyTexts": ["[sig-cli] Kubectl"], "LeafNodeType": "It", "LeafNodeText": "not chosen [Conformance]", "State": "failed"}
]}]`

func sample(t *testing.T) *results {
	t.Helper()
	r := newResults([]string{
		"[sig-apps] Job should run [Conformance]", "[sig-apps] Job should fail [Conformance]", "[sig-node] Pods needs two [Conformance]",
		"[sig-node] Pods of another stage [Conformance]", "[sig-node] Pods panics [Conformance]",
	})
	path := filepath.Join(t.TempDir(), "parallel.json")
	if err := os.WriteFile(path, []byte(ginkgoReport), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := r.read(path); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestReport: each chosen test has the state that the report gives, and one without is lost.
func TestReport(t *testing.T) {
	r := sample(t)
	for name, want := range map[string]struct {
		state   state
		failure string
	}{
		"[sig-apps] Job should run [Conformance]":        {passed, ""},
		"[sig-apps] Job should fail [Conformance]":       {failed, "Unexpected error: <*errors.StatusError>: not found (job.go:12)"},
		"[sig-node] Pods needs two [Conformance]":        {skipped, "Requires at least 2 nodes (skip.go:3)"},
		"[sig-node] Pods of another stage [Conformance]": {lost, ""},
		"[sig-node] Pods panics [Conformance]":           {failed, "boom (.:0)"},
	} {
		if got := r.byName[name]; got.State != want.state || got.Failure != want.failure {
			t.Errorf("%s: %s %q, want %s %q", name, got.State, got.Failure, want.state, want.failure)
		}
	}
	if len(r.byName) != len(r.tests) {
		t.Errorf("%d results of %d tests", len(r.byName), len(r.tests))
	}
	var table strings.Builder
	r.print(&table)
	if got := strings.Join(strings.Fields(table.String()), " "); !strings.HasSuffix(got, "sig-apps 1 1 0 0 sig-node 0 1 1 1 all 1 2 1 1") {
		t.Errorf("table: %s", got)
	}
	dir := t.TempDir()
	if err := r.write(dir); err != nil {
		t.Fatal(err)
	}
	lines, err := os.ReadFile(filepath.Join(dir, "failures.txt"))
	if err != nil || strings.Count(string(lines), "\n") != 4 || strings.Contains(string(lines), "should run") {
		t.Errorf("failures: %s %v", lines, err)
	}
}

// TestJudge: a test of the list that did not pass fails the run, however it ended; one
// that the list lacks does so only where every test counts. A reason excuses a test that
// does not pass, and no other.
func TestJudge(t *testing.T) {
	r := sample(t)
	for name, fails := range map[string]bool{
		"[sig-apps] Job should run [Conformance]": false, "[sig-apps] Job should fail [Conformance]": true,
		"[sig-node] Pods needs two [Conformance]": true, "[sig-node] Pods of another stage [Conformance]": true,
		"[sig-cli] of another run [Conformance]": false,
	} {
		if err := r.judge(list{name: ""}, false); (err != nil) != fails {
			t.Errorf("%s: %v", name, err)
		}
	}
	excused := list{}
	for _, one := range r.sorted() {
		if one.State != passed {
			excused[one.Name] = "it cannot here"
		}
	}
	if err := r.judge(excused, true); err != nil {
		t.Errorf("every failure has a reason: %v", err)
	}
	excused["[sig-apps] Job should run [Conformance]"] = "it should not"
	if err := r.judge(excused, true); err == nil || !strings.Contains(err.Error(), "take its reason out") {
		t.Errorf("a test passed that has a reason why not: %v", err)
	}
	delete(excused, "[sig-apps] Job should run [Conformance]")
	delete(excused, "[sig-node] Pods panics [Conformance]")
	if err := r.judge(excused, true); err == nil || !strings.Contains(err.Error(), "panics") {
		t.Errorf("a failure has no reason: %v", err)
	}
}

// TestList: what passed comes into the list, and what is in it stays, with its reasons.
func TestList(t *testing.T) {
	path := filepath.Join(t.TempDir(), "passing.txt")
	if err := os.WriteFile(path, []byte("# old\n# comment\n\n[sig-apps] Job should fail [Conformance]\n[sig-node] Pods needs two [Conformance]\tit has one\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	before, err := readList(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeList(path, before, sample(t)); err != nil {
		t.Fatal(err)
	}
	after, err := readList(path)
	if err != nil || len(before) != 2 || len(after) != 3 || !after.passes("[sig-apps] Job should fail [Conformance]") || !after.passes("[sig-apps] Job should run [Conformance]") {
		t.Errorf("before %v, after %v, %v", before, after, err)
	}
	if after["[sig-node] Pods needs two [Conformance]"] != "it has one" {
		t.Errorf("the reason is %q", after["[sig-node] Pods needs two [Conformance]"])
	}
	if text, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(text), "# old\n# comment\n[sig-apps]") {
		t.Errorf("%s, %v", text, err)
	}
	if _, err := readList(path + ".absent"); err == nil {
		t.Error("a list that is not there is read")
	}
}
