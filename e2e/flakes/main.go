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
	pkg, run, out        string
	runs, load, parallel int
	rounds               int
	each                 time.Duration
	again                bool
}

func main() {
	var o options
	flag.StringVar(&o.pkg, "package", "e2e", "folder of the package")
	flag.StringVar(&o.run, "run", ".", "regular expression of the tests")
	flag.IntVar(&o.runs, "runs", 20, "how often each has to pass in a row")
	flag.IntVar(&o.rounds, "rounds", 0, "most rounds of this start; 0: as many as it takes, up to twice -runs")
	flag.IntVar(&o.load, "load", runtime.NumCPU(), "threads that do nothing but take processor time")
	// Tests wait most of the time.
	flag.IntVar(&o.parallel, "parallel", 4*runtime.NumCPU(), "tests at the same time")
	flag.DurationVar(&o.each, "each", time.Hour, "longest that one round may take")
	flag.BoolVar(&o.again, "again", false, "forget what earlier starts wrote down")
	flag.StringVar(&o.out, "out", "build/flakes", "folder of results and logs")
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
	rec, err := openRecord(filepath.Join(o.out, "runs.jsonl"), o.again)
	if err != nil {
		return err
	}
	defer rec.close()
	rec.commit = commit(ctx)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for range o.load {
		go spin(ctx) // ends with the process
	}
	rounds := o.rounds
	if rounds <= 0 {
		rounds = 2 * o.runs
	}
	waits := 1 / float64(o.parallel) // of a round, for each second of its tests
	for n := 1; n <= rounds && ctx.Err() == nil; n++ {
		due := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return rec.of(name).row >= o.runs })
		if len(due) == 0 {
			break
		}
		fmt.Printf("round %d: %d of %d tests; %s\n", n, len(due), len(names), left(rec.left(due, o.runs, rounds-n+1, waits)))
		began, ran := time.Now(), rec.ran
		if err := round(ctx, program, due, o, rec); err != nil {
			return err
		}
		if sum := rec.ran - ran; sum > 0 {
			waits = time.Since(began).Seconds() / sum
		}
	}
	return rec.report(os.Stdout, names, o)
}

// left says how long the rounds that are left may take.
func left(d time.Duration, unknown int) string {
	switch {
	case d == 0:
		return "how long is not known yet"
	case unknown > 0:
		return fmt.Sprintf("about %s left, without %d tests that have not run yet", d.Round(time.Minute), unknown)
	}
	return fmt.Sprintf("about %s left", d.Round(time.Minute))
}

// commit is what is tested, as git names it; changed: with more than that.
func commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--exclude=*", "--dirty=-changed").Output()
	if err != nil {
		return "" // not a checkout
	}
	return strings.TrimSpace(string(out))
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

// round runs each of the tests once and records what ended. A test that ends the
// program, by a panic or the time limit, has failed.
func round(ctx context.Context, program string, names []string, o options, rec *record) error {
	cmd := exec.CommandContext(ctx, program, "-test.v", "-test.run", "^("+strings.Join(names, "|")+")$",
		"-test.parallel", strconv.Itoa(o.parallel), "-test.timeout", o.each.String())
	cmd.Dir = o.pkg
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	log, err := cmd.CombinedOutput()
	runs := ends(log)
	if ctx.Err() == nil && err != nil && !slices.ContainsFunc(runs, func(r result) bool { return r.End == "FAIL" }) {
		// The program ended, and no test said that it was by it: those that had begun are suspects.
		for _, name := range begun(log, names) {
			if !slices.ContainsFunc(runs, func(r result) bool { return r.Test == name }) {
				runs = append(runs, result{Test: name, End: "FAIL"})
			}
		}
		if len(runs) == 0 {
			return fmt.Errorf("run tests: %w\n%s", err, log)
		}
	}
	for _, r := range runs {
		if ctx.Err() != nil && r.End == "FAIL" {
			continue // it was interrupted
		}
		if err := rec.add(r); err != nil {
			return err
		}
		if r.End == "FAIL" {
			fmt.Printf("%s failed\n", r.Test)
			if err := os.WriteFile(filepath.Join(o.out, r.Test+".log"), log, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

var (
	ended   = regexp.MustCompile(`(?m)^--- (PASS|FAIL|SKIP): (\S+) \(([0-9.]+)s\)$`)
	started = regexp.MustCompile(`(?m)^=== RUN   (\S+)$`)
)

// ends are the results that a test program printed, without subtests.
func ends(log []byte) (all []result) {
	for _, m := range ended.FindAllSubmatch(bytes.ReplaceAll(log, []byte("\r"), nil), -1) {
		seconds, _ := strconv.ParseFloat(string(m[3]), 64)
		all = append(all, result{Test: string(m[2]), End: string(m[1]), Seconds: seconds})
	}
	return all
}

// begun are the names of the tests that a test program began.
func begun(log []byte, names []string) (all []string) {
	for _, m := range started.FindAllSubmatch(bytes.ReplaceAll(log, []byte("\r"), nil), -1) {
		if slices.Contains(names, string(m[1])) {
			all = append(all, string(m[1]))
		}
	}
	return all
}
