package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFaults: each test that README.md names for a fault is where it says.
func TestFaults(t *testing.T) {
	data, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, faults, found := strings.Cut(string(data), "\n## Faults\n")
	if !found {
		t.Fatal("README.md has no faults")
	}
	named := 0
	for _, m := range regexp.MustCompile("`([^`]+)`: ((?:Test\\w+(?:, )?)+)").FindAllStringSubmatch(faults, -1) {
		folder := filepath.Join("..", m[1])
		if m[1] == "e2e" {
			folder = filepath.Join("..", "..", m[1])
		}
		files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s has no tests: %v", m[1], err)
		}
		var text strings.Builder
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			text.Write(data)
		}
		for name := range strings.SplitSeq(m[2], ", ") {
			if named++; !strings.Contains(text.String(), "\nfunc "+name+"(t *testing.T) {") {
				t.Errorf("%s has no %s", m[1], name)
			}
		}
	}
	if rows := strings.Count(faults, "\n| ") - 1; named < rows {
		t.Errorf("%d tests are named for %d faults", named, rows)
	}
}
