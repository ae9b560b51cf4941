package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"pintle.dev/pintle/e2e/cluster"
)

type options struct {
	focus, skip    string
	list, out      string
	procs, nodes   int
	limit          time.Duration
	listed, update bool
	unlisted, all  bool
	dual           bool
}

func main() {
	var o options
	flag.StringVar(&o.focus, "focus", "", "regular expression of the names of tests to run; empty: all")
	flag.StringVar(&o.skip, "skip", "", "regular expression of the names of tests to leave out")
	flag.IntVar(&o.procs, "procs", 6, "tests at a time; those that are serial run alone")
	flag.IntVar(&o.nodes, "nodes", 0, "nodes that all tests have: 1 or 2; 0: 1, and 2 for those that want them")
	flag.BoolVar(&o.listed, "listed", false, "run only the tests that -list names")
	flag.BoolVar(&o.unlisted, "unlisted", false, "run only the tests that -list does not name")
	flag.BoolVar(&o.all, "all", false, "take the tests beyond the conformance suite too; -list should name another file")
	flag.StringVar(&o.list, "list", "e2e/conformance/passing.txt", "file of the tests that have to pass")
	flag.BoolVar(&o.dual, "dual", false, "pods, services and nodes have both IP families")
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

// wantTwo are the tests that fail or skip with one node.
var wantTwo = []string{
	"[sig-architecture] Conformance Tests should have at least two untainted nodes [Conformance]",
	"[sig-apps] Daemon set [Serial] should rollback without unnecessary restarts [Conformance]",
}

// nodesFor is how many nodes a test has.
func (o options) nodesFor(test string) int {
	switch {
	case o.nodes > 0:
		return o.nodes
	case slices.Contains(wantTwo, test), o.dual && strings.Contains(test, "Granular Checks"):
		return 2
	}
	return 1
}

func run(ctx context.Context, o options) (err error) {
	if o.procs < 1 || o.nodes < 0 || o.nodes > 2 || flag.NArg() > 0 {
		return fmt.Errorf("%d processes, %d nodes, arguments %q; see -help", o.procs, o.nodes, flag.Args())
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
	s, err := newSuite(o, bin)
	if err != nil {
		return err
	}
	all, err := s.tests(ctx)
	if err != nil {
		return err
	}
	for _, name := range append(slices.Sorted(maps.Keys(expected)), wantTwo...) {
		if !slices.Contains(all, name) {
			return fmt.Errorf("the suite has no test %s, which %s or wantTwo names", name, o.list)
		}
	}
	chosen := slices.DeleteFunc(slices.Clone(all), func(name string) bool {
		return !focus.MatchString(name) || o.skip != "" && skip.MatchString(name) || o.listed && !expected.passes(name) || o.unlisted && expected.passes(name)
	})
	if len(chosen) == 0 {
		return fmt.Errorf("no test of %d is chosen", len(all))
	}
	images := filepath.Join(o.out, "images")
	if err := makeImages(ctx, bin, images); err != nil {
		return err
	}
	r := newResults(chosen)
	var left error // behind by a cluster that has ended
	for nodes, suffix := range []string{1: "", 2: "-two-nodes"} {
		some := slices.DeleteFunc(slices.Clone(chosen), func(name string) bool { return o.nodesFor(name) != nodes })
		if len(some) == 0 {
			continue
		}
		if err := s.start(ctx, bin, images, nodes); err != nil {
			return err
		}
		err := s.run(ctx, some, suffix, r)
		left = errors.Join(left, s.stop())
		if err != nil {
			return errors.Join(err, left)
		}
	}
	r.print(os.Stdout)
	if err := r.write(o.out); err != nil {
		return errors.Join(err, left)
	}
	if o.update {
		return errors.Join(writeList(o.list, expected, r), left)
	}
	return errors.Join(r.judge(expected, o.all), left)
}
