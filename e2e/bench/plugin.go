package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"pintle.dev/pintle/e2e/cluster"
)

const (
	pluginNodes     = 5000
	pluginUpgrades  = 100
	pluginPods      = 10000
	manyBundles     = 200
	fitsPackage     = "./e2e/bench/testdata/fits"
	perCallPackage  = "./e2e/bench/testdata/percall"
	manyPackage     = "./e2e/bench/testdata/many"
	versionsPackage = "./e2e/testdata/plugins/versioned"
)

// pluginPhases are the parts of the benchmark plugin, in order.
var pluginPhases = []string{"ask", "percall", "memory", "install", "upgrades", "many"}

var transports = []string{"wasm", "process"}

// worker is the transport of modules that run in a process apart.
const worker = "worker"

// pluginBench is one run of the benchmark plugin.
type pluginBench struct {
	o       options
	dir     string
	driver  string // the compiled drives
	swapper string // those of kernel/placements
	cache   string
	figures []figure
}

// measurePlugins measures what plugins cost, as issue 5 wants it, through the
// kernel's plugin host, and from the built program where a user would see it.
func measurePlugins(ctx context.Context, o options) ([]figure, error) {
	var phases []string
	if o.pluginPhases != "" {
		phases = strings.Split(o.pluginPhases, ",")
	}
	for _, p := range phases {
		if !slices.Contains(pluginPhases, p) {
			return nil, fmt.Errorf("no phase %q; there are: %s", p, strings.Join(pluginPhases, ", "))
		}
	}
	dir, err := os.MkdirTemp("", "ptb")
	if err != nil {
		return nil, err
	}
	defer removeAll(dir)
	b := &pluginBench{o: o, dir: dir, cache: filepath.Join(dir, "cache")}
	if err := b.prepare(ctx); err != nil {
		return nil, err
	}
	var errs []error
	for _, phase := range pluginPhases {
		if len(phases) > 0 && !slices.Contains(phases, phase) {
			continue
		}
		began := time.Now()
		err := map[string]func(context.Context) error{
			"ask": b.ask, "percall": b.perCall, "memory": b.memory, "install": b.install, "upgrades": b.upgrades, "many": b.many,
		}[phase](ctx)
		fmt.Printf("  %s took %s\n", phase, time.Since(began).Round(time.Second))
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", phase, err))
		}
	}
	errs = append(errs, goalChart(filepath.Join(o.out, "plugin.svg"), "Plugins: what was measured, of its goal (the line)", b.figures))
	return b.figures, errors.Join(errs...)
}

// removeAll removes a tree of which parts are read-only, as a catalog's are.
func removeAll(dir string) {
	_ = exec.Command("chmod", "-R", "u+w", dir).Run()
	os.RemoveAll(dir)
}

func (b *pluginBench) prepare(ctx context.Context) (err error) {
	if b.driver, err = buildDriver(ctx, b.dir); err != nil {
		return err
	}
	repo, err := cluster.Repository()
	if err != nil {
		return err
	}
	manifest, err := os.ReadFile(filepath.Join(repo, fitsPackage, "manifest.yaml"))
	if err != nil {
		return err
	}
	return buildBundle(ctx, filepath.Join(b.dir, "fits"), fitsPackage, string(manifest), transports, "-ldflags=-s -w")
}

// repeat drives the same work as often as rounds are wanted.
func (b *pluginBench) repeat(ctx context.Context, d pluginDrive) ([]pluginDriven, error) {
	d.Cache, d.Nodes = b.cache, pluginNodes
	var list []pluginDriven
	for range b.o.rounds {
		one, err := d.by(ctx, b.driver)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, nil
}

func each(list []pluginDriven, unit float64, of func(pluginDriven) float64) []float64 {
	var out []float64
	for _, one := range list {
		out = append(out, of(one)/unit)
	}
	return out
}

// goals of issue 5, by transport.
type goals struct{ wasm, process float64 }

func (g goals) of(transport string) float64 {
	if transport == "wasm" {
		return g.wasm
	}
	return g.process
}

// ask measures questions: the predicates of testdata/fits.
func (b *pluginBench) ask(ctx context.Context) error {
	for _, transport := range append(transports, worker) {
		list, err := b.repeat(ctx, pluginDrive{Phase: "ask", Transport: transport, Bundle: filepath.Join(b.dir, "fits"), Predicate: 1})
		if err != nil {
			return err
		}
		dear, err := b.repeat(ctx, pluginDrive{Phase: "ask", Transport: transport, Bundle: filepath.Join(b.dir, "fits")})
		if err != nil {
			return err
		}
		us := func(name string, g goals, of func(pluginDriven) float64) figure {
			return middle(transport+": "+name, "us", g.of(transport), each(list, 1e3, of)...)
		}
		b.figures = append(b.figures,
			us("one crossing", goals{0.1, 60}, func(d pluginDriven) float64 { return d.Crossing }),
			us("a predicate over 5,000 nodes, uncached", goals{150, 400}, func(d pluginDriven) float64 { return d.Pass }).
				With("room for the requests; with a node selector, two maps, before it: %.0f us", median(each(dear, 1e3, func(d pluginDriven) float64 { return d.Pass }))),
			us("cached class, one changed node", goals{1, 60}, func(d pluginDriven) float64 { return d.Changed }).
				With("the delta of a bound pod and the question; the question alone: %.2f us", median(each(list, 1e3, func(d pluginDriven) float64 { return d.Asked }))),
		)
	}
	return b.cross(ctx)
}

// cross measures how much of a crossing into a module is the engine's and the
// compiler's: a template in C beside ours in Go.
func (b *pluginBench) cross(ctx context.Context) error {
	if _, err := exec.LookPath("clang"); err != nil {
		fmt.Println("  wasm: one crossing, modules in Go and in C: left out, there is no clang")
		return nil
	}
	dir := filepath.Join(b.dir, "c", "tier")
	if _, err := pintle(ctx, "plugin", "init", "predicate", "tier", "--lang", "c", "--dir", dir); err != nil {
		return err
	}
	if _, err := pintle(ctx, "plugin", "build", dir); err != nil {
		return err
	}
	for _, m := range []struct{ language, bundle, module string }{
		{"Go", filepath.Join(b.dir, "fits"), "fits.wasm"},
		{"C", dir, "tier.wasm"},
	} {
		list, err := b.repeat(ctx, pluginDrive{Phase: "cross", Transport: "wasm", Bundle: m.bundle, Module: filepath.Join(m.bundle, m.module)})
		if err != nil {
			return err
		}
		b.figures = append(b.figures, middle("wasm: one crossing, a module in "+m.language, "us", 0, each(list, 1e3, func(d pluginDriven) float64 { return d.Crossing })...).
			With("of which a call that does nothing, with nothing of ours: %.2f us", median(each(list, 1e3, func(d pluginDriven) float64 { return d.Bare }))))
	}
	return nil
}

// perCall compares with a pod and a node decoded a call.
func (b *pluginBench) perCall(ctx context.Context) error {
	module := filepath.Join(b.dir, "percall.wasm")
	if err := goBuild(ctx, module, perCallPackage, true, "-ldflags=-s -w"); err != nil {
		return err
	}
	c := comparison{name: "wasm: 5,000 nodes, pod and node decoded a call", unit: "us", peer: "ours", atLeast: 50}
	single := comparison{name: "wasm: the same, ours one call a node too", unit: "us", peer: "ours"}
	for range b.o.rounds {
		theirs, err := pluginDrive{Phase: "percall", Transport: "wasm", Module: module, Cache: b.cache, Nodes: pluginNodes}.by(ctx, b.driver)
		if err != nil {
			return err
		}
		ours, err := pluginDrive{Phase: "ask", Transport: "wasm", Bundle: filepath.Join(b.dir, "fits"), Cache: b.cache, Nodes: pluginNodes}.by(ctx, b.driver)
		if err != nil {
			return err
		}
		if ours.Refused != theirs.Refused {
			return fmt.Errorf("%d nodes are refused, and %d when objects are decoded a call", ours.Refused, theirs.Refused)
		}
		c.add(theirs.Calls/1e3, ours.Pass/1e3)
		single.add(theirs.Calls/1e3, ours.Calls/1e3)
	}
	b.figures = append(b.figures, c.figure().With("the manner of kube-scheduler-wasm-extension, with the same Go and wazero instead of TinyGo"), single.figure())
	return nil
}

// memory weighs the classic set.
func (b *pluginBench) memory(ctx context.Context) error {
	bin, err := cluster.Bin()
	if err != nil {
		return err
	}
	const mb = 1e6
	for _, transport := range transports {
		list, err := b.repeat(ctx, pluginDrive{Phase: "weigh", Transport: transport, Bundle: filepath.Join(bin, "plugins", "classic")})
		if err != nil {
			return err
		}
		f := middle(transport+": memory of the classic set, 5,000 nodes", "MB", goals{60, 0}.of(transport), each(list, mb, func(d pluginDriven) float64 { return d.Resident + d.Processes })...)
		b.figures = append(b.figures, f.With("%d plugins; resident; in the kernel's process %.0f MB, of which anonymous %.0f MB", list[0].Plugins,
			median(each(list, mb, func(d pluginDriven) float64 { return d.Resident })), median(each(list, mb, func(d pluginDriven) float64 { return d.Anonymous }))))
	}
	return nil
}

// upgrades measures scheduling cycles while a predicate is upgraded under them.
func (b *pluginBench) upgrades(ctx context.Context) error {
	repo, err := cluster.Repository()
	if err != nil {
		return err
	}
	program := filepath.Join(b.dir, "swap")
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-o", program, "./kernel/placements")
	cmd.Dir = repo
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compile the driver: %w\n%s", err, text)
	}
	// As kernel/placements/swapdrive_test.go writes it, in nanoseconds.
	type cycle struct{ Wall, Worked, Queued float64 }
	type flow struct {
		Slowest, Most cycle
		Way           float64
	}
	for _, transport := range transports {
		var grew, took []float64
		var quiet, upgrading []flow
		for range b.o.rounds {
			var out struct {
				Quiet, Upgrading flow
				Took             float64
			}
			file := program + ".json"
			err := drivenBy(ctx, program, filepath.Join(repo, "kernel/placements"), "TestSwapDrive", "PINTLE_SWAP_DRIVE",
				map[string]any{"Transport": transport, "Upgrades": pluginUpgrades, "Pods": pluginPods, "Out": file}, file, &out)
			if err != nil {
				return err
			}
			quiet, upgrading, took = append(quiet, out.Quiet), append(upgrading, out.Upgrading), append(took, out.Took/1e6/pluginUpgrades)
			grew = append(grew, max(0, out.Upgrading.Slowest.Wall-out.Quiet.Slowest.Wall)/1e6)
		}
		fromTo := func(of func(flow) float64) string {
			ms := func(list []flow) float64 {
				var all []float64
				for _, f := range list {
					all = append(all, of(f)/1e6)
				}
				return median(all)
			}
			return fmt.Sprintf("%.1f to %.1f ms", ms(quiet), ms(upgrading))
		}
		b.figures = append(b.figures, middle(transport+": slowest cycle grows by, 100 upgrades under 10,000 pods", "ms", 50, grew...).
			With("from %s; the most that any had of the processor %s, and that it waited for one that others had %s; slowest from a pod's coming to its binding %s; an upgrade takes %.0f ms",
				fromTo(func(f flow) float64 { return f.Slowest.Wall }), fromTo(func(f flow) float64 { return f.Most.Worked }), fromTo(func(f flow) float64 { return f.Most.Queued }),
				fromTo(func(f flow) float64 { return f.Way }), median(took)))
	}
	return nil
}

// many loads 200 bundles.
func (b *pluginBench) many(ctx context.Context) error {
	dir := filepath.Join(b.dir, "many")
	manifest := "apiVersion: kernel.pintle.dev/v1alpha1\nkind: PluginManifest\nname: many\nversion: 0.1.0\nplugins:\n- {name: Many000, kind: predicate, scope: node}\n"
	if err := buildBundle(ctx, dir, manyPackage, manifest, []string{"wasm"}, "-ldflags=-s -w"); err != nil {
		return err
	}
	var ready, memory []float64
	for range b.o.rounds {
		out, err := pluginDrive{Phase: "many", Transport: "wasm", Bundle: dir, Cache: b.cache, Nodes: 100, Bundles: manyBundles}.by(ctx, b.driver)
		if err != nil {
			return err
		}
		if out.Plugins != manyBundles {
			return fmt.Errorf("%d plugins are loaded", out.Plugins)
		}
		ready, memory = append(ready, out.Ready/1e9), append(memory, out.Resident/1e6)
	}
	b.figures = append(b.figures,
		middle("wasm: 200 bundles of one artefact, time to ready", "s", 0, ready...),
		middle("wasm: 200 bundles of one artefact, memory", "MB", 0, memory...).With("%.1f MB each", median(memory)/manyBundles))
	return nil
}
