package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestRequirementsAreCurrent says which id lacks a line, which line nothing cites, and
// whether requirements.md is what the tree says.
func TestRequirementsAreCurrent(t *testing.T) {
	ids, err := readTable("ids.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cited, err := scan(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	if len(cited) < 300 {
		t.Fatalf("%d ids were found; the test looks at the wrong place", len(cited))
	}
	text, faults := document(ids, cited)
	for _, fault := range faults {
		t.Error(fault)
	}
	got, err := os.ReadFile("../requirements.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, text) {
		t.Error("requirements.md is not what the tree says: run go generate ./e2e/requirements")
	}
}

func TestIDs(t *testing.T) {
	for _, test := range []struct {
		text string
		want []string
	}{
		{"// PRD-11, (FIL-5).", []string{"FIL-5", "PRD-11"}},
		{"RCC-16 to RCC-18", []string{"RCC-16", "RCC-17", "RCC-18"}},
		{"RCC-16 to\n// 18", []string{"RCC-16", "RCC-17", "RCC-18"}},
		{"KNS-1..3", []string{"KNS-1", "KNS-2", "KNS-3"}},
		{"KNS-1 … KNS-2", []string{"KNS-1", "KNS-2"}},
		{"RCC-1 to NOD-3", []string{"RCC-1"}},
		{"T-1 to 999", []string{"T-1"}},
		{"IMG-GC-1", []string{"IMG-GC-1"}},
		{"// DEP-4, [17.16]: x", []string{"DEP-4", "[17.16]"}},
		{"004 [7.5]", []string{"[7.5]"}},
		{"a[1.5] aPRD-11 PRD-11x", nil},
	} {
		if got := idsIn(test.text); !slices.Equal(got, test.want) {
			t.Errorf("%q cites %q; want %q", test.text, got, test.want)
		}
	}
}

func TestDocument(t *testing.T) {
	ids := &table{
		Sources: map[string]string{"000": "one", "003": "three"},
		Others:  []string{"RFC"},
		Places:  map[string]map[string]string{"T-5": {"a": "003"}},
		Asks:    map[string]map[string]string{"000": {"T-5": "first", "T-10": "tenth"}, "003": {"T-5": "third"}},
	}
	tree := fstest.MapFS{
		"a/a.go":          {Data: []byte("// T-5, RFC-1")},
		"b/b_test.go":     {Data: []byte("// T-5, T-10")},
		"bin/c.go":        {Data: []byte("// T-77")},
		"b/testdata/c.go": {Data: []byte("// T-78")},
	}
	cited, err := scan(tree)
	if err != nil {
		t.Fatal(err)
	}
	text, faults := document(ids, cited)
	if len(faults) != 0 {
		t.Errorf("faults: %q", faults)
	}
	_, rows, _ := strings.Cut(string(text), "\n## ")
	want := `000: one

| Id | What it asks | Cited by |
|---|---|---|
| T-5 | first | ` + "`b/b_test.go`" + ` |
| T-10 | tenth | ` + "`b/b_test.go`" + ` |

## 003: three

| Id | What it asks | Cited by |
|---|---|---|
| T-5 | third | ` + "`a/a.go`" + ` |
`
	if rows != want {
		t.Errorf("the rows are\n%s\nwant\n%s", rows, want)
	}
	tree["b/d.go"] = &fstest.MapFile{Data: []byte("// T-11")}
	ids.Asks["003"]["T-12"] = "twelfth"
	if cited, err = scan(tree); err != nil {
		t.Fatal(err)
	}
	_, faults = document(ids, cited)
	if len(faults) != 2 || !strings.Contains(faults[0], "b/d.go cites T-11") || !strings.Contains(faults[1], "T-12 of 003") {
		t.Errorf("the faults are %q", faults)
	}
}
