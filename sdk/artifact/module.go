package artifact

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"google.golang.org/protobuf/proto"

	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/abi"
	"pintle.dev/pintle/sdk/contract"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Module is a compiled module, of which instances are made.
type Module struct {
	options  Options
	runtime  wazero.Runtime
	compiled wazero.CompiledModule

	answers sync.Map // of host functions, until an instance (api.Module) fetches its own
}

// LoadModule reads and compiles the module at path. The caller closes it after
// its instances.
func LoadModule(ctx context.Context, path string, o Options) (_ *Module, err error) {
	code, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m := &Module{options: o.withDefaults()}
	pages := min(max(m.options.MemoryLimit>>16, 16), 1<<16)
	m.runtime = wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().
		WithMemoryLimitPages(uint32(pages)).WithCloseOnContextDone(true))
	defer func(m *Module) { // a return with an error makes the result nil
		if err != nil {
			m.Close(ctx)
		}
	}(m)
	if _, err = wasi_snapshot_preview1.Instantiate(ctx, m.runtime); err != nil {
		return nil, fmt.Errorf("wasi: %w", err)
	}
	if err = m.exportHost(ctx); err != nil {
		return nil, err
	}
	if m.compiled, err = m.runtime.CompileModule(ctx, code); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, f := range m.compiled.ImportedFunctions() {
		if from, name, _ := f.Import(); from != wasi_snapshot_preview1.ModuleName && from != hostModule {
			return nil, fmt.Errorf("%s: it imports %s.%s; there are %s and %s (see sdk/ABI.md)", path, from, name, wasi_snapshot_preview1.ModuleName, hostModule)
		}
	}
	return m, nil
}

// Close releases the module.
func (m *Module) Close(ctx context.Context) error { return m.runtime.Close(ctx) }

// OpenModule loads the module at path and makes one instance of it.
func OpenModule(ctx context.Context, path string, o Options) (Artifact, error) {
	m, err := LoadModule(ctx, path, o)
	if err != nil {
		return nil, err
	}
	i, err := m.instance(ctx)
	if err != nil {
		return nil, errors.Join(err, m.Close(ctx))
	}
	i.owned = true
	return i, nil
}

// Open makes an instance.
func (m *Module) Open(ctx context.Context) (Artifact, error) {
	i, err := m.instance(ctx)
	if err != nil {
		return nil, err
	}
	return i, nil
}

// instance is a module with a memory of its own.
type instance struct {
	module  *Module
	owned   bool
	api     api.Module
	plugins []*contractv1.PluginDescription
	words   []map[uint32][]string
	calls   map[string]api.Function
	said    *said
	time    time.Time // that the module is told; zero: the machine's

	nodes, out, data buffer
}

// buffer is a piece of the instance's memory that calls reuse.
type buffer struct{ pointer, size uint32 }

var _ Artifact = (*instance)(nil)

func (m *Module) instance(ctx context.Context) (_ *instance, err error) {
	i := &instance{module: m, calls: map[string]api.Function{}, said: &said{output: m.options.Output}}
	start, cancel := context.WithTimeout(ctx, m.options.long())
	defer cancel()
	i.api, err = m.runtime.InstantiateModule(start, m.compiled, wazero.NewModuleConfig().WithName("").
		WithStartFunctions("_initialize").WithStdout(i.said).WithStderr(i.said).
		WithWalltime(i.walltime, 1).WithSysNanotime().WithRandSource(rand.Reader))
	if start.Err() != nil {
		return nil, fmt.Errorf("start module: %w in %v: its start function (_initialize) did not return", ErrNoAnswer, m.options.long())
	}
	if err != nil {
		return nil, i.said.explain(fmt.Errorf("start module: %w", trapped(err)))
	}
	defer func() {
		if err != nil {
			i.api.Close(ctx)
		}
	}()
	if i.api.ExportedMemory(abi.Memory) == nil {
		return nil, fmt.Errorf("the module exports no memory as %q (see sdk/ABI.md)", abi.Memory)
	}
	for _, e := range abi.Exports() {
		f := i.api.ExportedFunction(e.Name)
		if f == nil && e.Optional {
			continue
		}
		if f == nil {
			return nil, fmt.Errorf("the module exports no %s (see sdk/ABI.md)", e.Name)
		}
		if got := letters(f.Definition().ParamTypes()) + ":" + letters(f.Definition().ResultTypes()); got != e.Signature() {
			return nil, fmt.Errorf("%s has signature %s, want %s (see sdk/ABI.md)", e.Name, got, e.Signature())
		}
		i.calls[e.Name] = f
	}
	version, err := i.call(start, "pintle_abi_version")
	if err != nil {
		return nil, err
	}
	if int32(version) != sdk.ABIVersion {
		return nil, fmt.Errorf("the module speaks ABI version %d, this suite %d", int32(version), sdk.ABIVersion)
	}
	chosen := int32(0) // nothing was negotiated
	if i.calls["pintle_contract"] != nil {
		answer, err := i.call(start, "pintle_contract", contract.Min, contract.Max)
		if err != nil {
			return nil, err
		}
		if chosen = int32(answer); chosen < contract.Min || chosen > contract.Max {
			return nil, fmt.Errorf("pintle_contract answers %d, asked for %d to %d (see sdk/ABI.md)", chosen, contract.Min, contract.Max)
		}
	}
	span, err := i.call(start, "pintle_describe")
	if err != nil {
		return nil, err
	}
	text, err := i.text(span, maxDescription)
	if err != nil {
		return nil, err
	}
	var description struct {
		Contract *uint32 `json:"contract"`
		Plugins  []struct {
			Name, Kind, Scope, Normalize, Phase string
			MaxScore                            int64
			Reads                               []string
			Expires                             bool
			Rules                               []struct{ Operations, Resources []string }
		} `json:"plugins"`
	}
	if err := json.Unmarshal(text, &description); err != nil {
		return nil, fmt.Errorf("pintle_describe: %w", err)
	}
	speaks := uint32(contract.One) // where it does not say
	if description.Contract != nil {
		speaks = *description.Contract
	}
	if speaks < contract.Min || speaks > contract.Max {
		return nil, fmt.Errorf("pintle_describe: contract %d, want %d to %d", speaks, contract.Min, contract.Max)
	}
	if chosen != 0 && uint32(chosen) != speaks {
		return nil, fmt.Errorf("pintle_contract answers %d, and pintle_describe says contract %d; want one number", chosen, speaks)
	}
	for _, p := range description.Plugins {
		switch {
		case p.Expires && i.calls["pintle_until"] == nil:
			return nil, fmt.Errorf("%s is described with expires, and the module exports no pintle_until (see sdk/ABI.md)", p.Name)
		case p.Expires && speaks < contract.Four:
			return nil, fmt.Errorf("%s is described with expires, which is there since contract %d; pintle_describe says %d", p.Name, contract.Four, speaks)
		}
		d := &contractv1.PluginDescription{Name: p.Name, Kind: p.Kind, Scope: p.Scope, Normalize: p.Normalize, MaxScore: p.MaxScore, Reads: p.Reads, Phase: p.Phase, Expires: p.Expires}
		for _, r := range p.Rules {
			d.Rules = append(d.Rules, &contractv1.AdmissionRule{Operations: r.Operations, Resources: r.Resources})
		}
		i.plugins = append(i.plugins, d)
		i.words = append(i.words, map[uint32][]string{})
	}
	return i, nil
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

// maxFrames is how many functions of a trap's stack are named.
const maxFrames = 4

// trapped is wazero's error in one line, with the functions that were on the stack.
func trapped(err error) error {
	line, rest, _ := strings.Cut(err.Error(), "\n")
	var frames []string
	for frame := range strings.SplitSeq(rest, "\n") {
		name, _, call := strings.Cut(strings.TrimSpace(frame), "(")
		name = strings.TrimPrefix(name, ".")
		if !call || !strings.HasPrefix(frame, "\t") || name == "" || len(frames) == maxFrames {
			continue
		}
		frames = append(frames, name)
	}
	if len(frames) > 0 {
		line += ", in " + strings.Join(frames, " called by ")
	}
	return errors.New(line)
}

func (i *instance) call(ctx context.Context, name string, args ...uint64) (uint64, error) {
	return i.within(ctx, i.module.options.CallTimeout, name, args...)
}

func (i *instance) within(ctx context.Context, limit time.Duration, name string, args ...uint64) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	results, err := i.calls[name].Call(ctx, args...)
	if ctx.Err() != nil {
		return 0, fmt.Errorf("%s: %w in %v", name, ErrNoAnswer, limit)
	}
	if err != nil {
		return 0, i.said.explain(fmt.Errorf("%s: %w", name, trapped(err)))
	}
	if len(results) == 0 {
		return 0, nil
	}
	return results[0], nil
}

// text copies a span.
func (i *instance) text(span uint64, limit uint32) ([]byte, error) {
	pointer, size := uint32(span>>32), uint32(span)
	if size > limit {
		return nil, fmt.Errorf("a text has %d bytes, at most %d", size, limit)
	}
	view, ok := i.api.Memory().Read(pointer, size)
	if !ok {
		return nil, fmt.Errorf("a text of %d bytes at %#x is not in its memory", size, pointer)
	}
	return bytes.Clone(view), nil
}

// reserve makes room for size bytes in b.
func (i *instance) reserve(ctx context.Context, b *buffer, size int) error {
	if b.pointer != 0 && int(b.size) >= size {
		return nil
	}
	if b.pointer != 0 {
		if _, err := i.call(ctx, "pintle_free", uint64(b.pointer)); err != nil {
			return err
		}
	}
	want := uint32(max(size+size/4, 1024))
	pointer, err := i.call(ctx, "pintle_alloc", uint64(want))
	if err != nil {
		return err
	}
	b.pointer, b.size = uint32(pointer), want
	if b.pointer == 0 || b.pointer%8 != 0 {
		return fmt.Errorf("pintle_alloc returned %#x, want a multiple of 8 that is not 0", b.pointer)
	}
	if _, ok := i.api.Memory().Read(b.pointer, want); !ok {
		return fmt.Errorf("pintle_alloc returned %#x for %d bytes, which are not in its memory", b.pointer, want)
	}
	return nil
}

// view is the first size bytes of b, good until the next call.
func (i *instance) view(b buffer, size int) []byte {
	view, _ := i.api.Memory().Read(b.pointer, uint32(size)) // reserve looked
	return view
}

// answered turns a status of ABI.md into an error.
func (i *instance) answered(ctx context.Context, name string, status uint64) error {
	code := int32(status)
	if code == 0 {
		return nil
	}
	if code > 0 || code < -6 {
		return fmt.Errorf("%s: status %d is not in sdk/ABI.md", name, code)
	}
	text, err := i.fault(ctx)
	if err != nil {
		return err
	}
	if code == statusPanic {
		return i.said.explain(fmt.Errorf("%s: %s", name, text))
	}
	return &StatusError{Call: name, Status: code, Text: text}
}

// fault is what the module says of its last refusal.
func (i *instance) fault(ctx context.Context) (string, error) {
	span, err := i.call(ctx, "pintle_error")
	if err != nil {
		return "", err
	}
	text, err := i.text(span, maxText)
	return strings.ToValidUTF8(string(text), "\uFFFD"), err
}

// Status codes of ABI.md.
const (
	StatusPlugin    = -1
	StatusClass     = -2
	StatusNode      = -3
	StatusMalformed = -4
	statusPanic     = -5
)

// StatusError is a module's refusal with its code; it is ErrRefused.
type StatusError struct {
	Call   string
	Status int32
	Text   string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%s: status %d: %s", e.Call, e.Status, e.Text)
}

func (e *StatusError) Unwrap() error { return ErrRefused }

func (i *instance) Plugins() []*contractv1.PluginDescription { return i.plugins }
func (i *instance) MemoryBytes() int64                       { return int64(i.api.Memory().Size()) }

func (i *instance) Close(ctx context.Context) error {
	err := i.api.Close(ctx)
	if i.owned {
		err = errors.Join(err, i.module.Close(ctx))
	}
	return err
}

func (i *instance) Configure(ctx context.Context, plugin int, config []byte) error {
	if err := i.reserve(ctx, &i.data, len(config)); err != nil {
		return err
	}
	copy(i.view(i.data, len(config)), config)
	status, err := i.within(ctx, i.module.options.long(), "pintle_configure", uint64(uint32(plugin)), uint64(i.data.pointer), uint64(len(config)))
	if err != nil {
		return err
	}
	return i.answered(ctx, "pintle_configure", status)
}

func (i *instance) Apply(ctx context.Context, delta *contractv1.Delta) error {
	data, err := proto.Marshal(delta)
	if err != nil {
		return err
	}
	return i.ApplyEncoded(ctx, data)
}

func (i *instance) ApplyEncoded(ctx context.Context, delta []byte) error {
	if err := i.reserve(ctx, &i.data, len(delta)); err != nil {
		return err
	}
	copy(i.view(i.data, len(delta)), delta)
	status, err := i.call(ctx, "pintle_apply", uint64(i.data.pointer), uint64(len(delta)))
	if err != nil {
		return err
	}
	return i.answered(ctx, "pintle_apply", status)
}

// ask calls name about nodes, with scores in the answer's place if there are any.
func (i *instance) ask(ctx context.Context, name string, plugin int, class uint32, nodes []uint32, width int, scores []int64) ([]byte, error) {
	if err := i.reserve(ctx, &i.out, width*len(nodes)); err != nil {
		return nil, err
	}
	if err := i.reserve(ctx, &i.nodes, 4*len(nodes)); err != nil {
		return nil, err
	}
	view, out := i.view(i.nodes, 4*len(nodes)), i.view(i.out, width*len(nodes))
	for k, n := range nodes {
		binary.LittleEndian.PutUint32(view[4*k:], n)
	}
	// What the last call left must not pass for an answer.
	for k := range out {
		out[k] = 0xa5
	}
	for k, s := range scores {
		binary.LittleEndian.PutUint64(out[8*k:], uint64(s))
	}
	status, err := i.call(ctx, name, uint64(uint32(plugin)), uint64(class), uint64(i.nodes.pointer), uint64(len(nodes)), uint64(i.out.pointer))
	if err != nil {
		return nil, err
	}
	if err := i.answered(ctx, name, status); err != nil {
		return nil, err
	}
	return i.view(i.out, width*len(nodes)), nil
}

func (i *instance) Filter(ctx context.Context, plugin int, class uint32, nodes []uint32) ([][]string, error) {
	view, err := i.ask(ctx, "pintle_filter", plugin, class, nodes, 4, nil)
	if err != nil {
		return nil, err
	}
	verdicts := make([]uint32, len(nodes))
	for k := range verdicts {
		verdicts[k] = binary.LittleEndian.Uint32(view[4*k:])
	}
	out := make([][]string, len(nodes))
	for k, v := range verdicts {
		if v == 0 {
			continue
		}
		if out[k], err = i.reasons(ctx, plugin, v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (i *instance) reasons(ctx context.Context, plugin int, verdict uint32) ([]string, error) {
	if words, ok := i.words[plugin][verdict]; ok {
		return words, nil
	}
	if verdict > maxVerdict {
		return nil, fmt.Errorf("verdict %d, at most %d", verdict, maxVerdict)
	}
	span, err := i.call(ctx, "pintle_reason", uint64(uint32(plugin)), uint64(verdict))
	if err != nil {
		return nil, err
	}
	text, err := i.text(span, maxText)
	if err != nil {
		return nil, err
	}
	if len(text) == 0 {
		return nil, fmt.Errorf("verdict %d has no reason", verdict)
	}
	words := strings.Split(strings.ToValidUTF8(string(text), "\uFFFD"), "\n")
	i.words[plugin][verdict] = words
	return words, nil
}

func (i *instance) Score(ctx context.Context, plugin int, class uint32, nodes []uint32) ([]int64, error) {
	return i.scores(ctx, "pintle_score", plugin, class, nodes, nil)
}

func (i *instance) Normalize(ctx context.Context, plugin int, class uint32, nodes []uint32, scores []int64) ([]int64, error) {
	return i.scores(ctx, "pintle_normalize", plugin, class, nodes, scores)
}

func (i *instance) scores(ctx context.Context, name string, plugin int, class uint32, nodes []uint32, given []int64) ([]int64, error) {
	view, err := i.ask(ctx, name, plugin, class, nodes, 8, given)
	if err != nil {
		return nil, err
	}
	out := make([]int64, len(nodes))
	for k := range out {
		out[k] = int64(binary.LittleEndian.Uint64(view[8*k:]))
	}
	return out, nil
}

func (i *instance) Cycle(ctx context.Context, request *contractv1.CycleRequest) (*contractv1.CycleResponse, error) {
	if i.calls["pintle_cycle"] == nil || i.calls["pintle_answer"] == nil {
		return nil, errors.New("the module exports no pintle_cycle and pintle_answer (see sdk/ABI.md)")
	}
	data, err := proto.Marshal(request)
	if err != nil {
		return nil, err
	}
	if err := i.reserve(ctx, &i.data, len(data)); err != nil {
		return nil, err
	}
	copy(i.view(i.data, len(data)), data)
	status, err := i.call(ctx, "pintle_cycle", uint64(i.data.pointer), uint64(len(data)))
	if err != nil {
		return nil, err
	}
	if err := i.answered(ctx, "pintle_cycle", status); err != nil {
		return nil, err
	}
	span, err := i.call(ctx, "pintle_answer")
	if err != nil {
		return nil, err
	}
	text, err := i.text(span, maxDescription)
	if err != nil {
		return nil, err
	}
	response := &contractv1.CycleResponse{}
	if err := proto.Unmarshal(text, response); err != nil {
		return nil, fmt.Errorf("pintle_answer: %w", err)
	}
	return response, nil
}
