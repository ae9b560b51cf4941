package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"pintle.dev/pintle/kernel/plugin/confinement"
	"pintle.dev/pintle/kernel/plugin/engine"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/modulecache"
	"pintle.dev/pintle/kernel/plugin/wasm/meter"
	"pintle.dev/pintle/kernel/plugin/wasmworker"
	"pintle.dev/pintle/sdk"
)

const (
	// workerOwn is the memory of a worker beyond that of instances: machine code, its
	// own heap.
	workerOwn = 256 << 20
	// workerTasks are its threads.
	workerTasks = 64
)

// workerLimits are what the worker of a module gets: room for all instances that
// there may be, and one that is made to take another's place.
func workerLimits(m *manifest.Manifest, l ceilings) ceilings {
	instances := int64(2)
	for i := range m.Plugins {
		switch m.Plugins[i].Kind {
		case sdk.KindController:
			instances++
		case sdk.KindAdmission:
			instances += maxReviewers
		}
	}
	return ceilings{memory: instances*engine.Ceiling(l.memory) + workerOwn, pids: workerTasks}
}

// workerProcess is the process in which a module runs.
type workerProcess struct {
	*wasmworker.Worker
	runner  *processRunner
	exe     *executable
	dir     string // in which its root was made
	size    int64  // what an instance may have of memory
	process int
	output  sync.WaitGroup
}

// loadApart compiles the unit's module, unless that was kept, and hands it to a
// process of its own.
func (u *unit) loadApart(ctx context.Context) (_ *module, err error) {
	data, err := u.bundle.Verify(u.artifact, u.digest)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errPermanent, err)
	}
	open := func() *modulecache.Module { return keptModule(u.modules, u.digest) }
	kept := open()
	defer func() { kept.Done() }()
	if kept.Prepared == nil && !kept.InMemory() {
		// What a worker compiles is not kept, for nobody could tell what it is.
		kept.Done()
		m, err := loadModule(ctx, u.bundle, u.artifact, u.digest, u.modules, u.limits.memory)
		if err != nil {
			return nil, err
		}
		if err := m.close(ctx); err != nil {
			return nil, err
		}
		kept = open()
	}
	metered := kept.Prepared
	if metered == nil {
		if metered, err = meter.Rewrite(data); err != nil {
			return nil, unmetered(u.bundle, u.artifact, err)
		}
	}
	w, err := u.startWorker(ctx)
	if err != nil {
		return nil, err
	}
	m := &module{name: u.bundle.Manifest.Name, worker: w, granted: granted(u.bundle.Manifest)}
	code, name := kept.Code()
	imports, err := w.Load(metered, code, name, u.limits.memory, u.files, u.start)
	if lost := w.lost(); err != nil && lost == nil {
		err = fmt.Errorf("%w: %w", errPermanent, err)
	}
	if err == nil {
		err = checkImports(u.bundle, imports)
	} else {
		err = fmt.Errorf("plugin bundle %s: %w", m.name, err)
	}
	if err != nil {
		return nil, errors.Join(err, m.close(ctx))
	}
	return m, nil
}

// startWorker starts a process behind the walls of all plugins' processes.
func (u *unit) startWorker(ctx context.Context) (_ *workerProcess, err error) {
	name := u.bundle.Manifest.Name
	path, err := wasmworker.Executable()
	if err != nil {
		return nil, fmt.Errorf("plugin bundle %s: program of its worker: %w", name, err)
	}
	o := processOptions{runDirectory: u.run, call: u.call, start: u.start, asked: true, log: u.log, words: u.words, budget: u.budget, constraints: u.confined}
	w := &workerProcess{
		size: engine.Ceiling(u.limits.memory), exe: &executable{path: path, within: filepath.Base(path), sees: u.files},
		runner: &processRunner{name: path, exited: make(chan struct{})},
	}
	begun := false
	defer func() {
		if err != nil && !begun {
			err = errors.Join(err, w.cleared())
		}
	}()
	base := o.runDirectory
	if o.user > 0 {
		if base, err = o.folder(name); err != nil {
			return nil, err
		}
		if !passable(path) {
			if w.exe.file, err = os.Open(path); err != nil {
				return nil, fmt.Errorf("plugin bundle %s: program of its worker: %w", name, err)
			}
		}
	} else if base != "" {
		if err := os.MkdirAll(base, 0o700); err != nil {
			return nil, fmt.Errorf("plugin bundle %s: %w", name, err)
		}
	}
	if w.dir, err = os.MkdirTemp(base, "worker-"); err != nil {
		return nil, fmt.Errorf("plugin bundle %s: %w", name, err)
	}
	if base == "" {
		base = w.dir
	}
	if err := w.runner.prepare(name, w.exe, &o, []string{wasmworker.Variable + "=1"}, base, w.dir); err != nil {
		return nil, fmt.Errorf("plugin bundle %s: worker: %w", name, err)
	}
	if err := w.runner.Start(ctx); err != nil {
		return nil, fmt.Errorf("plugin bundle %s: start its worker %s: %w", name, path, err)
	}
	begun = true
	w.process = w.runner.pid()
	w.output.Go(func() { _, _ = io.Copy(&lineWriter{log: o.words}, w.runner.Stdout()) })
	w.output.Go(func() { _, _ = io.Copy(io.Discard, w.runner.Stderr()) })
	control, ok := w.runner.questions.(*net.UnixConn)
	if !ok {
		return nil, fmt.Errorf("plugin bundle %s: worker: %T is no socket", name, w.runner.questions)
	}
	w.Worker = wasmworker.Connect(control, func() { _ = w.runner.Kill(context.Background()) })
	return w, nil
}

// lost is why the worker is of no use any more, or nil.
func (w *workerProcess) lost() error {
	select {
	case <-w.runner.exited:
	default:
		return w.Lost()
	}
	switch err := w.Lost(); {
	case w.runner.outOfMemory():
		return fmt.Errorf("its worker, process %d, was ended: it used more memory than it may have", w.process)
	case err != nil:
		return err
	}
	return fmt.Errorf("its worker, process %d, ended", w.process)
}

// PID is that of the process.
func (w *workerProcess) PID() int { return w.process }

// lacks are the walls that the process runs without.
func (w *workerProcess) lacks() []confinement.Wall { return w.runner.without }

// close ends the process and gives back what it had.
func (w *workerProcess) close() error {
	err := w.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	<-w.runner.exited
	w.output.Wait()
	return errors.Join(err, w.cleared())
}

func (w *workerProcess) cleared() error {
	err := w.runner.close()
	w.exe.close()
	if w.dir != "" {
		err = errors.Join(err, os.RemoveAll(w.dir))
	}
	return err
}

// begin makes an instance in the worker.
func (w *workerProcess) begin(g *wasmGuest, log *slog.Logger) (instance, error) {
	i, err := w.Instantiate(g, &lineWriter{log: log}, w.size)
	if err != nil {
		return nil, err
	}
	return &workerInstance{i}, nil
}

// workerInstance is one in a process apart.
type workerInstance struct{ *wasmworker.Instance }

func (i *workerInstance) memory() engine.Memory         { return i.Memory() }
func (i *workerInstance) linear() *engine.LinearMemory  { return i.Linear() }
func (i *workerInstance) close(_ context.Context) error { return i.Close() }

func (i *workerInstance) function(name string) *export {
	f, signature := i.Function(name)
	if f == nil {
		return nil
	}
	return &export{name, signature, f}
}

var _ wasmworker.Caller = (*wasmGuest)(nil)

// Patience implements wasmworker.Caller.
func (g *wasmGuest) Patience() time.Duration { return g.patience }

// Sliced implements wasmworker.Caller.
func (g *wasmGuest) Sliced(at time.Time) {
	if g.deadline.IsZero() {
		g.deadline = at.Add(g.patience)
	}
}
