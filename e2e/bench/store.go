package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Sizes of the benchmark store.
const (
	rawWriters, rawBytes = 64, 1024
	rawRounds            = 5
	rawSeconds           = 4
	watchers, watchRate  = 1000, 500
	listPods             = 10_000
	allPods              = 100_000
	apiWorkers           = 64
	hotWorkers           = 32
)

// storePhases are the parts of the benchmark, in their order; each after api
// needs those before it.
var storePhases = []string{"raw", "fanout", "api", "watch", "fill", "soak"}

// storeBench is one run of the benchmark store.
type storeBench struct {
	o       options
	dir     string
	figures []figure
	soak    []sample
}

// measureStore compares Pintle with etcd and kube-apiserver, on the same disk
// and in turns. Everything is on loopback, below one folder that is removed.
func measureStore(ctx context.Context, o options) (_ []figure, err error) {
	dir, err := os.MkdirTemp(o.storeDir, "ptb")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b := &storeBench{o: o, dir: dir}
	wanted := storePhases
	if o.storePhases != "" {
		wanted = strings.Split(o.storePhases, ",")
		for _, name := range wanted {
			if !slices.Contains(storePhases, name) {
				return nil, fmt.Errorf("no phase %q; there are: %s", name, strings.Join(storePhases, ", "))
			}
		}
	}
	wants := func(name string) bool { return slices.Contains(wanted, name) }
	if wants("raw") || wants("fanout") {
		if err := b.bare(ctx, wants("raw"), wants("fanout")); err != nil {
			return nil, err
		}
	}
	if wants("api") || wants("watch") || wants("fill") {
		if err := b.served(ctx, wants("watch"), wants("fill")); err != nil {
			return nil, err
		}
	}
	if wants("soak") {
		if err := b.soaked(ctx); err != nil {
			return nil, err
		}
	}
	return b.figures, b.chart()
}

// step says what is being done, since the whole takes minutes.
func step(format string, args ...any) {
	fmt.Printf("  %s %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

func (b *storeBench) folder(name string) (string, error) {
	dir := filepath.Join(b.dir, name)
	return dir, os.Mkdir(dir, 0o700)
}

// bare compares the stores without an API: Pintle's as the library that it is
// in the kernel, etcd over gRPC as kube-apiserver has it.
func (b *storeBench) bare(ctx context.Context, raw, fanout bool) error {
	program, err := buildDriver(ctx, b.dir)
	if err != nil {
		return err
	}
	if raw {
		step("bare stores: %d writers", rawWriters)
		writes := comparison{name: "durable writes, 1 KB, 64 writers", unit: "1/s", peer: "etcd", atLeast: 3}
		slow := comparison{name: "p99 of those writes", unit: "ms", peer: "etcd", atMost: 0.5}
		for i := range rawRounds {
			d := drive{Writers: rawWriters, Seconds: rawSeconds, Bytes: rawBytes}
			ours, theirs, err := b.both(ctx, program, fmt.Sprintf("raw%d", i), d)
			if err != nil {
				return err
			}
			writes.add(ours.WritesASecond, theirs.WritesASecond)
			slow.add(ours.Write.P99, theirs.Write.P99)
		}
		b.figures = append(b.figures,
			writes.figure().With("new keys, compare-and-swap, synced before the answer; kernel/store in the writers' process, as in the kernel; etcd's clients over gRPC on loopback, one connection, as kube-apiserver"),
			slow.figure())
	}
	if !fanout {
		return nil
	}
	step("bare stores: %d watchers of everything", watchers)
	delivery := comparison{name: "1,000 watchers of all, 500 writes/s: delivery p99, bus", unit: "ms", peer: "etcd"}
	var alone, among, slower []float64
	var lost int
	for i := range 2 {
		d := drive{Writers: 16, Rate: watchRate, Seconds: rawSeconds, Bytes: rawBytes}
		quiet, _, err := b.both(ctx, program, fmt.Sprintf("alone%d", i), d)
		if err != nil {
			return err
		}
		d.Watchers = watchers
		ours, theirs, err := b.both(ctx, program, fmt.Sprintf("fanout%d", i), d)
		if err != nil {
			return err
		}
		if ours.Delivered != ours.Expected {
			return fmt.Errorf("the bus delivered %d events of %d", ours.Delivered, ours.Expected)
		}
		lost += theirs.Expected - theirs.Delivered
		delivery.add(ours.Delivery.P99, theirs.Delivery.P99)
		alone, among = append(alone, quiet.WritesASecond), append(among, ours.WritesASecond)
		slower = append(slower, ours.Write.Mean/quiet.Write.Mean)
		b.figures = append(b.figures, middle("  a write without, with watchers, round "+fmt.Sprint(i+1), "ms", 0, quiet.Write.Mean, ours.Write.Mean))
	}
	f := delivery.figure().With("from before the commit to the watcher; 500,000 deliveries/s; etcd had not delivered %d of them 10 s after the last write", lost)
	f.AtMost, f.Unit = 0, "ms"
	reached := f.Value <= 20
	f.Reached = &reached
	b.figures = append(b.figures, f, slowed("  writers with those watchers, of without", alone, among),
		middle("  what a write takes with those watchers, of without", "x", 1.1, slower...))
	return nil
}

// slowed is how many writes there are of those without watchers, in percent.
func slowed(name string, alone, among []float64) figure {
	f := figure{Name: name, Unit: "%", Value: 100 * median(among) / median(alone), AtLeast: 90}
	ok := f.Value >= f.AtLeast
	f.Reached = &ok
	return f.With("%s against %s writes/s", joined(among), joined(alone))
}

// both drives Pintle's store, then etcd, each with an empty directory.
func (b *storeBench) both(ctx context.Context, program, name string, d drive) (ours, theirs driven, err error) {
	dir, err := b.folder(name)
	if err != nil {
		return ours, theirs, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d.Engine, d.Target = "pintle", filepath.Join(dir, "pintle")
	if ours, err = d.by(ctx, program); err != nil {
		return ours, theirs, err
	}
	p, url, err := startEtcd(ctx, dir)
	if err != nil {
		return ours, theirs, err
	}
	defer func() { err = errors.Join(err, p.Stop(syscall.SIGTERM)) }()
	d.Engine, d.Target, d.Connections = "etcd", url, b.o.etcdConnections
	theirs, err = d.by(ctx, program)
	return ours, theirs, err
}

// served compares Pintle with kube-apiserver and etcd, through the API.
func (b *storeBench) served(ctx context.Context, watch, fill bool) (err error) {
	var dirs [2]string
	for i, name := range []string{"kernel", "upstream"} {
		if dirs[i], err = b.folder(name); err != nil {
			return err
		}
	}
	step("starting Pintle and kube-apiserver")
	kernel, err := startKernel(ctx, dirs[0], "5m")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kernel.stop(syscall.SIGTERM)) }()
	upstream, err := startUpstream(ctx, dirs[1])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, upstream.stop(syscall.SIGTERM)) }()
	idle, err := b.weighBoth(ctx, min(b.o.settle, idleFor), kernel, upstream)
	if err != nil {
		return err
	}
	for _, s := range []*apiServer{kernel, upstream} {
		if err := s.prepare(ctx, listed, watched, filled); err != nil {
			return err
		}
	}
	for _, phase := range []func(context.Context, *apiServer, *apiServer) error{b.created, b.lists, b.reads} {
		if err := phase(ctx, kernel, upstream); err != nil {
			return err
		}
	}
	if watch {
		if err := b.watches(ctx, kernel, upstream); err != nil {
			return err
		}
	}
	if !fill {
		return nil
	}
	if err := b.full(ctx, kernel, upstream, idle); err != nil {
		return err
	}
	return b.starts(ctx, dirs, kernel, upstream)
}

// weighed is the memory of both sides in MB.
type weighed struct{ rss, anonymous [2]float64 }

// weighBoth lets both be idle for a while, and weighs them.
func (b *storeBench) weighBoth(ctx context.Context, idle time.Duration, servers ...*apiServer) (w weighed, err error) {
	step("waiting %s, then weighing", idle)
	select {
	case <-time.After(idle):
	case <-ctx.Done():
		return w, ctx.Err()
	}
	for i, s := range servers {
		rss, anonymous, err := s.memory()
		if err != nil {
			return w, err
		}
		w.rss[i], w.anonymous[i] = mb(rss), mb(anonymous)
	}
	return w, nil
}

func (b *storeBench) created(ctx context.Context, kernel, upstream *apiServer) error {
	step("creating %d pods", listPods)
	const warm, rounds = 1000, 3
	creates := comparison{name: "durable pod creates through the API", unit: "1/s", peer: "kube-apiserver"}
	defer b.o.startProfile(kernel.cfg, "store-create")()
	for i := range rounds + 1 {
		n := (listPods - warm) / rounds
		if i == 0 {
			n = warm
		}
		var rates []float64
		for _, s := range []*apiServer{kernel, upstream} {
			rate, err := s.create(ctx, listed, fmt.Sprintf("listed-%d", i), n, apiWorkers)
			if err != nil {
				return err
			}
			rates = append(rates, rate)
		}
		if i > 0 {
			creates.add(rates[0], rates[1])
		}
	}
	b.figures = append(b.figures, creates.figure().With("%d workers of client-go with protobuf, which use the same processors", apiWorkers))
	return nil
}

func (b *storeBench) lists(ctx context.Context, kernel, upstream *apiServer) error {
	const rounds = 7
	for _, form := range listForms {
		step("listing %d pods: %s", listPods, form.name)
		times := comparison{name: "list of 10,000 pods, " + form.name, unit: "ms", peer: "kube-apiserver", atMost: 0.5}
		var sizes [2]int64
		var busy [2]time.Duration
		done := b.o.startProfile(kernel.cfg, "store-list-"+strings.ReplaceAll(form.name, ", ", "-"))
		for round := range rounds {
			var took [2]float64
			for i, s := range []*apiServer{kernel, upstream} {
				client, err := s.httpClient()
				if err != nil {
					return err
				}
				before := s.processorTime()
				d, n, err := s.list(ctx, client, form)
				busy[i] += s.processorTime() - before
				if err == nil && round == 0 {
					err = s.countListed(ctx, client, listPods)
				}
				client.CloseIdleConnections()
				if err != nil {
					return err
				}
				took[i], sizes[i] = float64(d.Microseconds())/1000, n
			}
			times.add(took[0], took[1])
		}
		done()
		b.figures = append(b.figures, times.figure().With(
			"request to last byte, not decoded; %.1f and %.1f MB; the servers' processor time a list %.0f and %.0f ms; the first of Pintle's lists makes the encodings",
			float64(sizes[0])/1e6, float64(sizes[1])/1e6, float64(busy[0].Milliseconds())/rounds, float64(busy[1].Milliseconds())/rounds))
	}
	return nil
}

func (b *storeBench) reads(ctx context.Context, kernel, upstream *apiServer) error {
	step("reading one object")
	const path = "/api/v1/namespaces/" + listed + "/pods/listed-1-7"
	latest := comparison{name: "reads of one hot object", unit: "1/s", peer: "kube-apiserver", atLeast: 2}
	defer b.o.startProfile(kernel.cfg, "store-hot")()
	cached := comparison{name: "  against resourceVersion=0, from its cache", unit: "1/s", peer: "kube-apiserver"}
	for range 3 {
		var rates []float64
		for _, ask := range []struct {
			s     *apiServer
			query string
		}{{kernel, ""}, {upstream, ""}, {upstream, "?resourceVersion=0"}} {
			rate, err := ask.s.hot(ctx, path+ask.query, hotWorkers, 3*time.Second)
			if err != nil {
				return err
			}
			rates = append(rates, rate)
		}
		latest.add(rates[0], rates[1])
		cached.add(rates[0], rates[2])
	}
	b.figures = append(b.figures,
		latest.figure().With("the latest state, JSON, %d connections of a thin client", hotWorkers),
		cached.figure().With("Pintle's is the latest state here too; upstream's may be old"))
	return nil
}

func (b *storeBench) watches(ctx context.Context, kernel, upstream *apiServer) error {
	const rounds = 2
	delivery := comparison{name: "1,000 watchers of a node each, 500 writes/s: delivery p99, API", unit: "ms", peer: "kube-apiserver"}
	var alone, among, felt, unfelt, slower []float64
	var theirs []string
	for i := range rounds {
		var p99 [2]float64
		for n, s := range []*apiServer{kernel, upstream} {
			step("%s: %d watchers of a node each", s.name, watchers)
			quiet, err := s.watch(ctx, audience{rate: watchRate, time: rawSeconds * time.Second}, fmt.Sprintf("alone-%d", i))
			if err != nil {
				return err
			}
			done := func() {}
			if n == 0 {
				done = b.o.startProfile(kernel.cfg, "store-watch")
			}
			got, err := s.watch(ctx, audience{watchers: watchers, byNode: true, rate: watchRate, time: rawSeconds * time.Second}, fmt.Sprintf("node-%d", i))
			done()
			if err != nil {
				return err
			}
			if got.delivered != got.expected || got.ended > 0 {
				return fmt.Errorf("%s delivered %d events of %d and ended %d watches", s.name, got.delivered, got.expected, got.ended)
			}
			p99[n] = got.delivery.P99
			if n == 0 {
				alone, among = append(alone, quiet.achieved), append(among, got.achieved)
				unfelt, felt = append(unfelt, quiet.write.Mean), append(felt, got.write.Mean)
				slower = append(slower, got.write.Mean/quiet.write.Mean)
			} else {
				theirs = append(theirs, fmt.Sprintf("%.0f%%", 100*got.achieved/quiet.achieved))
			}
		}
		delivery.add(p99[0], p99[1])
	}
	f := delivery.figure().With("from before the create was sent to the event's having been read; each create reaches one watcher")
	reached := f.Value <= 20
	f.Reached = &reached
	b.figures = append(b.figures, f,
		slowed("  writers with those watchers, of without", alone, among).With("a create takes %s, without %s ms; kube-apiserver's writers: %s", joined(felt), joined(unfelt), strings.Join(theirs, " ")),
		middle("  what a create takes with those watchers, of without", "x", 1.1, slower...))
	return b.crowd(ctx, kernel, upstream)
}

// crowd lets every watcher see every pod: more than two processors can carry
// over TLS, so that it shows how each side degrades.
func (b *storeBench) crowd(ctx context.Context, kernel, upstream *apiServer) error {
	for _, rate := range []int{20, watchRate} {
		delivery := comparison{name: fmt.Sprintf("1,000 watchers of all, %d writes/s: delivery p99, API", rate), unit: "ms", peer: "kube-apiserver"}
		var got [2]heard
		for n, s := range []*apiServer{kernel, upstream} {
			step("%s: %d watchers of everything, %d writes/s", s.name, watchers, rate)
			done := func() {}
			if n == 0 {
				done = b.o.startProfile(kernel.cfg, fmt.Sprintf("store-crowd-%d", rate))
			}
			var err error
			got[n], err = s.watch(ctx, audience{watchers: watchers, rate: rate, time: rawSeconds * time.Second}, fmt.Sprintf("crowd-%d", rate))
			done()
			if err != nil {
				return err
			}
		}
		delivery.add(got[0].delivery.P99, got[1].delivery.P99)
		b.figures = append(b.figures, delivery.figure().With(
			"5 s after the last write %.0f%% and %.0f%% were delivered, %d and %d watches ended; writers reached %.0f and %.0f/s",
			100*float64(got[0].delivered)/float64(got[0].expected), 100*float64(got[1].delivered)/float64(got[1].expected),
			got[0].ended, got[1].ended, got[0].achieved, got[1].achieved))
	}
	return nil
}

// full weighs both with 100,000 pods.
func (b *storeBench) full(ctx context.Context, kernel, upstream *apiServer, idle weighed) error {
	for _, s := range []*apiServer{upstream, kernel} {
		step("%s: filling up to %d pods", s.name, allPods)
		if err := s.fill(ctx, allPods, apiWorkers); err != nil {
			return err
		}
	}
	now, err := b.weighBoth(ctx, b.o.settle, kernel, upstream)
	if err != nil {
		return err
	}
	b.o.startProfile(kernel.cfg, "store-full")()
	each := func(now, idle float64) float64 { return (now - idle) * 1e6 / 1024 / allPods }
	resident := comparison{name: "resident memory a pod, 100,000 pods, above idle", unit: "KB", peer: "kube-apiserver and etcd"}
	resident.add(each(now.rss[0], idle.rss[0]), each(now.rss[1], idle.rss[1]))
	f := resident.figure().With("%.0f MB, idle %.0f; upstream %.0f, idle %.0f; %s idle before weighing", now.rss[0], idle.rss[0], now.rss[1], idle.rss[1], b.o.settle)
	reached := f.Value < 6
	f.Reached = &reached
	anonymous := comparison{name: "  without mapped files", unit: "KB", peer: "kube-apiserver and etcd"}
	anonymous.add(each(now.anonymous[0], idle.anonymous[0]), each(now.anonymous[1], idle.anonymous[1]))
	b.figures = append(b.figures, f, anonymous.figure())
	return nil
}

// starts measures later starts with what full has left: of Pintle after kill
// -9 and after orderly stops.
func (b *storeBench) starts(ctx context.Context, dirs [2]string, kernel, upstream *apiServer) error {
	step("starting with %d pods", allPods)
	if err := upstream.stop(syscall.SIGTERM); err != nil {
		return err
	}
	again := comparison{name: "start with 100,000 pods, to ready", unit: "s", peer: "kube-apiserver and etcd"}
	stop := kernel.stop
	for _, sig := range []os.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGTERM} {
		if err := stop(sig); err != nil {
			return err
		}
		s, err := startKernel(ctx, dirs[0], "5m")
		if err != nil {
			return err
		}
		stop = s.stop
		again.ours = append(again.ours, s.ready.Seconds())
		if err := s.awaitPods(ctx, allPods); err != nil {
			return errors.Join(err, stop(syscall.SIGTERM))
		}
	}
	if err := stop(syscall.SIGTERM); err != nil {
		return err
	}
	s, err := startUpstream(ctx, dirs[1])
	if err != nil {
		return err
	}
	again.theirs = append(again.theirs, s.ready.Seconds())
	if err := errors.Join(s.awaitPods(ctx, allPods), s.stop(syscall.SIGTERM)); err != nil {
		return err
	}
	f := again.figure().With("the first round after kill -9, all pods are there each time")
	reached := f.Value < 2
	f.Reached = &reached
	b.figures = append(b.figures, f)
	return nil
}

func (b *storeBench) soaked(ctx context.Context) error {
	step("rewriting for %s", b.o.soak)
	dir, err := b.folder("soak")
	if err != nil {
		return err
	}
	samples, retention, err := soak(ctx, dir, b.o.soak)
	if err != nil {
		return err
	}
	b.soak = samples
	last := samples[len(samples)-1]
	b.figures = append(b.figures,
		middle("soak: disk, last third to the middle one", "x", 1.2, growth(samples, func(s sample) float64 { return s.Disk })).
			With("%d rewrites of 1 KB in %s, history kept %s; %.0f MB at the end", last.Rewrites, b.o.soak, retention, last.Disk),
		middle("soak: memory, last third to the middle one", "x", 1.2, growth(samples, func(s sample) float64 { return s.RSS })).
			With("resident, %.0f MB at the end, %.0f of it anonymous", last.RSS, last.Anonymous))
	raw, err := json.MarshalIndent(samples, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(b.o.out, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.o.out, "store-soak.json"), append(raw, '\n'), 0o644)
}
