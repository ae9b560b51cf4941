package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"pintle.dev/pintle/sdk/reconciler/protocol"
)

const (
	// Page is the unit of a module's memory.
	Page = 64 << 10
	// HostModule and HostCheck are where a metered module looks at the clock.
	HostModule = "pintle_host"
	HostCheck  = "check"
	// WASI is the module of the system's interface.
	WASI = wasi_snapshot_preview1.ModuleName

	// maxRandom is how much randomness is made between two looks at the clock.
	maxRandom = 64 << 10
)

// ErrDeadline is what a call ends with whose time is up.
var ErrDeadline = errors.New("deadline exceeded")

// Memory is that of an instance. Views are good until the module runs again.
type Memory interface {
	Read(offset, size uint32) ([]byte, bool)
	Write(offset uint32, data []byte) bool
	Size() uint32
}

// Host carries out what a module asks for while it is called. A panic is a trap.
type Host interface {
	// Late panics with ErrDeadline when the time of the call is up. What a module asks
	// of its host does not use up its fuel, so that each such call looks at the clock.
	Late()
	// Operated carries out a host function with the request that lies in the memory,
	// and returns how many bytes the answer has.
	Operated(m Memory, function string, pointer, size uint32) uint32
	// HandOver copies the answer into the memory.
	HandOver(m Memory, pointer, size uint32)
}

type hostKey struct{}

// hostContext is that of calls: the engine looks into it at each.
type hostContext struct {
	context.Context
	host Host
}

// Value implements context.Context.
func (c hostContext) Value(key any) any {
	if key == (hostKey{}) {
		return c.host
	}
	return nil
}

// Context is that of calls of an instance whose host it is.
func Context(host Host) context.Context { return hostContext{context.Background(), host} }

// Module is compiled; instances of it share the machine code.
type Module struct {
	runtime  wazero.Runtime
	cache    wazero.CompilationCache
	compiled wazero.CompiledModule
	files    wazero.FSConfig // nil: none
	memory   int64           // ceiling of an instance in bytes
	roots    []*os.Root
	held     sync.Mutex // while its code is read, moved or forgotten
	closing  atomic.Bool
}

// Ceiling is what an instance may have of memory where so much is granted.
func Ceiling(memory int64) int64 { return min(max(memory/Page, 16), 1<<16) * Page }

// Compile compiles a metered module, or maps what the cache has. The module closes
// the cache, also after an error.
func Compile(ctx context.Context, code []byte, cache wazero.CompilationCache, memory int64) (_ *Module, err error) {
	m := &Module{cache: cache, memory: Ceiling(memory)}
	sight := beforeCompiling()
	defer func() {
		if err != nil {
			sight.compiled(nil)
			_ = m.Close(ctx)
			return
		}
		sight.compiled(m)
	}()
	m.runtime = wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().
		WithCompilationCache(m.cache).WithMemoryLimitPages(uint32(m.memory/Page)))
	if _, err = wasi_snapshot_preview1.Instantiate(ctx, m.runtime); err != nil {
		return nil, fmt.Errorf("wasi: %w", err)
	}
	if _, err = exportHostFunctions(m.runtime.NewHostModuleBuilder(HostModule)).Instantiate(ctx); err != nil {
		return nil, err
	}
	if m.compiled, err = m.runtime.CompileModule(ctx, code); err != nil {
		return nil, fmt.Errorf("module: %w", err)
	}
	letGoOfBodies(m.compiled)
	return m, nil
}

// Import is a function that a module imports.
type Import struct{ Module, Name string }

// Imports are those of the module.
func (m *Module) Imports() []Import {
	var list []Import
	for _, f := range m.compiled.ImportedFunctions() {
		from, name, _ := f.Import()
		list = append(list, Import{from, name})
	}
	return list
}

// Open lets the module read folders, at the paths that they have on the machine,
// and nothing that links lead to outside of them.
func (m *Module) Open(folders []string) error {
	for _, path := range folders {
		root, err := os.OpenRoot(path)
		if err != nil {
			return fmt.Errorf("granted folder: %w", err)
		}
		m.roots = append(m.roots, root)
		if m.files == nil {
			m.files = wazero.NewFSConfig()
		}
		m.files = m.files.WithFSMount(root.FS(), path)
	}
	return nil
}

// Instantiate makes a fresh instance: its memory is new, its code is shared. What it
// prints goes to out. The memory is unmapped by the caller.
func (m *Module) Instantiate(host Host, memory *LinearMemory, out io.Writer) (api.Module, error) {
	return m.runtime.InstantiateModule(memory.within(Context(host)), m.compiled, wazero.NewModuleConfig().WithName("").
		WithStartFunctions("_initialize").WithStdout(out).WithStderr(out).
		WithSysWalltime().WithSysNanotime().WithRandSource(entropy{host}).WithFSConfig(m.files).
		// Go collects sooner instead of passing the ceiling; others take no notice.
		WithEnv("GOMEMLIMIT", strconv.FormatInt(m.memory/10*9, 10)))
}

// Close unmaps the machine code; no instance is used any more.
func (m *Module) Close(ctx context.Context) error {
	closing(m)
	var err error
	if m.runtime != nil {
		err = m.runtime.Close(ctx)
	}
	err = errors.Join(err, m.cache.Close(ctx))
	for _, root := range m.roots {
		root.Close()
	}
	return err
}

// exportHostFunctions adds them to the host's module; who may import which is for
// the plugin host to say.
func exportHostFunctions(b wazero.HostModuleBuilder) wazero.HostModuleBuilder {
	i32, i64 := api.ValueTypeI32, api.ValueTypeI64
	span := []api.ValueType{i32, i32}
	operate := func(name string) api.GoModuleFunc {
		return func(ctx context.Context, m api.Module, stack []uint64) {
			stack[0] = uint64(hostOf(ctx).Operated(m.Memory(), name, uint32(stack[0]), uint32(stack[1])))
		}
	}
	for _, name := range protocol.Operations() {
		b = b.NewFunctionBuilder().WithGoModuleFunction(operate(name), span, []api.ValueType{i32}).Export(name)
	}
	b = b.NewFunctionBuilder().WithGoModuleFunction(operate(protocol.FunctionLog), span, nil).Export(protocol.FunctionLog)
	b = b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, m api.Module, stack []uint64) {
		hostOf(ctx).HandOver(m.Memory(), uint32(stack[0]), uint32(stack[1]))
	}), span, nil).Export(protocol.FunctionAnswer)
	b = b.NewFunctionBuilder().WithGoFunction(api.GoFunc(checkDeadline), nil, nil).Export(HostCheck)
	return b.NewFunctionBuilder().WithGoFunction(api.GoFunc(func(_ context.Context, stack []uint64) {
		stack[0] = uint64(time.Now().UnixNano())
	}), nil, []api.ValueType{i64}).Export(protocol.FunctionNow)
}

// hostOf returns the host of the instance whose code calls.
func hostOf(ctx context.Context) Host {
	h, ok := ctx.Value(hostKey{}).(Host)
	if !ok {
		panic(errors.New("a host function was called outside of a call"))
	}
	return h
}

// checkDeadline is called by metered code when its slice is used up.
func checkDeadline(ctx context.Context, _ []uint64) {
	if h, ok := ctx.Value(hostKey{}).(Host); ok {
		h.Late()
	}
}

// entropy is a module's source of randomness.
type entropy struct{ host Host }

func (e entropy) Read(p []byte) (int, error) {
	e.host.Late()
	return rand.Read(p[:min(len(p), maxRandom)])
}

// Signature is the types of a function's parameters and results, a letter each.
func Signature(d api.FunctionDefinition) string {
	return letters(d.ParamTypes()) + ":" + letters(d.ResultTypes())
}

func letters(types []api.ValueType) string {
	var b strings.Builder
	for _, t := range types {
		switch t {
		case api.ValueTypeI32:
			b.WriteByte('i')
		case api.ValueTypeI64:
			b.WriteByte('l')
		default:
			b.WriteByte('?')
		}
	}
	return b.String()
}
