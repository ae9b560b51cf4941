// Command results writes the table of measurements, README.md, from the JSON files
// beside it. Each file is one subject that was measured on one date: figures with
// their unit, the command that printed them, the machine and its load. Decision
// records (kernel/rationale) refer to a subject by its name.
//
// A new measurement of a subject is a new file, DATE-SUBJECT.json; the former one
// stays, so that the table shows both. It imports nothing of Pintle.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:generate go run . README.md

// result is one file.
type result struct {
	Subject string   `json:"subject"`
	Title   string   `json:"title"`
	Date    string   `json:"date"`
	Commit  string   `json:"commit,omitempty"` // empty where it was not recorded
	Machine string   `json:"machine"`
	Load    string   `json:"load,omitempty"` // load average, or what else ran
	Command string   `json:"command"`
	Note    string   `json:"note,omitempty"`
	Figures []figure `json:"figures"`
}

// figure is one row of the table. Values has the runs of each side that was compared,
// for example "before" and "after"; a figure with one side calls it "value".
type figure struct {
	Name   string               `json:"name"`
	Unit   string               `json:"unit"`
	Values map[string][]float64 `json:"values"`
	Goal   string               `json:"goal,omitempty"`
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: results FILE")
		os.Exit(2)
	}
	results, err := load(os.DirFS("."))
	if err == nil {
		err = os.WriteFile(os.Args[1], table(results), 0o644) //nolint:gosec // a document
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "results:", err)
		os.Exit(1)
	}
}

// load reads and checks all results of a folder, by subject and date.
func load(dir fs.FS) ([]result, error) {
	names, err := fs.Glob(dir, "*.json")
	if err != nil {
		return nil, err
	}
	var results []result
	for _, name := range names {
		data, err := fs.ReadFile(dir, name)
		if err != nil {
			return nil, err
		}
		var r result
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&r); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if err := r.check(name); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		results = append(results, r)
	}
	slices.SortFunc(results, func(a, b result) int {
		return strings.Compare(a.Subject+a.Date, b.Subject+b.Date)
	})
	return results, nil
}

// check refuses a file that a reader could not use.
func (r result) check(name string) error {
	if want := r.Date + "-" + r.Subject + ".json"; path.Base(name) != want {
		return fmt.Errorf("by its subject and date its name is %s", want)
	}
	if _, err := time.Parse(time.DateOnly, r.Date); err != nil {
		return err
	}
	if r.Title == "" || r.Command == "" || r.Machine == "" || len(r.Figures) == 0 {
		return fmt.Errorf("title, command, machine and figures are required")
	}
	for _, f := range r.Figures {
		if f.Name == "" || len(f.Values) == 0 {
			return fmt.Errorf("figure %q: name and values are required", f.Name)
		}
		for side, runs := range f.Values {
			if len(runs) == 0 {
				return fmt.Errorf("figure %q: %s has no value", f.Name, side)
			}
		}
	}
	return nil
}

// table is README.md.
func table(results []result) []byte {
	var b bytes.Buffer
	b.WriteString(`# Measurements

Generated from the JSON files in this folder: ` + "`go generate ./e2e/bench/results`" + `. Several values of one
side are several runs, or the smallest and the largest of them. Machines and loads differ, so compare
values of one row only.
Each subject has its command, machine and load below the table.

| Subject | Date | Figure | Unit | Values | Goal |
|---|---|---|---|---|---|
`)
	for _, r := range results {
		for _, f := range r.Figures {
			fmt.Fprintf(&b, "| [%s](#%s) | %s | %s | %s | %s | %s |\n", r.Subject, r.Subject, r.Date,
				f.Name, f.Unit, f.values(), f.Goal)
		}
	}
	last := ""
	for _, r := range results {
		if r.Subject != last {
			fmt.Fprintf(&b, "\n## %s\n\n", r.Subject)
			last = r.Subject
		}
		fmt.Fprintf(&b, "%s. %s", r.Date, r.Title)
		if r.Commit != "" {
			fmt.Fprintf(&b, ", commit %s", r.Commit)
		}
		fmt.Fprintf(&b, ". Command: `%s`. Machine: %s.", r.Command, r.Machine)
		if r.Load != "" {
			fmt.Fprintf(&b, " Load: %s.", r.Load)
		}
		if r.Note != "" {
			fmt.Fprintf(&b, " %s", r.Note)
		}
		b.WriteString("\n")
	}
	return b.Bytes()
}

// values is what a row shows: each side with its runs, in an order that readers expect.
func (f figure) values() string {
	rank := func(side string) int {
		return slices.Index([]string{"after", "with"}, side)
	}
	sides := make([]string, 0, len(f.Values))
	for side := range f.Values {
		sides = append(sides, side)
	}
	slices.SortFunc(sides, func(a, b string) int {
		if rank(a) != rank(b) {
			return rank(a) - rank(b)
		}
		return strings.Compare(a, b)
	})
	var parts []string
	for _, side := range sides {
		var runs []string
		for _, v := range f.Values[side] {
			runs = append(runs, strconv.FormatFloat(v, 'f', -1, 64))
		}
		part := strings.Join(runs, ", ")
		if side != "value" && side != "count" {
			part = side + " " + part
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}
