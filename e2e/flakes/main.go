// Flakes runs each test of a package many times in a row while the processors are
// busy, and says which do not always pass. A test that fails once in twenty
// runs often fails a run of all tests.
//
// It builds the test program once, and runs one test after the other. The log of a
// test that failed is kept in the output folder.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

type options struct {
	pkg, run, out string
	runs, load    int
	each          time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.pkg, "package", "e2e", "folder of the package")
	flag.StringVar(&o.run, "run", ".", "regular expression of the tests")
	flag.IntVar(&o.runs, "runs", 20, "how often each runs in a row")
	flag.IntVar(&o.load, "load", runtime.NumCPU(), "threads that do nothing but take processor time")
	flag.DurationVar(&o.each, "each", 10*time.Minute, "longest that one run of a test may take")
	flag.StringVar(&o.out, "out", "build/flakes", "folder of logs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "flakes:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	program, err := filepath.Abs(filepath.Join(o.out, "tests"))
	if err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "go", "test", "-c", "-o", program, "./"+o.pkg).CombinedOutput(); err != nil {
		return fmt.Errorf("build tests of %s: %w\n%s", o.pkg, err, out)
	}
	names, err := list(ctx, program, o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for range o.load {
		go spin(ctx) // ends with the process
	}
	var bad []string
	for _, name := range names {
		r, log, err := repeat(ctx, program, name, o)
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		if err == nil && r.failed > 0 {
			err = fmt.Errorf("%d of %d runs failed", r.failed, o.runs)
		}
		fmt.Printf("%-50s %s\n", name, r)
		if err != nil {
			bad = append(bad, name)
			fmt.Printf("%-50s %v\n", "", err)
			if err := os.WriteFile(filepath.Join(o.out, name+".log"), log, 0o644); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			break
		}
	}
	return failed(bad, o.out)
}

func failed(names []string, out string) error {
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("not every run passed of %s; logs are in %s", strings.Join(names, ", "), out)
}

// spin takes the time of one processor.
func spin(ctx context.Context) {
	runtime.LockOSThread()
	for ctx.Err() == nil {
	}
}

func list(ctx context.Context, program string, o options) ([]string, error) {
	cmd := exec.CommandContext(ctx, program, "-test.list", o.run)
	cmd.Dir = o.pkg
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list tests: %w", err)
	}
	names := slices.DeleteFunc(strings.Fields(string(out)), func(s string) bool { return !strings.HasPrefix(s, "Test") })
	if len(names) == 0 {
		return nil, fmt.Errorf("no test of %s matches %q", o.pkg, o.run)
	}
	return names, nil
}

// results are those of one test.
type results struct {
	passed, failed, skipped int
	seconds                 []float64
}

func (r results) String() string {
	if len(r.seconds) == 0 {
		return "did not run"
	}
	slices.Sort(r.seconds)
	return fmt.Sprintf("%3d passed %3d failed %3d skipped   %5.1f s in the median, %.1f at most", r.passed, r.failed, r.skipped, r.seconds[len(r.seconds)/2], r.seconds[len(r.seconds)-1])
}

// repeat runs one test and returns what it printed.
func repeat(ctx context.Context, program, name string, o options) (results, []byte, error) {
	cmd := exec.CommandContext(ctx, program, "-test.v", "-test.run", "^"+name+"$", "-test.count", strconv.Itoa(o.runs),
		"-test.timeout", (time.Duration(o.runs) * o.each).String())
	cmd.Dir = o.pkg
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	log, err := cmd.CombinedOutput()
	r := count(log, name)
	if r.failed > 0 {
		err = nil // which the count says
	} else if err == nil && r.passed+r.skipped != o.runs {
		err = fmt.Errorf("%d of %d runs ended", r.passed+r.skipped, o.runs)
	}
	return r, log, err
}

var ended = regexp.MustCompile(`(?m)^--- (PASS|FAIL|SKIP): (\S+) \(([0-9.]+)s\)$`)

func count(log []byte, name string) (r results) {
	for _, m := range ended.FindAllSubmatch(bytes.ReplaceAll(log, []byte("\r"), nil), -1) {
		if string(m[2]) != name {
			continue
		}
		switch string(m[1]) {
		case "PASS":
			r.passed++
		case "FAIL":
			r.failed++
		default:
			r.skipped++
		}
		if s, err := strconv.ParseFloat(string(m[3]), 64); err == nil {
			r.seconds = append(r.seconds, s)
		}
	}
	return r
}
