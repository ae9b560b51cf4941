package plugin

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"pintle.dev/pintle/kernel/plugin/modulecache"
)

// module is a compiled bundle; instances of it share the machine code.
type module struct {
	name     string
	runtime  wazero.Runtime
	cache    wazero.CompilationCache
	compiled wazero.CompiledModule
	files    wazero.FSConfig // nil: none
	memory   int64           // ceiling of an instance in bytes
	roots    []*os.Root
}

// open lets the module read folders, at the paths that they have on the machine,
// and nothing that links lead to outside of them.
func (m *module) open(folders []string) error {
	for _, path := range folders {
		root, err := os.OpenRoot(path)
		if err != nil {
			return fmt.Errorf("plugin bundle %s: %w: granted folder: %w", m.name, errPermanent, err)
		}
		m.roots = append(m.roots, root)
		if m.files == nil {
			m.files = wazero.NewFSConfig()
		}
		m.files = m.files.WithFSMount(root.FS(), path)
	}
	return nil
}

// loadModule verifies, meters and compiles a bundle's module, or maps what the
// cache has of it.
func loadModule(ctx context.Context, b *Bundle, a *Artifact, digest string, cache *modulecache.Cache, memory int64) (*module, error) {
	data, err := b.verify(a, digest)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errPermanent, err)
	}
	kept := cache.Open(strings.TrimPrefix(digest, "sha256:"), fmt.Sprintf("metered-v%d", meterVersion))
	defer kept.Done()
	metered := kept.Prepared
	if metered == nil {
		if metered, err = meter(data); err != nil {
			return nil, errors.Join(fmt.Errorf("plugin bundle %s: %w: %s: %w; build it again", b.Manifest.Name, errPermanent, filepath.Join(b.Directory, a.Path), err), kept.Compilation.Close(ctx))
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

// compileModule compiles a metered module, which it is then sure to need nothing
// beyond what the host has. The module closes the cache, also after an error.
func compileModule(ctx context.Context, b *Bundle, metered []byte, cache wazero.CompilationCache, memory int64) (m *module, err error) {
	m = &module{name: b.Manifest.Name, cache: cache}
	defer func(m *module) { // a return with an error makes the result nil
		if err != nil {
			m.close(ctx)
		}
	}(m)
	pages := uint32(max(memory/wasmPage, 16))
	m.memory = int64(min(pages, 1<<16)) * wasmPage
	m.runtime = wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().
		WithCompilationCache(m.cache).WithMemoryLimitPages(min(pages, 1<<16)))
	if _, err = wasi_snapshot_preview1.Instantiate(ctx, m.runtime); err != nil {
		return nil, fmt.Errorf("plugin bundle %s: wasi: %w", b.Manifest.Name, err)
	}
	if _, err = exportHostFunctions(m.runtime.NewHostModuleBuilder(hostModule).NewFunctionBuilder().
		WithGoFunction(api.GoFunc(checkDeadline), nil, nil).Export(hostCheck)).Instantiate(ctx); err != nil {
		return nil, fmt.Errorf("plugin bundle %s: %w", b.Manifest.Name, err)
	}
	if m.compiled, err = m.runtime.CompileModule(ctx, metered); err != nil {
		return nil, fmt.Errorf("plugin bundle %s: %w: module: %w", b.Manifest.Name, errPermanent, err)
	}
	for _, f := range m.compiled.ImportedFunctions() {
		from, name, _ := f.Import()
		switch {
		case from == wasi_snapshot_preview1.ModuleName, from == hostModule && b.granted(name):
		case from == hostModule && slices.Contains(operations, name):
			return nil, fmt.Errorf("plugin bundle %s: %w: module imports the host function %s; name it in hostFunctions of the manifest",
				b.Manifest.Name, errPermanent, name)
		default:
			return nil, fmt.Errorf("plugin bundle %s: %w: module imports %s.%s; only %s is granted",
				b.Manifest.Name, errPermanent, from, name, wasi_snapshot_preview1.ModuleName)
		}
	}
	return m, nil
}

func (m *module) close(ctx context.Context) error {
	var err error
	if m.runtime != nil {
		err = m.runtime.Close(ctx)
	}
	if m.cache != nil {
		err = errors.Join(err, m.cache.Close(ctx))
	}
	for _, root := range m.roots {
		root.Close()
	}
	return err
}

type deadlineKey struct{}

// guestContext is that of calls: the engine looks into it at each.
type guestContext struct {
	context.Context
	guest *wasmGuest
}

// Value implements context.Context.
func (c guestContext) Value(key any) any {
	if key == (deadlineKey{}) {
		return c.guest
	}
	return nil
}

// checkDeadline is called by metered code when its slice is used up.
func checkDeadline(ctx context.Context, _ []uint64) {
	if g, ok := ctx.Value(deadlineKey{}).(*wasmGuest); ok {
		g.late()
	}
}

// due is when the call under way must have ended, counted from the first time
// that is asked: in metered code within 0.1 ms of its beginning.
func (g *wasmGuest) due() time.Time {
	if g.deadline.IsZero() {
		g.deadline = time.Now().Add(g.patience)
	}
	return g.deadline
}

// late stops a guest whose time is up. What a module asks of the host does not
// use up its fuel, so that each such call looks at the clock.
func (g *wasmGuest) late() {
	if due := g.due(); time.Now().After(due) {
		panic(errDeadline)
	}
}

// maxRandom is how much randomness is made between two looks at the clock.
const maxRandom = 64 << 10

// entropy is a module's source of randomness.
type entropy struct{ guest *wasmGuest }

func (e entropy) Read(p []byte) (int, error) {
	e.guest.late()
	return rand.Read(p[:min(len(p), maxRandom)])
}
