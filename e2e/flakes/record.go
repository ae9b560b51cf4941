package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// result is one run of one test, a line of runs.jsonl.
type result struct {
	Test string `json:"test"`
	// End is PASS, FAIL or SKIP, as the test program prints it.
	End     string  `json:"end"`
	Seconds float64 `json:"seconds"`
}

// tally is what is known of one test.
type tally struct {
	row                     int // runs that passed or were skipped since the last failure
	passed, failed, skipped int
	seconds                 []float64
}

// record keeps results in memory and in a file.
type record struct {
	file  *os.File
	tests map[string]*tally
}

func openRecord(path string, again bool) (*record, error) {
	mode := os.O_RDWR | os.O_CREATE | os.O_APPEND
	if again {
		mode |= os.O_TRUNC
	}
	f, err := os.OpenFile(path, mode, 0o644)
	if err != nil {
		return nil, fmt.Errorf("results: %w", err)
	}
	r := &record{file: f, tests: map[string]*tally{}}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		var one result
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			return nil, errors.Join(fmt.Errorf("results: %s:%d: %w; delete the file to begin anew", path, n, err), f.Close())
		}
		r.count(one)
	}
	if err := lines.Err(); err != nil {
		return nil, errors.Join(fmt.Errorf("results: %s: %w", path, err), f.Close())
	}
	return r, nil
}

func (r *record) close() { _ = r.file.Close() }

func (r *record) of(name string) *tally {
	if r.tests[name] == nil {
		r.tests[name] = &tally{}
	}
	return r.tests[name]
}

func (r *record) count(one result) {
	t := r.of(one.Test)
	t.seconds = append(t.seconds, one.Seconds)
	switch one.End {
	case "FAIL":
		t.failed, t.row = t.failed+1, 0
		return
	case "PASS":
		t.passed++
	default:
		t.skipped++
	}
	t.row++
}

func (r *record) add(one result) error {
	r.count(one)
	line, err := json.Marshal(one)
	if err != nil {
		return err
	}
	if _, err := r.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("results: %w", err)
	}
	return nil
}

// report prints each test, and names those whose row is not complete.
func (r *record) report(out io.Writer, names []string, o options) error {
	var short []string
	for _, name := range names {
		t := r.of(name)
		if t.row < o.runs {
			short = append(short, name)
		}
		if len(t.seconds) == 0 {
			fmt.Fprintf(out, "%-50s did not run\n", name)
			continue
		}
		s := slices.Sorted(slices.Values(t.seconds))
		fmt.Fprintf(out, "%-50s %3d in a row %3d passed %3d failed %3d skipped   %5.1f s in the median, %.1f at most\n",
			name, t.row, t.passed, t.failed, t.skipped, s[len(s)/2], s[len(s)-1])
	}
	if len(short) == 0 {
		return nil
	}
	return fmt.Errorf("without %d runs in a row: %s; the same command goes on, and logs of failures are in %s", o.runs, strings.Join(short, ", "), o.out)
}
