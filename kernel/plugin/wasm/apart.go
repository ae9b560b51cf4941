package wasm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"pintle.dev/pintle/kernel/plugin/confinement"
	"pintle.dev/pintle/kernel/plugin/engine"
	"pintle.dev/pintle/kernel/plugin/guest"
	"pintle.dev/pintle/kernel/plugin/modulecache"
	"pintle.dev/pintle/kernel/plugin/output"
	"pintle.dev/pintle/kernel/plugin/wasm/meter"
	"pintle.dev/pintle/kernel/plugin/wasmworker"
)

// Worker is a process in which a module runs.
type Worker interface {
	Load(module []byte, code *os.File, name string, memory int64, folders []string, patience time.Duration) ([]engine.Import, error)
	Instantiate(caller wasmworker.Caller, out io.Writer, size int64) (*wasmworker.Instance, error)
	// Lost is why it is of no use any more, or nil.
	Lost() error
	PID() int
	// Lacks are the walls that it runs without.
	Lacks() []confinement.Wall
	Close() error
}

// OpenApart compiles a module, unless that was kept, and hands it to a process of its own.
func OpenApart(ctx context.Context, o Options, start func(context.Context) (Worker, error)) (_ *Module, err error) {
	data, err := o.Bundle.Verify(o.Artifact, o.Digest)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", guest.ErrPermanent, err)
	}
	open := func() *modulecache.Module { return keptModule(o.Cache, o.Digest) }
	kept := open()
	defer func() { kept.Done() }()
	if kept.Prepared == nil && !kept.InMemory() {
		// What a worker compiles is not kept, for nobody could tell what it is.
		kept.Done()
		m, err := Load(ctx, o.Bundle, o.Artifact, o.Digest, o.Cache, o.Memory)
		if err != nil {
			return nil, err
		}
		if err := m.Close(ctx); err != nil {
			return nil, err
		}
		kept = open()
	}
	metered := kept.Prepared
	if metered == nil {
		if metered, err = meter.Rewrite(data); err != nil {
			return nil, unmetered(o.Bundle, o.Artifact, err)
		}
	}
	w, err := start(ctx)
	if err != nil {
		return nil, err
	}
	m := &Module{name: o.Bundle.Manifest.Name, worker: w, size: engine.Ceiling(o.Memory), granted: Granted(o.Bundle.Manifest)}
	code, name := kept.Code()
	imports, err := w.Load(metered, code, name, o.Memory, o.Folders, o.Start)
	if lost := w.Lost(); err != nil && lost == nil {
		err = fmt.Errorf("%w: %w", guest.ErrPermanent, err)
	}
	if err == nil {
		err = checkImports(o.Bundle, imports)
	} else {
		err = fmt.Errorf("plugin bundle %s: %w", m.name, err)
	}
	if err != nil {
		return nil, errors.Join(err, m.Close(ctx))
	}
	return m, nil
}

// beginApart makes an instance in the worker.
func (m *Module) beginApart(g *Guest, log *slog.Logger) (instance, error) {
	i, err := m.worker.Instantiate(g, &output.LineWriter{Log: log}, m.size)
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

var _ wasmworker.Caller = (*Guest)(nil)

// Patience implements wasmworker.Caller.
func (g *caller) Patience() time.Duration { return g.patience }

// Sliced implements wasmworker.Caller.
func (g *caller) Sliced(at time.Time) {
	if g.deadline.IsZero() {
		g.deadline = at.Add(g.patience)
	}
}
