package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var deleteNow = metav1.DeleteOptions{GracePeriodSeconds: new(int64)}

// rowLimit is how long one side may take for one row, preparation included.
const rowLimit = 12 * time.Minute

// goalHeld is how many pods that are there should be scheduled a second.
const goalHeld = 20_000

// measurePeer lets Pintle and kube-scheduler do the same work, one after the
// other: each row of each side on an empty store of its own, while nothing of
// the other side runs.
func measurePeer(ctx context.Context, o options) (_ []figure, err error) {
	dir, err := os.MkdirTemp(o.storeDir, "ptb")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	rows := o.rows()
	var wanted []string
	if o.peerRows != "" {
		wanted = strings.Split(o.peerRows, ",")
	}
	for _, id := range wanted {
		if !slices.ContainsFunc(rows, func(r peerRow) bool { return r.id == id }) {
			return nil, fmt.Errorf("no row %q; there are: %s", id, strings.Join(rowNames(), ", "))
		}
	}
	p, err := o.policy()
	if err != nil {
		return nil, err
	}
	var figures []figure
	var errs []error
	beside := map[string]compared{}
	for _, row := range rows {
		if len(wanted) > 0 && !slices.Contains(wanted, row.id) {
			continue
		}
		c, err := o.comparedRow(ctx, dir, p, row)
		if err != nil {
			// The others still tell something.
			errs = append(errs, fmt.Errorf("%s: %w", row.id, err))
			figures = append(figures, figure{Name: row.name, Unit: "pods/s", Skipped: err.Error()})
			continue
		}
		beside[row.id] = c
		figures = append(figures, c.figure)
		if row.id == "queue-full" && len(beside["queue-empty"].ours) > 0 {
			figures = append(figures, kept(beside["queue-full"], beside["queue-empty"]))
		}
	}
	return figures, errors.Join(append(errs, o.peerChart(p, figures))...)
}

func rowNames() (names []string) {
	for _, r := range (options{peerNodes: 1, peerPods: 1, peerFull: 1}).rows() {
		names = append(names, r.id)
	}
	return names
}

// kept is how many pods a second there are with others stuck, of those without.
// What both take of the processors stands beside it, since the rows follow one
// another and something else may run.
func kept(full, empty compared) figure {
	f := figure{Name: "  of those without", Unit: "%", Value: 100 * median(full.rates.ours) / median(empty.rates.ours), AtLeast: 90}
	ok := f.Value >= f.AtLeast
	f.Reached = &ok
	used := func(list []outcome) float64 { return sideOf("", list).ProcessorUs }
	f.Note = fmt.Sprintf("processor time a pod %.0f and %.0f us", used(full.ours), used(empty.ours))
	if len(full.theirs) > 0 && len(empty.theirs) > 0 {
		f.Note += fmt.Sprintf("; kube-scheduler %.0f %%, %.0f and %.0f us", 100*median(full.rates.theirs)/median(empty.rates.theirs), used(full.theirs), used(empty.theirs))
	}
	return f
}

// compared is a row as both sides did it, and as it is told.
type compared struct {
	rates        comparison
	ours, theirs []outcome
	figure       figure
}

// comparedRow has both sides do a row, as often as rounds are wanted.
func (o options) comparedRow(ctx context.Context, dir string, p policy, row peerRow) (compared, error) {
	c := comparison{name: row.name, unit: "pods/s", peer: "kube-scheduler", atLeast: row.goal}
	lacking := p.lacks(row.needs)
	var ours, theirs []outcome
	for range o.peerRounds {
		for _, side := range []struct {
			name  string
			start starter
			skip  bool
			into  *[]outcome
		}{{"pintle", p.pintle, lacking != "", &ours}, {"upstream", upstream, o.peerAlone, &theirs}} {
			if side.skip {
				continue
			}
			step("%s: %s, %d nodes, %d pods", row.id, side.name, row.nodes, row.count)
			out, err := o.doRow(ctx, dir, side.start, row)
			if err != nil {
				return compared{}, fmt.Errorf("%s: %w", side.name, err)
			}
			fmt.Printf("    %s\n", out)
			*side.into = append(*side.into, out)
		}
	}
	rate := func(list []outcome) (out []float64) {
		for _, one := range list {
			out = append(out, one.rate)
		}
		return out
	}
	c.ours, c.theirs = rate(ours), rate(theirs)
	var f figure
	switch {
	case len(ours) == 0:
		f = figure{Name: row.name, Unit: "pods/s", Skipped: fmt.Sprintf("the %s has no %s", p.name, lacking)}
		if len(theirs) > 0 {
			f.Note = fmt.Sprintf("kube-scheduler %s pods/s", joined(c.theirs))
		}
	case len(theirs) == 0:
		f = least(row.name, "pods/s", 0, c.ours...)
	default:
		f = c.figure()
	}
	if row.held && len(ours) > 0 { // it has a goal of its own
		ok := f.Value >= goalHeld
		f.AtLeast, f.Reached = 0, &ok
		f.Note = fmt.Sprintf("goal %d pods/s", goalHeld)
	}
	f.Floor = row.floor
	f.Note = joinNotes(f.Note, costs(ours, theirs), row.like, fmt.Sprintf("%d clients", o.peerWorkers), p.name)
	for _, side := range []struct {
		name string
		list []outcome
	}{{"pintle", ours}, {"upstream", theirs}} {
		if len(side.list) > 0 {
			f.Sides = append(f.Sides, sideOf(side.name, side.list))
		}
	}
	return compared{c, ours, theirs, f}, nil
}

// costs says what a pod took of the processors of both sides: of all that is
// measured, what else the machine does changes it least.
func costs(ours, theirs []outcome) string {
	if len(ours) == 0 || len(theirs) == 0 {
		return ""
	}
	a, b := sideOf("", ours).ProcessorUs, sideOf("", theirs).ProcessorUs
	return fmt.Sprintf("processor time a pod %.0f and %.0f us, %.1fx", a, b, b/a)
}

func joinNotes(notes ...string) string {
	return strings.Join(slices.DeleteFunc(notes, func(s string) bool { return s == "" }), "; ")
}

// outcome is what one side did with one row.
type outcome struct {
	rate float64 // pods a second
	// created is how many a second were acknowledged, bound or not.
	created float64
	// processor is what servers and scheduler used, in µs a pod; client what
	// this process did.
	processor, client float64
	latency           spread // from the create's sending, ms
	resident          float64
}

func (o outcome) String() string {
	s := fmt.Sprintf("%.0f pods/s; %.0f us of processor time a pod (clients %.0f), %.1f processors", o.rate, o.processor, o.client, o.rate*(o.processor+o.client)/1e6)
	if o.created > 0 {
		s += fmt.Sprintf("; created %.0f/s; a pod takes %.0f ms (p50), %.0f ms (p99)", o.created, o.latency.P50, o.latency.P99)
	}
	return s
}

func sideOf(name string, list []outcome) side {
	of := func(f func(outcome) float64) float64 {
		var all []float64
		for _, o := range list {
			all = append(all, f(o))
		}
		return median(all)
	}
	s := side{
		Name: name, Created: of(func(o outcome) float64 { return o.created }), ProcessorUs: of(func(o outcome) float64 { return o.processor }),
		ClientUs: of(func(o outcome) float64 { return o.client }), P50: of(func(o outcome) float64 { return o.latency.P50 }),
		P99: of(func(o outcome) float64 { return o.latency.P99 }), Resident: of(func(o outcome) float64 { return o.resident }),
	}
	for _, o := range list {
		s.PodsASecond = append(s.PodsASecond, o.rate)
	}
	return s
}

// doRow starts one side on an empty folder, prepares and measures, and asserts
// what came out before it says how fast.
func (o options) doRow(ctx context.Context, dir string, start starter, row peerRow) (out outcome, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, rowLimit, fmt.Errorf("not done within %s", rowLimit))
	defer cancel()
	folder, err := os.MkdirTemp(dir, "r")
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	c, err := start(ctx, folder, !row.held)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, c.stop(syscall.SIGTERM)) }()
	if err := c.prepare(ctx, measured, there); err != nil {
		return out, err
	}
	client, err := c.client()
	if err != nil {
		return out, err
	}
	if err := createNodes(ctx, client, 0, row.nodes, row.zones...); err != nil {
		return out, err
	}
	if !row.held {
		if err := c.warm(ctx, client); err != nil {
			return out, err
		}
	}
	if row.before != nil {
		if err := row.before(ctx, c); err != nil {
			return out, err
		}
	}
	if row.held {
		out, err = o.measureHeld(ctx, c, row)
	} else {
		out, err = o.measureRow(ctx, c, row)
	}
	if err != nil {
		return out, err
	}
	if rss, _, err := c.memory(); err == nil {
		out.resident = mb(rss)
	}
	if client, err = c.client(); err != nil {
		return out, err
	}
	return out, checkPlaced(ctx, client, row.count, row.legal)
}

// measureRow creates the pods and counts from the first create until the last is
// bound.
func (o options) measureRow(ctx context.Context, c *contender, row peerRow) (out outcome, err error) {
	client, err := c.client()
	if err != nil {
		return out, err
	}
	pods, err := newLoad(measured, row.count, row.shape)
	if err != nil {
		return out, err
	}
	b, err := followBindings(ctx, client)
	if err != nil {
		return out, err
	}
	defer b.stop()
	done := func() {}
	if c.name == "pintle" {
		done = o.startProfile(c.cfg, "peer-"+row.id)
	}
	defer done()
	used, own := c.processorTime(), processorTime(os.Getpid())
	begin := time.Now()
	if err := pods.create(ctx, client, o.peerWorkers); err != nil {
		return out, err
	}
	out.created = float64(row.count) / time.Since(begin).Seconds()
	if err := b.await(ctx, row.count); err != nil {
		return out, err
	}
	out.took(c, b, row.count, begin, used, own)
	if err := b.settle(); err != nil {
		return out, err
	}
	out.latency = b.latencies(pods)
	return out, nil
}

func (o *outcome) took(c *contender, b *bindings, n int, begin time.Time, used, own time.Duration) {
	a := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(n) }
	o.processor, o.client = a(c.processorTime()-used), a(processorTime(os.Getpid())-own)
	o.rate = float64(n) / b.last.Sub(begin).Seconds()
}

// measureHeld creates the pods while no scheduler runs, starts it, and counts
// from the first binding, or from a list that has some already, until the last:
// the start of a program and its first list are not scheduling.
func (o options) measureHeld(ctx context.Context, c *contender, row peerRow) (out outcome, err error) {
	client, err := c.client()
	if err != nil {
		return out, err
	}
	if err := createAll(ctx, client, measured, row.count, o.peerWorkers, row.shape); err != nil {
		return out, err
	}
	var b *bindings
	if c.name != "pintle" { // its API server stays as it is
		if b, err = followBindings(ctx, client); err != nil {
			return out, err
		}
	}
	if err := c.schedule(ctx); err != nil {
		if b != nil {
			b.stop()
		}
		return out, err
	}
	if b == nil {
		if client, err = c.client(); err != nil {
			return out, err
		}
		if b, err = followBindings(ctx, client); err != nil {
			return out, err
		}
	}
	defer b.stop()
	done := func() {}
	if c.name == "pintle" {
		done = o.startProfile(c.cfg, "peer-"+row.id)
	}
	defer done()
	var used, own time.Duration
	weighed := func() { used, own = c.processorTime(), processorTime(os.Getpid()) }
	b.mu.Lock()
	if weighed(); b.first.IsZero() {
		b.begun = weighed
	}
	b.mu.Unlock()
	if err := b.await(ctx, row.count); err != nil {
		return out, err
	}
	begin, n := b.began, row.count-b.early
	if b.early == 0 {
		begin, n = b.first, n-1
	}
	if n < 1 {
		return out, errors.New("all pods were bound before they could be counted")
	}
	out.took(c, b, n, begin, used, own)
	return out, b.settle()
}

func (o options) peerChart(p policy, figures []figure) error {
	var rows []figure
	for _, f := range figures {
		if f.Peer != nil {
			rows = append(rows, f)
		}
	}
	title := fmt.Sprintf("Pintle (blue, %s) and kube-scheduler (grey): pods/s, one run", p.name)
	return pairChart(filepath.Join(o.out, "peer.svg"), title, rows)
}
