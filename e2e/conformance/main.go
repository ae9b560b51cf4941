package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"time"

	"pintle.dev/pintle/e2e/cluster"
)

type options struct {
	focus, skip    string
	list, out      string
	procs          int
	limit          time.Duration
	listed, update bool
	unlisted       bool
}

func main() {
	var o options
	flag.StringVar(&o.focus, "focus", "", "regular expression of the names of tests to run; empty: all")
	flag.StringVar(&o.skip, "skip", "", "regular expression of the names of tests to leave out")
	flag.IntVar(&o.procs, "procs", 6, "tests at a time; those that are serial run alone")
	flag.BoolVar(&o.listed, "listed", false, "run only the tests that -list names")
	flag.BoolVar(&o.unlisted, "unlisted", false, "run only the tests that -list does not name")
	flag.StringVar(&o.list, "list", "e2e/conformance/passing.txt", "file of the tests that have to pass")
	flag.BoolVar(&o.update, "update", false, "add to the list what passed")
	flag.DurationVar(&o.limit, "limit", 90*time.Minute, "longest that each stage may take")
	flag.StringVar(&o.out, "out", "build/conformance", "folder of images, logs and reports")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	if o.procs < 1 || flag.NArg() > 0 {
		return fmt.Errorf("%d processes, arguments %q; see -help", o.procs, flag.Args())
	}
	if o.out, err = filepath.Abs(o.out); err != nil {
		return err
	}
	bin, err := cluster.Bin()
	if err != nil {
		return err
	}
	focus, err := regexp.Compile(o.focus)
	if err != nil {
		return fmt.Errorf("-focus: %w", err)
	}
	skip, err := regexp.Compile(o.skip)
	if err != nil {
		return fmt.Errorf("-skip: %w", err)
	}
	expected, err := readList(o.list)
	if err != nil {
		return err
	}
	images := filepath.Join(o.out, "images")
	if err := makeImages(ctx, bin, images); err != nil {
		return err
	}
	s, err := startSuite(ctx, o, bin, images)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	all, err := s.tests(ctx)
	if err != nil {
		return err
	}
	for name := range expected {
		if !slices.Contains(all, name) {
			return fmt.Errorf("%s names a test that the suite has not: %s", o.list, name)
		}
	}
	chosen := slices.DeleteFunc(slices.Clone(all), func(name string) bool {
		return !focus.MatchString(name) || o.skip != "" && skip.MatchString(name) || o.listed && !expected[name] || o.unlisted && expected[name]
	})
	if len(chosen) == 0 {
		return fmt.Errorf("no test of %d is chosen", len(all))
	}
	r, err := s.run(ctx, chosen)
	if err != nil {
		return err
	}
	r.print(os.Stdout)
	if err := r.write(o.out); err != nil {
		return err
	}
	if o.update {
		return writeList(o.list, expected, r)
	}
	return r.judge(expected)
}
