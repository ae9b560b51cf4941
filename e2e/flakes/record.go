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
	"time"
)

// result is one run of one test, a line of runs.jsonl.
type result struct {
	Test string `json:"test"`
	// End is PASS, FAIL or SKIP, as the test program prints it.
	End     string  `json:"end"`
	Seconds float64 `json:"seconds"`
	// Commit is what was tested.
	Commit string `json:"commit,omitempty"`
}

// tally is what is known of one test.
type tally struct {
	row                     int // runs that passed or were skipped since the last failure
	passed, failed, skipped int
	seconds                 []float64
	broken                  string // the commit of the last failure
}

// record keeps results in memory and in a file.
type record struct {
	file   *os.File
	tests  map[string]*tally
	commit string  // of what is added
	ran    float64 // seconds of what was added
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
		t.failed, t.row, t.broken = t.failed+1, 0, one.Commit
		return
	case "PASS":
		t.passed++
	default:
		t.skipped++
	}
	t.row++
}

func (r *record) add(one result) error {
	one.Commit = r.commit
	r.count(one)
	r.ran += one.Seconds
	line, err := json.Marshal(one)
	if err != nil {
		return err
	}
	if _, err := r.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("results: %w", err)
	}
	return nil
}

// median is the time of a test, 0 for one that never ran.
func (t *tally) median() float64 {
	if len(t.seconds) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(t.seconds))[len(t.seconds)/2]
}

// left estimates how long it takes until each test has passed as often as it shall,
// in as many rounds at most, if each second of a test costs a round that many. It
// counts the tests whose time nobody knows.
func (r *record) left(names []string, runs, rounds int, waits float64) (d time.Duration, unknown int) {
	var sum float64
	for _, name := range names {
		t := r.of(name)
		if len(t.seconds) == 0 {
			unknown++
		}
		sum += t.median() * float64(max(0, min(runs-t.row, rounds)))
	}
	return time.Duration(sum * waits * float64(time.Second)), unknown
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
		fmt.Fprintf(out, "%-50s %3d in a row %3d passed %3d failed %3d skipped   %5.1f s in the median, %.1f at most", name, t.row, t.passed, t.failed, t.skipped, t.median(), slices.Max(t.seconds))
		if t.broken != "" {
			fmt.Fprintf(out, ", failed last at %s", t.broken)
		}
		fmt.Fprintln(out)
	}
	if len(short) == 0 {
		return nil
	}
	return fmt.Errorf("without %d runs in a row: %s; the same command goes on, and logs of failures are in %s", o.runs, strings.Join(short, ", "), o.out)
}
