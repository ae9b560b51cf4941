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

	"pintle.dev/pintle/e2e/bench/rig"
	"pintle.dev/pintle/sdk/schedpolicy"
)

// rowLimit is how long one side may take for one row, preparation included.
const rowLimit = 30 * time.Minute

// options are the command line's.
type options struct {
	out, dir, profile                        string
	rows                                     []string
	rounds                                   int
	alone                                    bool
	nodes, pods                              int
	restNodes                                int
	updated, job, parallelism                int
	objects, deployments, many, weighedNodes int
	rest, watched                            time.Duration
	beating                                  int
	beats, lease                             time.Duration
}

func main() {
	// The load comes from this process: its collector should not take the processors from
	// what is measured, and its threads should not preempt it.
	debug.SetGCPercent(400)
	if err := schedpolicy.Batch(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	var o options
	var rows string
	flag.StringVar(&o.out, "out", "build/bench", "folder of the JSON file")
	flag.StringVar(&o.dir, "dir", "", "folder on the disk that the stores use; empty: the system's for temporary files")
	flag.StringVar(&o.profile, "profile", "", "folder for profiles of the kernel: processor under load, heap at rest")
	flag.StringVar(&rows, "rows", "", "rows to measure: "+strings.Join(rowNames(), ",")+"; empty: all but heartbeat")
	flag.IntVar(&o.rounds, "rounds", 1, "how often each row is repeated; medians")
	flag.BoolVar(&o.alone, "alone", false, "leave upstream out")
	flag.IntVar(&o.nodes, "nodes", 1000, "hollow nodes of ready, rolling and job")
	flag.IntVar(&o.pods, "pods", 5000, "replicas of create, ready and memory")
	flag.IntVar(&o.restNodes, "rest-nodes", 100, "hollow nodes of memory")
	flag.IntVar(&o.updated, "updated", 2000, "replicas of rolling")
	flag.IntVar(&o.job, "job", 10_000, "indexes of job")
	flag.IntVar(&o.parallelism, "parallelism", 500, "pods of job at once")
	flag.IntVar(&o.objects, "objects", 20_000, "objects of namespace")
	flag.IntVar(&o.deployments, "deployments", 10_000, "Deployments of idle")
	flag.IntVar(&o.many, "many", 10_000, "replicas of weight")
	flag.DurationVar(&o.rest, "rest", time.Minute, "how long servers are left alone before they are weighed")
	flag.DurationVar(&o.watched, "watched", time.Minute, "how long idle Deployments are watched")
	flag.IntVar(&o.beating, "beating", 50_000, "hollow nodes of heartbeat, which runs when -rows names it")
	flag.DurationVar(&o.beats, "beats", 5*time.Minute, "how long heartbeat watches the nodes after all are Ready")
	flag.DurationVar(&o.lease, "lease", 40*time.Second, "how long the Lease of a node of heartbeat is valid; it is renewed each quarter of that, and a node is lost after one and a quarter")
	flag.Parse()
	if rows != "" {
		o.rows = strings.Split(rows, ",")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	for _, name := range o.rows {
		if !slices.Contains(rowNames(), name) {
			return fmt.Errorf("no row %q; there are: %s", name, strings.Join(rowNames(), ", "))
		}
	}
	if min(o.rounds, o.nodes, o.pods, o.restNodes, o.updated, o.job, o.parallelism, o.objects, o.deployments, o.many, o.beating) < 1 || min(o.beats, o.lease) < 4*time.Second {
		return errors.New("rounds and sizes must be at least 1, beats and lease at least 4s")
	}
	before := rig.LoadAverage()
	var figures []rig.Figure
	var errs []error
	for _, r := range rows() {
		named := slices.Contains(o.rows, r.name)
		if !named && (len(o.rows) > 0 || r.alone) || ctx.Err() != nil {
			continue
		}
		measured, err := o.compare(ctx, r)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", r.name, err))
			fmt.Printf("  failed: %v\n", err)
		}
		figures = append(figures, measured...)
	}
	if len(figures) == 0 {
		return errors.Join(errs...)
	}
	report := rig.NewReport("controllers", "controllers beside kube-controller-manager, in turns", figures, before)
	report.Print(os.Stdout)
	if err := errors.Join(errs...); err != nil {
		report.Failed = err.Error()
	}
	return errors.Join(append(errs, report.Write(o.out))...)
}

// step says what begins, with the time.
func step(format string, args ...any) {
	fmt.Printf("  %s %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

// outcome is what one side did in one row: values by the name of a figure.
type outcome struct {
	values map[string]float64
	notes  map[string]string
}

func newOutcome() *outcome {
	return &outcome{values: map[string]float64{}, notes: map[string]string{}}
}

func (o *outcome) set(figure string, value float64, note string) {
	o.values[figure], o.notes[figure] = value, note
	fmt.Printf("    %s: %.4g (%s)\n", figure, value, note)
}

// compare has both sides do a row, as often as rounds are wanted, and makes its figures.
func (o options) compare(ctx context.Context, r row) ([]rig.Figure, error) {
	sides := []struct {
		name  string
		start starter
	}{{"pintle", startPintle}, {"kube-controller-manager", startUpstream}}
	if o.alone || r.alone {
		sides = sides[:1]
	}
	got := map[string][]*outcome{}
	for range o.rounds {
		for _, side := range sides {
			step("%s: %s", r.name, side.name)
			out, err := o.do(ctx, side.start, r)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", side.name, err)
			}
			got[side.name] = append(got[side.name], out)
		}
	}
	var figures []rig.Figure
	for _, f := range r.figures {
		of := func(side string) (values []float64, note string) {
			for _, out := range got[side] {
				if v, ok := out.values[f.name]; ok {
					values, note = append(values, v), out.notes[f.name]
				}
			}
			return values, note
		}
		ours, note := of("pintle")
		if len(ours) == 0 {
			continue
		}
		figure := rig.Figure{Name: f.name, Unit: f.unit, Value: rig.Median(ours), Rounds: ours, Note: note}
		reached := true
		if theirs, other := of("kube-controller-manager"); len(theirs) > 0 {
			figure.Peer = &rig.Peer{Name: "kube-controller-manager", Value: rig.Median(theirs), Rounds: theirs}
			// How many times better: a rate is the higher the better, all else the lower.
			if figure.Peer.Ratio = figure.Peer.Value / figure.Value; f.rate {
				figure.Peer.Ratio = figure.Value / figure.Peer.Value
			}
			figure.Note += "; theirs " + other
			if f.times > 0 {
				figure.AtLeast, reached = f.times, figure.Peer.Ratio >= f.times
				figure.Reached = &reached
			}
		}
		if f.goal > 0 {
			if reached = figure.Value <= f.goal; f.rate {
				reached = figure.Value >= f.goal
			}
			figure.Reached = &reached
			figure.Note = fmt.Sprintf("goal %g %s; %s", f.goal, f.unit, figure.Note)
		}
		figures = append(figures, figure)
	}
	return figures, nil
}

// do starts one side on an empty folder and has it do a row.
func (o options) do(ctx context.Context, start starter, r row) (out *outcome, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, rowLimit, fmt.Errorf("not done within %s", rowLimit))
	defer cancel()
	dir, err := os.MkdirTemp(o.dir, "ptb")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := start(ctx, o, dir, r)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	if nodes := r.nodes(o); nodes > 0 {
		if err := s.startNodes(ctx, nodes); err != nil {
			return nil, err
		}
	}
	out = newOutcome()
	return out, r.measure(ctx, o, s, out)
}
