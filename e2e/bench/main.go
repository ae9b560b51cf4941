package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"
)

// benchmark is one row group of the table.
type benchmark struct {
	name string
	what string
	run  func(ctx context.Context, o options) ([]figure, error)
}

var all = []benchmark{
	{"start", "serve to /readyz ok", start},
	{"memory", "resident memory of an idle standalone cluster, without containerd", memory},
	{"create", "durable pod creates, 32 client-go workers", create},
	{"schedule", "create to all bound, hollow nodes", schedule},
	{"pod", "pod create to Running against the three CRI calls by hand", pod},
}

// options are the command line's.
type options struct {
	rounds, nodes, pods, creates, workers int
	transport                             string
	profile                               string
	profileSeconds                        int
}

func main() {
	// The load comes from this process: its collector should not take the
	// processors from what is measured.
	debug.SetGCPercent(400)
	var o options
	out := flag.String("out", "build/bench", "folder of the JSON files")
	limit := flag.Duration("limit", 5*time.Minute, "longest that one benchmark may take")
	flag.IntVar(&o.rounds, "rounds", 3, "how often each is repeated; the best round counts, all are in the JSON")
	flag.IntVar(&o.nodes, "nodes", 1000, "hollow nodes of schedule")
	flag.IntVar(&o.pods, "pods", 5000, "pods of schedule")
	flag.IntVar(&o.creates, "creates", 15000, "pods of create")
	flag.IntVar(&o.workers, "workers", 32, "workers that create pods")
	flag.StringVar(&o.transport, "transport", "wasm", "transport of the classic set in schedule: wasm or process")
	flag.StringVar(&o.profile, "profile", "", "folder for processor and heap profiles of the kernel under load")
	flag.IntVar(&o.profileSeconds, "profile-seconds", 3, "how long the processor profile lasts")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: bench [flags] [start|memory|create|schedule|pod]…   (none: all)")
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, *out, *limit, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, out string, limit time.Duration, names []string) error {
	for _, n := range names {
		if !slices.ContainsFunc(all, func(b benchmark) bool { return b.name == n }) {
			return fmt.Errorf("no benchmark %q; there are: %s", n, strings.Join(benchmarkNames(), ", "))
		}
	}
	if o.rounds < 1 || o.nodes < 1 || o.pods < 1 || o.creates < 1 || o.workers < 1 {
		return errors.New("rounds, nodes, pods, creates and workers must be at least 1")
	}
	var errs []error
	for _, b := range all {
		if len(names) > 0 && !slices.Contains(names, b.name) || ctx.Err() != nil {
			continue
		}
		fmt.Printf("%s: %s\n", b.name, b.what)
		before := loadAverage()
		bctx, cancel := context.WithTimeout(ctx, limit)
		figures, err := b.run(bctx, o)
		cancel()
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", b.name, err))
			fmt.Printf("  failed: %v\n", err)
			continue
		}
		r := newReport(b, figures, before)
		r.print(os.Stdout)
		if err := r.write(out); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func benchmarkNames() []string {
	var names []string
	for _, b := range all {
		names = append(names, b.name)
	}
	return names
}
