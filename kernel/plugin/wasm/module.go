package wasm

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"

	"pintle.dev/pintle/kernel/plugin/engine"
	"pintle.dev/pintle/kernel/plugin/guest"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/modulecache"
	"pintle.dev/pintle/kernel/plugin/wasm/meter"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Module is a bundle's, compiled; instances of it share the machine code.
type Module struct {
	name    string
	engine  *engine.Module // in this process; nil: in
	worker  Worker
	size    int64                      // what an instance in a worker may have of memory
	granted func(function string) bool // the module may import
}

// open lets the module read folders.
func (m *Module) open(folders []string) error {
	if err := m.engine.Open(folders); err != nil {
		return fmt.Errorf("plugin bundle %s: %w: %w", m.name, guest.ErrPermanent, err)
	}
	return nil
}

// keptModule opens what the cache has of a module.
func keptModule(cache *modulecache.Cache, digest string) *modulecache.Module {
	return cache.Open(strings.TrimPrefix(digest, "sha256:"), fmt.Sprintf("metered-v%d", meter.Version))
}

// unmetered says that a module cannot be rewritten.
func unmetered(b *manifest.Bundle, a *manifest.Artifact, err error) error {
	return fmt.Errorf("plugin bundle %s: %w: %s: %w; build it again", b.Manifest.Name, guest.ErrPermanent, filepath.Join(b.Directory, a.Path), err)
}

// Load verifies, meters and compiles a bundle's module, or maps what the
// cache has of it.
func Load(ctx context.Context, b *manifest.Bundle, a *manifest.Artifact, digest string, cache *modulecache.Cache, memory int64) (*Module, error) {
	data, err := b.Verify(a, digest)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", guest.ErrPermanent, err)
	}
	kept := keptModule(cache, digest)
	defer kept.Done()
	metered := kept.Prepared
	if metered == nil {
		if metered, err = meter.Rewrite(data); err != nil {
			return nil, errors.Join(unmetered(b, a, err), kept.Compilation.Close(ctx))
		}
	}
	m, err := compileModule(ctx, b, metered, kept.Compilation, memory)
	if err != nil && !kept.InMemory() {
		// What the cache's disk does is no fault of the module.
		if again, inMemory := compileModule(ctx, b, metered, wazero.NewCompilationCache(), memory); inMemory == nil {
			m, err = again, nil
		}
	}
	if err == nil {
		kept.Keep(metered)
	}
	return m, err
}

// Options say which module, and what it gets.
type Options struct {
	Bundle   *manifest.Bundle
	Artifact *manifest.Artifact
	Digest   string
	Cache    *modulecache.Cache
	Memory   int64         // its ceiling in bytes
	Folders  []string      // it may read
	Start    time.Duration // deadline of its start
}

// Open makes a module ready for instances in this process.
func Open(ctx context.Context, o Options) (*Module, error) {
	m, err := Load(ctx, o.Bundle, o.Artifact, o.Digest, o.Cache, o.Memory)
	if err != nil {
		return nil, err
	}
	if err := m.open(o.Folders); err != nil {
		return nil, errors.Join(err, m.Close(ctx))
	}
	return m, nil
}

// compileModule compiles a metered module, which it is then sure to need nothing
// beyond what the host has. The module closes the cache, also after an error.
func compileModule(ctx context.Context, b *manifest.Bundle, metered []byte, cache wazero.CompilationCache, memory int64) (*Module, error) {
	m := &Module{name: b.Manifest.Name, granted: Granted(b.Manifest)}
	var err error
	if m.engine, err = engine.Compile(ctx, metered, cache, memory); err != nil {
		return nil, fmt.Errorf("plugin bundle %s: %w: %w", m.name, guest.ErrPermanent, err)
	}
	if err := checkImports(b, m.engine.Imports()); err != nil {
		return nil, errors.Join(err, m.Close(ctx))
	}
	return m, nil
}

// checkImports is an error where a module imports what it was not given.
func checkImports(b *manifest.Bundle, imports []engine.Import) error {
	granted := Granted(b.Manifest)
	for _, f := range imports {
		switch {
		case f.Module == engine.WASI, f.Module == engine.HostModule && granted(f.Name):
		case f.Module == engine.HostModule && slices.Contains(manifest.HostFunctions, f.Name):
			return fmt.Errorf("plugin bundle %s: %w: module imports the host function %s; name it in hostFunctions of the manifest",
				b.Manifest.Name, guest.ErrPermanent, f.Name)
		default:
			return fmt.Errorf("plugin bundle %s: %w: module imports %s.%s; only %s is granted",
				b.Manifest.Name, guest.ErrPermanent, f.Module, f.Name, engine.WASI)
		}
	}
	return nil
}

// Lost is why the worker of the module is of no use any more; nil where there is none.
func (m *Module) Lost() error {
	if m.worker == nil {
		return nil
	}
	return m.worker.Lost()
}

func (m *Module) Close(ctx context.Context) error {
	if m.worker != nil {
		return m.worker.Close()
	}
	return m.engine.Close(ctx)
}

// due is when the call under way must have ended, counted from the first time
// that is asked: in metered code within 0.1 ms of its beginning.
func (g *caller) due() time.Time {
	if g.deadline.IsZero() {
		g.deadline = time.Now().Add(g.patience)
	}
	return g.deadline
}

// Late implements engine.Host: it stops a guest whose time is up.
func (g *caller) Late() {
	due, now := g.due(), time.Now()
	if now.After(due) {
		panic(engine.ErrDeadline)
	}
	if g.lender != nil && !g.lent && g.module.worker == nil && now.Sub(due) > contractv1.YieldAfter-g.patience {
		g.lent = g.lender.Lend()
	}
}
