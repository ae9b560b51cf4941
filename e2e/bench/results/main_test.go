package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// TestTableIsCurrent compares README.md with what the files beside it say.
func TestTableIsCurrent(t *testing.T) {
	results, err := load(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	if len(results) < 40 {
		t.Fatalf("%d results were read; there are more", len(results))
	}
	got, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, table(results)) {
		t.Error("README.md is not what the JSON files say: run go generate ./e2e/bench/results")
	}
}

func TestResultsThatAreRefused(t *testing.T) {
	const good = `{"subject":"a","title":"A","date":"2026-11-21","machine":"m","command":"c","figures":[{"name":"n","unit":"s","values":{"before":[2],"after":[1,1.5]}}]}`
	for _, test := range []struct {
		name, file, old, new, says string
	}{
		{name: "as it is", file: "2026-11-21-a.json"},
		{name: "another name", file: "a.json", says: "2026-11-21-a.json"},
		{name: "no date", file: "2026-99-21-a.json", old: "2026-11-21", new: "2026-99-21", says: "month"},
		{name: "an unknown field", file: "2026-11-21-a.json", old: `"machine"`, new: `"maschine"`, says: "maschine"},
		{name: "no command", file: "2026-11-21-a.json", old: `"c"`, new: `""`, says: "command"},
		{name: "a side without runs", file: "2026-11-21-a.json", old: `[2]`, new: `[]`, says: "before"},
	} {
		t.Run(test.name, func(t *testing.T) {
			data := strings.Replace(good, test.old, test.new, 1)
			results, err := load(fstest.MapFS{test.file: {Data: []byte(data)}})
			if test.says != "" {
				if err == nil || !strings.Contains(err.Error(), test.says) {
					t.Errorf("the error is %v; want one about %q", err, test.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if row := "| [a](#a) | 2026-11-21 | n | s | before 2; after 1, 1.5 |  |\n"; !bytes.Contains(table(results), []byte(row)) {
				t.Errorf("the table lacks %q:\n%s", row, table(results))
			}
		})
	}
}
